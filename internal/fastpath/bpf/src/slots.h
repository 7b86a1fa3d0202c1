/* A cache of flows for each core, with all that it takes to carry them: two cache lines,
 * found without a call.
 *
 * A slot is a copy from the tables. It is valid for one tick, and no longer than the policy
 * epoch, the version of pods and peers, and the version of its group of flows stay the same.
 * These numbers are read before the tables, and incremented after a table was written. A
 * slot belongs to one core, so no other reads it half written. */
#pragma once
#include "packet.h"

#define SLOTS 2048 /* for each core */
#define GROUPS 256 /* of flows */

struct slot {
	__u64 a, b; /* the key, as struct parsed has it */
	__u64 ended; /* this and the next three: the numbers at the time of the copy */
	__u32 tick, epoch, version;
	__u16 pod;  /* index of its device on the machine */
	__u8 translated; /* the slot has a translation, and serves one direction */
	__u8 segmented; /* SEGMENTED and the tick of the last packet from the wire, of any flow, that is to be cut; or 0 */
	__u32 wire; /* index of the device on the wire */
	__u16 size[2]; /* largest IP packet in each direction: to the peer, and to the pod; 0: none is carried */
	__be16 port;
	__u16 sum;
	__u16 macs[6];
	__u64 header[HEADER_LEN / 8];
};

#define SEGMENTED 0x80 /* with the lower bits of a tick */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE); /* so that it is page-aligned */
	__uint(max_entries, SLOTS); /* times the number of cores, see ../slots.go */
	__type(key, __u32);
	__type(value, struct slot);
} slots SEC(".maps");

/* How packets of a slot's flow are translated, in the slot's direction. */
struct translation {
	__u64 ended; /* version of the group below at the time of the copy */
	__u32 group; /* of the flow as its pod sees it */
	__u32 dir;
	ip_addr saddr, daddr;
	__u32 ports;
	__u32 addr_difference, port_difference; /* of the checksums; 0: they stay the same */
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SLOTS); /* as slots */
	__type(key, __u32);
	__type(value, struct translation);
} translations SEC(".maps");

/* Versions of groups of flows. Programs increment the lower half, and the daemon the upper. */
volatile __u64 ended[GROUPS] = {1};

/* Packets from a pod are looked up without the tenant, and those of the wire without WIRE_VIEW. */
#define NO_TENANT 0xffffffff0000007f

static __always_inline __u64 hash_key(__u64 a, __u64 b)
{
	return (a & NO_TENANT) * 0x9e3779b97f4a7c15 + b * 0xc2b2ae3d27d4eb4f;
}

/* The same of a key that may not be read as words in place: it is aligned to 4 bytes, as its fields are. */
static __always_inline __u64 hash_of(const struct flow_key *k)
{
	__u64 words[2];

	__builtin_memcpy(words, k, sizeof(words));
	return hash_key(words[0], words[1]);
}

/* The part of a proof that is of a key. */
static __always_inline __u64 prove_key(const struct flow_key *k, const volatile __u64 *keys)
{
	__u64 words[2];

	__builtin_memcpy(words, k, sizeof(words));
	return nh(words[0] & NO_TENANT, keys[0]) + nh(words[1], keys[1]);
}

/* That the network has forwarded a flow in a policy epoch: the epoch, with a hash of both keys of the flow, or twice
 * the only one, and of the pod and the peer between which that was; never 0.
 *
 * Several cores may write an entry at a time, one of them by another route, or still write to it when it is another
 * flow's: the kernel gives the memory of a deleted entry to the next one at once. So an entry may be a mixture. A
 * direction is carried only if its proof is that of all else that is read. */
static __always_inline __u32 proof_of(const struct flow_key *own, const struct flow_key *wire, __u32 pod_epoch, __u32 peer, __u32 peer_epoch, __u32 now)
{
	__u64 hash = prove_key(own, secret + 1) + prove_key(wire, secret + 3) + nh((__u64)peer << 32 | peer_epoch, secret[5]) + nh(pod_epoch, secret[6]);
	__u32 proof = now ^ shorten(hash);

	return proof ? proof : 1;
}

/* The group of a flow, by the hash of its key; ../slots.go computes the same. */
static __always_inline __u32 group_of(__u64 hash)
{
	return hash >> 40 & (GROUPS - 1);
}

/* The entry of a flow was changed or deleted: invalidates its slots. The result is used, because an atomic
 * instruction without one orders no other memory accesses, on arm64 for example. */
static __always_inline void bump_group(const struct flow_key *k)
{
	__u32 was = __sync_fetch_and_add((volatile __u32 *)&ended[group_of(hash_of(k))], 1);

	asm volatile("" : : "r"(was));
}

/* Deletes an entry, if there is one. */
static __always_inline void delete_entry(const struct flow_key *k)
{
	if (!bpf_map_delete_elem(&flows, k))
		bump_group(k);
}

/* The slot of a flow on this core; another flow may be in it. */
static __always_inline struct slot *slot_of(__u64 hash)
{
	__u32 at = bpf_get_smp_processor_id() * SLOTS + (hash >> 53);

	return bpf_map_lookup_elem(&slots, &at);
}

/* The slot of a packet's flow, and the hash of the flow's key. The key has no tenant yet. */
static __always_inline struct slot *slot_of_packet(struct parsed *p, __u64 *hash)
{
#ifdef INET6
	__u64 h = p->local.a * 0x9e3779b97f4a7c15 + p->local.b * 0xc2b2ae3d27d4eb4f + p->remote.a * 0xd6e8feb86659fd93 +
		  p->remote.b * 0xa0761d6478bd642f + (p->a ^ p->b) * 0xe7037ed1a0b428db;
	__u32 at = bpf_get_smp_processor_id() * SLOTS + (h >> 53);
	struct slot *s = bpf_map_lookup_elem(&slots, &at);

	p->at = at;
	p->names = bpf_map_lookup_elem(&slot_names, &at);
	if (!s || !p->names)
		return 0; /* impossible */
	if (s->version == version && (__u8)s->a == (__u8)p->a && s->b >> 32 == p->b >> 32 && same_addr(&p->names->local, &p->local) && same_addr(&p->names->remote, &p->remote)) {
		p->a = s->a & NO_TENANT;
		p->b = s->b;
	} else {
		name_flow(p); /* what has no number is of no known flow */
	}
	*hash = hash_key(p->a, p->b);
	return s;
#else
	*hash = hash_key(p->a, p->b);
	return slot_of(*hash);
#endif
}

/* The translation of the slot of a packet's flow. */
static __always_inline struct translation *translation_of(const struct parsed *p, __u64 hash)
{
#ifdef INET6
	__u32 at = p->at;
#else
	__u32 at = bpf_get_smp_processor_id() * SLOTS + (hash >> 53);
#endif

	return bpf_map_lookup_elem(&translations, &at);
}

/* A translation is still valid for packets of a direction. */
static __always_inline int translation_valid(const struct translation *n, enum direction dir)
{
	return n && n->dir == dir && n->ended == ended[n->group & (GROUPS - 1)];
}

/* The slot is still valid. */
static __always_inline int slot_valid(const struct slot *s, __u64 hash)
{
	return s->epoch == epoch && s->tick == tick && s->version == version && s->ended == ended[group_of(hash)];
}

/* Finds the entry of a translated flow by its key on the wire; 0: there is none. pod gets the
 * key that its pod sees, number the version of that key's group before its entry was read. */
static __always_inline struct flow *flow_on_wire(const struct flow_key *wire, union flow_words *pod, __u64 *number)
{
	struct flow_key k = *wire;
	struct flow *seen, *f;
	__u32 t = tick;

	k.tenant_proto |= WIRE_VIEW;
	seen = bpf_map_lookup_elem(&flows, &k);
	if (!seen)
		return 0;
	other_key(&pod->key, wire->tenant_proto, &seen->other);
	*number = __sync_fetch_and_add(&ended[group_of(hash_key(pod->a, pod->b))], 0);
	f = bpf_map_lookup_elem(&flows, &pod->key);
	if (!f || !f->translated || !same_ends(&f->other, wire))
		return 0;
	if (seen->used != t)
		seen->used = t;
	return f;
}

/* The ports of a packet of a flow, in their order in its header. */
static __always_inline __u32 ports_of(const struct flow_key *k, enum direction dir)
{
	return dir == OUT ? k->local_port | (__u32)k->remote_port << 16 : k->remote_port | (__u32)k->local_port << 16;
}

/* Fills the translation of a slot. */
static __always_inline void fill_translation(struct translation *n, const struct parsed *p, const union flow_words *to, enum direction dir)
{
	union flow_words from = words_of(p);
	__u32 was = ports_of(&p->key, dir);

	n->dir = dir;
	n->saddr = dir == OUT ? local_of(to) : remote_of(to);
	n->daddr = dir == OUT ? remote_of(to) : local_of(to);
	n->ports = ports_of(&to->key, dir);
	n->addr_difference = 0;
	if (to->key.local != p->key.local || to->key.remote != p->key.remote)
		n->addr_difference = difference(sum_of(local_of(&from)) + sum_of(remote_of(&from)), sum_of(local_of(to)) + sum_of(remote_of(to)), 2 * ADDR_WORDS);
	n->port_difference = was == n->ports ? 0 : difference(was, n->ports, 2);
}

/* What a slot has of the way from one pod of this host to another. */
static __always_inline void fill_sibling(struct slot *s, int proven, __u32 way, const struct flow_key *k, const struct pod *from, const struct pod *to);

/* Fills a slot from the tables. 0: the flow can be carried, at least in one direction. */
static __always_inline int fill_slot(struct slot *s, struct translation *n, const struct parsed *p, __u64 hash, enum direction dir)
{
	__u32 now = epoch, v = version, t = tick;
	/* A full barrier: the tables are read after the numbers. */
	__u64 number = __sync_fetch_and_add(&ended[group_of(hash)], 0), at_pod = number;
	struct flow *f = bpf_map_lookup_elem(&flows, &p->key);
	union flow_words to = {}; /* older kernels do not know that it is read only if it was filled */
	struct pod *pod, *sibling = 0;
	struct peer *peer = 0;
	__u32 device, to_device, way, pod_epoch, peer_epoch, proof;
	int i, out, in, translated = f && f->translated;

#ifdef INET6
	/* The numbers may have been taken back before the version was read, unless it is that of a pod which is
	 * there. */
	if (number_of(&p->local) != p->key.local || number_of(&p->remote) != p->key.remote)
		return SLOW_UNKNOWN;
#endif

	/* A flow that a pod sees under this key is another one on the wire. */
	if (carry_translated && dir == IN && (!f || translated)) {
		f = flow_on_wire(&p->key, &to, &at_pod);
		translated = 1;
	} else if (translated) {
		other_key(&to.key, p->key.tenant_proto, &f->other);
	}
	if (!f || (translated && !carry_translated))
		return SLOW_UNKNOWN; /* before the slot is written, or the next packet would find it valid */
	if (f->epoch != now)
		return f->epoch ? SLOW_STALE : SLOW_UNPROVEN;
	device = read_once(&f->pod);
	way = read_once(&f->peer);
	pod_epoch = read_once(&f->pod_epoch);
	peer_epoch = read_once(&f->peer_epoch);
	if (!translated)
		proof = proof_of(&p->key, &p->key, pod_epoch, way, peer_epoch, now);
	else if (dir == OUT)
		proof = proof_of(&p->key, &to.key, pod_epoch, way, peer_epoch, now);
	else
		proof = proof_of(&to.key, &p->key, pod_epoch, way, peer_epoch, now);
	out = read_once(&f->seen_out) == proof;
	in = read_once(&f->seen_in) == proof;
	pod = bpf_map_lookup_elem(&pods, &device);
	if (way & SIBLING) {
		to_device = way & DEVICE_OF_SIBLING;
		sibling = bpf_map_lookup_elem(&pods, &to_device);
		if (!sibling || peer_epoch != sibling->epoch)
			return SLOW_STALE;
	} else {
		peer = bpf_map_lookup_elem(&peers, &way);
		if (!peer || peer_epoch != peer->epoch)
			return SLOW_STALE;
	}
	if (!pod || pod_epoch != pod->epoch)
		return SLOW_STALE;
	if ((p->key.tenant_proto & 0xff) == IPPROTO_TCP && !(out && in))
		return SLOW_UNPROVEN;
	if (translated && !find_addrs(&to, p))
		return SLOW_STALE;
	if (f->used != t)
		f->used = t;
	s->a = p->a;
	s->b = p->b;
#ifdef INET6
	p->names->local = p->local;
	p->names->remote = p->remote;
#endif
	s->ended = number;
	s->tick = t;
	s->epoch = now;
	s->version = v;
	s->pod = device;
	s->translated = translated;
	if (sibling) {
		fill_sibling(s, out, way, &p->key, pod, sibling);
	} else if (peer) {
		s->wire = peer->ifindex;
		s->size[OUT] = out ? peer->size : 0;
		/* Carried packets reach a pod whatever its MAC is; on the slow path they would not. */
		s->size[IN] = in && pod->mac_epoch == pod->epoch ? pod->size : 0;
		s->port = f->port;
		s->sum = peer->sum;
		for (i = 0; i < MAC_LEN; i++)
			s->macs[i] = pod->header[i];
		for (i = 0; i < HEADER_LEN / 8; i++)
			s->header[i] = peer->header[i];
	}
	if (translated) {
		if (!n)
			return SLOW_UNKNOWN; /* impossible: the slot has one; for the verifier */
		s->size[dir == OUT ? IN : OUT] = 0;
		n->ended = at_pod;
		n->group = group_of(dir == OUT ? hash : hash_key(to.a, to.b));
		fill_translation(n, p, &to, dir);
		if (!translation_valid(n, dir))
			return SLOW_STALE; /* the entry may have been another flow's meanwhile */
	}
	return 0;
}
