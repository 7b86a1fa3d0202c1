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
	__u32 pod;  /* index of its device on the machine */
	__u32 wire; /* and of that on the wire */
	__u16 size[2]; /* largest IP packet in each direction: to the peer, and to the pod; 0: none is carried */
	__be16 port;
	__u16 sum;
	__u16 macs[6];
	__u64 header[HEADER_LEN / 8];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE); /* so that it is page-aligned */
	__uint(max_entries, SLOTS); /* times the number of cores, see ../slots.go */
	__type(key, __u32);
	__type(value, struct slot);
} slots SEC(".maps");

/* Versions of groups of flows. Programs increment the lower half, and the daemon the upper. */
volatile __u64 ended[GROUPS] = {1};

#define NO_TENANT 0xffffffff000000ff /* packets from a pod are looked up without it */

static __always_inline __u64 hash_key(__u64 a, __u64 b)
{
	return (a & NO_TENANT) * 0x9e3779b97f4a7c15 + b * 0xc2b2ae3d27d4eb4f;
}

/* The group of a flow, by the hash of its key; ../slots.go computes the same. */
static __always_inline __u32 group_of(__u64 hash)
{
	return hash >> 40 & (GROUPS - 1);
}

/* The entry of a flow was changed or deleted: invalidates its slots. */
static __always_inline void bump_group(const struct flow_key *k)
{
	const __u64 *words = (const void *)k;

	__sync_fetch_and_add((volatile __u32 *)&ended[group_of(hash_key(words[0], words[1]))], 1);
}

/* The slot of a flow on this core; another flow may be in it. */
static __always_inline struct slot *slot_of(__u64 hash)
{
	__u32 at = bpf_get_smp_processor_id() * SLOTS + (hash >> 53);

	return bpf_map_lookup_elem(&slots, &at);
}

/* The slot is still valid. */
static __always_inline int slot_valid(const struct slot *s, __u64 hash)
{
	return s->epoch == epoch && s->tick == tick && s->version == version && s->ended == ended[group_of(hash)];
}

/* Fills a slot from the tables. 0: the flow can be carried, at least in one direction. */
static __always_inline int fill_slot(struct slot *s, const struct parsed *p, __u64 hash)
{
	__u32 now = epoch, n = version, t = tick;
	/* A full barrier: the tables are read after the numbers. */
	__u64 number = __sync_fetch_and_add(&ended[group_of(hash)], 0);
	struct flow *f = bpf_map_lookup_elem(&flows, &p->key);
	struct peer *peer;
	struct pod *pod;
	int i;

	if (!f)
		return SLOW_UNKNOWN;
	if (f->epoch != now)
		return f->epoch ? SLOW_STALE : SLOW_UNPROVEN;
	pod = bpf_map_lookup_elem(&pods, &f->pod);
	peer = bpf_map_lookup_elem(&peers, &f->peer);
	if (!pod || !peer || f->pod_epoch != pod->epoch || f->peer_epoch != peer->epoch)
		return SLOW_STALE;
	if (f->used != t)
		f->used = t;
	s->a = p->a;
	s->b = p->b;
	s->ended = number;
	s->tick = t;
	s->epoch = now;
	s->version = n;
	s->pod = f->pod;
	s->wire = peer->ifindex;
	s->size[OUT] = f->seen_out == now ? peer->size : 0;
	/* Carried packets reach a pod whatever its MAC is; on the slow path they would not. */
	s->size[IN] = f->seen_in == now && pod->mac_epoch == pod->epoch ? pod->size : 0;
	s->port = f->port;
	s->sum = peer->sum;
	for (i = 0; i < MAC_LEN; i++)
		s->macs[i] = pod->header[i];
	for (i = 0; i < HEADER_LEN / 8; i++)
		s->header[i] = peer->header[i];
	return 0;
}
