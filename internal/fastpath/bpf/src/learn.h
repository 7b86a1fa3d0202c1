/* How flows are learned. A flow is carried once the network itself has forwarded it under the
 * current rules: UDP in that direction, TCP in both.
 *
 * A slow packet is stamped with the current policy epoch. Behind all rules, where the network
 * hands the packet on, a second program reads the stamp. If it is that of the current epoch,
 * the current rules have let the packet pass. The stamp is skb->tc_index, which nothing in
 * between reads.
 *
 * The stamp outlives network namespaces. So the packet's last ingress device must be the pod's
 * own or the peer's; otherwise it has crossed something unknown. A tunnel device clears the
 * ingress device and the conntrack entry of a packet, so to_tunnel checks both in front of
 * it, and marks the stamp. */
#pragma once
#include "slots.h"
#include "conntrack.h"

#define STAMPED 0x8000
#define OURS 0xf800       /* the bits that say which fast path has stamped it */
#define CROSSED 0x0400    /* to_tunnel has checked it; on the way in: from_wire has, for from_tunnel */
#ifndef SHADOW
#define EPOCH_BITS 0x03ff /* the epoch does not wrap while a packet is under way */
#else
#define EPOCH_BITS 0x01ff
#define NUMBERED 0x0200   /* the stamp has the number of a packet, see shadow.h */
#endif

/* Distinguishes the stamps of several fast paths on one host, 0 to 15. */
const volatile __u32 stamp_id;

static __always_inline __u32 own_stamp(void)
{
	return STAMPED | stamp_id << 11;
}

static __always_inline void stamp(struct __sk_buff *skb)
{
	skb->tc_index = own_stamp() | (epoch & EPOCH_BITS);
}

/* The packet was stamped in the current epoch. */
static __always_inline int stamped(struct __sk_buff *skb, __u32 now)
{
	return skb->tc_index == (own_stamp() | (now & EPOCH_BITS));
}

/* Marks the stamp: the packet was checked in front of the tunnel, too. */
static __always_inline void stamp_tunnel(struct __sk_buff *skb, __u32 now)
{
	skb->tc_index = own_stamp() | CROSSED | (now & EPOCH_BITS);
}

static __always_inline int tunnel_stamped(struct __sk_buff *skb, __u32 now)
{
	return skb->tc_index == (own_stamp() | CROSSED | (now & EPOCH_BITS));
}

/* Clears a stamp of this fast path, which a packet has from before. */
static __always_inline void clear_stamp(struct __sk_buff *skb)
{
	__u32 is = skb->tc_index;

	if (is && (is & OURS) == own_stamp())
		skb->tc_index = 0;
}

/* Candidates: unknown flows, with the number of packets of each in both directions. Flows of
 * few packets never get an entry in the table of flows.
 *
 * They are kept in a set-associative cache of fixed size. An LRU map would take a lock, and
 * with more flows in turn than it has room for it would evict each before its next packet.
 * A new flow takes a free way of its set: one that is old, or whose flow has reached its
 * number of packets. If there is none, it takes one packet off a random way, and takes the
 * way once that has one packet left. So of any number of flows that take turns, some always
 * get through, and what a flood of short flows brings in goes with the flood. Cores share
 * the counts, and may lose one. */
#define CANDIDATE_SETS 65536
#define CANDIDATE_WAYS 4
#define CANDIDATE_OLD 30 /* ticks without a packet */

struct candidate {
	__u64 a, b;   /* the key of its flow */
	__u32 peer, peer_epoch; /* source of its last packet from the wire, see note_peer() */
	__u32 seal;   /* of the fields above, to detect a concurrent write */
	__u8 packets;
	__u8 seen;    /* tick of the last packet, lower bits */
	__u8 full;    /* FULL and the tick in which the table of flows had no room for it; or 0 */
	__u8 disputed; /* tick in which another peer than before has sent a packet, lower bits */
};

#define FULL 0x80 /* with the lower bits of a tick */

struct candidates {
	struct candidate ways[CANDIDATE_WAYS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CANDIDATE_SETS);
	__type(key, __u32);
	__type(value, struct candidates);
} candidates SEC(".maps");

static __always_inline struct candidates *candidate_set(__u64 a, __u64 b)
{
	__u64 hash = (a * 0x9e3779b97f4a7c15 ^ b) * 0xc2b2ae3d27d4eb4f;
	__u32 set = hash >> 48;

	return bpf_map_lookup_elem(&candidates, &set);
}

/* Finds the candidate of a flow; 0: there is none. */
static __always_inline struct candidate *find_candidate(__u64 a, __u64 b)
{
	struct candidates *set = candidate_set(a, b);
	int i;

	if (!set)
		return 0; /* impossible */
#pragma unroll
	for (i = 0; i < CANDIDATE_WAYS; i++)
		if (set->ways[i].a == a && set->ways[i].b == b)
			return &set->ways[i];
	return 0;
}

/* The way of a candidate is free for another. */
static __always_inline int replaceable(const struct candidate *c, __u8 now)
{
	return c->packets >= learn_after || !c->packets || (__u8)(now - c->seen) > CANDIDATE_OLD;
}

/* Finds the candidate of a flow, or makes it one; 0: there is no room. */
static __always_inline struct candidate *get_candidate(__u64 a, __u64 b)
{
	struct candidates *set = candidate_set(a, b);
	struct candidate *room = 0;
	__u8 now = tick;
	int i;

	if (!set)
		return 0; /* impossible */
#pragma unroll
	for (i = 0; i < CANDIDATE_WAYS; i++) {
		struct candidate *c = &set->ways[i];

		if (c->a == a && c->b == b) {
			c->seen = now;
			return c;
		}
		if (!room && replaceable(c, now))
			room = c;
	}
	if (!room) {
		room = &set->ways[bpf_get_prandom_u32() % CANDIDATE_WAYS];
		if (room->packets > 1) {
			room->packets--;
			return 0;
		}
	}
	room->a = a;
	room->b = b;
	room->packets = 0;
	room->full = 0;
	room->seen = now;
	room->peer_epoch = 0;
	room->disputed = now - 2;
	return room;
}

/* The digest of a candidate's flow and peer. */
static __always_inline __u32 digest(__u64 a, __u64 b, __u32 peer, __u32 peer_epoch)
{
	return shorten(nh(a, secret[7]) + nh(b, secret[8]) + nh((__u64)peer << 32 | peer_epoch, secret[9]));
}

/* Counts a packet of an unknown flow. Returns whether the flow has sent enough to be learned;
 * why is the reason that the packet is slow. */
static __always_inline int count_candidate(const struct parsed *p, int *why)
{
	union flow_words k = words_of(p);
	struct candidate *c;
	__u64 a, b;

	candidate_key(&k, &a, &b);
	c = get_candidate(a, b);
	*why = SLOW_UNKNOWN;
	if (!c)
		return 0;
	if (c->packets < learn_after)
		c->packets++;
	if (c->full && ((tick - c->full) & (FULL - 1)) <= 1)
		*why = SLOW_FULL;
	return c->packets >= learn_after;
}

/* There is no room for a flow that would be learned. This packet was counted already, so the
 * next ones give that reason. */
static __always_inline void note_full(const union flow_words *k)
{
	struct candidate *c;
	__u64 a, b;

	candidate_key(k, &a, &b);
	c = find_candidate(a, b);
	if (c)
		c->full = tick | FULL;
}

/* A packet from the wire is from this peer. If the network forwards it to the pod, the flow is
 * learned for packets from this peer. The packet does not say then whose it was. So while another peer sends packets
 * of the flow too, which rules may drop, and for a tick more, nothing is learned of either's. */
static __always_inline void note_peer(struct __sk_buff *skb, const struct parsed *p, __u32 peer, __u32 peer_epoch)
{
	union flow_words k = words_of(p);
	struct candidate *c;
	__u8 now = tick;
	__u32 seal;
	__u64 a, b;

	candidate_key(&k, &a, &b);
	c = get_candidate(a, b);
	if (!c)
		return;
	seal = digest(a, b, peer, peer_epoch);
	if (c->peer_epoch && c->peer != peer)
		c->disputed = now;
	c->peer = peer;
	c->peer_epoch = peer_epoch;
	if ((__u8)(now - c->disputed) <= 1) {
		c->seal = ~seal;
		return;
	}
	c->seal = seal;
	stamp(skb);
}

/* A packet on the wire has the headers that a carried packet would get. */
static __always_inline int same_headers(const void *data, const struct peer *to);

/* UDP is carried in each direction seen in this epoch, and TCP once both were, between the same pod and peer. */
static __always_inline void promote(const struct flow_key *k, struct flow *f, __u32 proof, __u32 now)
{
	if ((k->tenant_proto & 0xff) == IPPROTO_UDP || (f->seen_out == proof && f->seen_in == proof))
		f->epoch = now;
}

/* Invalidates what was learned of a flow. */
static __always_inline void reset_flow(const struct flow_key *k, struct flow *f)
{
	f->epoch = 0;
	f->seen_out = 0;
	f->seen_in = 0;
	bump_group(k);
}

/* Invalidates the slots of a flow that was carried before its entry was changed, or is now. A
 * flow that is not carried has none, and must not cost those of its group theirs. */
static __always_inline void bump_carried(const struct flow_key *k, const struct flow *f, __u32 was)
{
	if (was || read_once(&f->epoch)) /* another core may have set it */
		bump_group(k);
}

/* Finds or makes an entry of a flow, with the other key that the flow has if it is translated,
 * else 0. An entry with another one is that of an earlier connection. 0: there is no room. */
static __always_inline struct flow *get_entry(const struct flow_key *k, const struct flow_key *other)
{
	struct flow fresh = {.used = tick};
	struct flow *f = bpf_map_lookup_elem(&flows, k);

	if (f && (other ? f->translated && same_ends(&f->other, other) : !f->translated))
		return f;
	if (f)
		delete_entry(k);
	if (other) {
		fresh.translated = 1;
		to_ends(&fresh.other, other);
	}
	bpf_map_update_elem(&flows, k, &fresh, BPF_NOEXIST);
	f = bpf_map_lookup_elem(&flows, k);
	/* Another core may have been faster, with another connection. */
	return f && (other ? f->translated && same_ends(&f->other, other) : !f->translated) ? f : 0;
}

/* Finds or makes the entry of a flow that connection tracking allows, by the key that its pod
 * sees; wire is the other one, if it is translated, and gets what pod gets: numbers. 0: it is not
 * to be carried yet. The first reply invalidates what was learned before it. A direct flow between
 * the ends that a translated one has on the wire is over: conntrack gives them to one connection
 * at a time. */
static __always_inline struct flow *get_flow(union flow_words *pod, union flow_words *wire, const struct ct_state *t)
{
	struct flow *f = 0, *at, *direct;
	struct flow_key seen;

	if (give_numbers(pod, wire, t->translated))
		f = get_entry(&pod->key, t->translated ? &wire->key : 0);
	if (f && t->translated) {
		seen = wire->key;
		seen.tenant_proto |= WIRE_VIEW;
		direct = bpf_map_lookup_elem(&flows, &wire->key);
		if (direct && !direct->translated)
			delete_entry(&wire->key); /* it would hide this one */
		at = get_entry(&seen, &pod->key);
		if (at)
			at->used = tick;
		else
			f = 0;
	}
	if (!f) {
		note_full(pod); /* the candidate of what the pod sends, and that of what comes back */
		if (t->translated)
			note_full(wire);
		return 0;
	}
	if (f->unreplied != t->unreplied) {
		f->unreplied = t->unreplied;
		reset_flow(&pod->key, f);
	}
	return conntrack_ready(&pod->key, f, t) ? f : 0;
}

/* The pod with an address, the ifindex of its device, and its epoch; 0: there is none. The entry of pod_at may have
 * become that of another address while it was read. The epoch is read before all that it vouches for, as the
 * daemon may make the entry that of another pod meanwhile: what is learned is not that one's then. */
static __always_inline struct pod *pod_of(__be32 addr, __u32 tenant, __u32 *device, __u32 *pod_epoch)
{
	struct pod_key who = {.tenant = tenant, .addr = addr};
	__u32 *at = bpf_map_lookup_elem(&pod_at, &who);
	struct pod *pod;

	*device = *pod_epoch = 0; /* or they may be read unwritten, for what the kernel can tell */
	if (!at)
		return 0;
	*device = read_once(at);
	pod = bpf_map_lookup_elem(&pods, device);
	if (!pod)
		return 0;
	*pod_epoch = read_once(&pod->epoch);
	return *pod_epoch && read_once(&pod->addr) == addr ? pod : 0;
}

/* An address is that of a pod of this host. */
static __always_inline int is_pod(__be32 addr, __u32 tenant)
{
	__u32 device, pod_epoch;

	return maybe_pod(addr) && pod_of(addr, tenant, &device, &pod_epoch);
}

/* The network sends a pod's packet to a peer, behind all rules, also those for the outer
 * headers. at is the offset of the pod's IP header, via the next hop. Carried
 * packets keep the outer source port, so those who track or balance the outer flow see no
 * difference. crossed: to_tunnel has checked the ingress device and connection tracking;
 * otherwise that is done here. */
static __always_inline int learn_out(struct __sk_buff *skb, __u32 at, const struct hop_key *via, __u32 tenant, __be16 port, __u32 now, int crossed)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	union flow_words own, wire;
	struct ct_state t;
	__u64 ignored;
	__u32 device, number, pod_epoch, peer_epoch, proof, was;
	struct flow *f = 0;
	struct parsed p;
	struct peer *peer;
	struct pod *pod;
	struct hop *to;

	/* A VLAN device upon the wire sends through it: its tag is not among the headers yet. */
	if (skb->vlan_present || data + at > end || parse(data + at, end, OUT, &p) || p.flags)
		return NEXT;
	to = bpf_map_lookup_elem(&hops, via);
	if (!to || to->tenant != tenant)
		return NEXT;
	name_flow(&p);
	p.key.tenant_proto |= tenant << 8;
	wire = own = words_of(&p);
	if (crossed) {
		if (carry_translated)
			f = flow_on_wire(&wire.key, &own, &ignored);
		if (!f) {
			own = wire;
			f = bpf_map_lookup_elem(&flows, &own.key);
			if (!f || f->translated)
				return NEXT;
		}
	} else {
		if (!conntrack_allows(skb, &wire, OUT, &t))
			return NEXT;
		/* Anybody may send resets to an address of the host. What they end is for connection tracking to
		 * judge, which does not see how far a carried connection has come. */
		if (t.translated && (wire.key.tenant_proto & 0xff) == IPPROTO_TCP && !is_pod(wire.key.local, tenant))
			return NEXT;
		if (t.translated)
			own = t.before;
	}
	number = read_once(&to->peer);
	pod = pod_of(own.key.local, tenant, &device, &pod_epoch);
	peer = bpf_map_lookup_elem(&peers, &number);
	if (!pod || !peer)
		return NEXT;
	peer_epoch = read_once(&peer->epoch); /* before the rest of it, as pod_of() does */
	if (!peer_epoch || !same_headers(data, peer))
		return NEXT;
	if (skb->ingress_ifindex != (crossed ? 0 : pod->ingress_ifindex))
		return NEXT;
	if (!crossed)
		f = get_flow(&own, &wire, &t);
	if (!f)
		return NEXT;
	if (carry_translated && !crossed && t.translated) {
		ip_addr local = local_of(&wire);

		if (!maybe_local_pod(short_addr(&local)))
			note_translated(short_addr(&local)); /* masquerade, or a port of the host: what comes back is for that */
	}
	was = f->epoch;
	f->epoch = 0; /* not carried while it is changed */
	if (f->pod != device || f->pod_epoch != pod_epoch || f->peer != number || f->peer_epoch != peer_epoch)
		f->seen_in = 0; /* that was another pod or peer */
	f->port = port;
	f->pod = device;
	f->pod_epoch = pod_epoch;
	f->peer = number;
	f->peer_epoch = peer_epoch;
	f->used = tick;
	proof = proof_of(&own.key, &wire.key, pod_epoch, number, peer_epoch, now);
	f->seen_out = proof;
	promote(&own.key, f, proof, now);
	if (epoch != now)
		f->epoch = 0; /* the rules have changed meanwhile */
	bump_carried(&own.key, f, was);
	return NEXT;
}

/* Learns from a packet that the network hands to a pod, if another pod of this host has sent it.
 * 0: that is not so. */
static __always_inline int learn_sibling(struct __sk_buff *skb, const void *eth, __u32 device, const struct pod *pod, __u32 to_epoch, const union flow_words *in, const struct ct_state *t, __u32 now);

/* What another pod of this host has sent, as it has, is translated on its way, and is not to be carried. Its packets
 * are counted from the beginning, so that one of many is stamped, and looked at here. */
static __always_inline int recount_sibling(const union flow_words *in);

/* The network hands a packet to a pod, behind all rules. */
static __always_inline int learn_in(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	__u32 now = epoch, device = skb->ifindex, number, pod_epoch, peer_epoch, proof, was;
	union flow_words own, *wire;
	struct candidate *c;
	struct ct_state t;
	struct parsed p;
	struct peer *peer;
	struct flow *f;
	struct pod *pod;
	__u64 a, b;

	if (!stamped(skb, now))
		return NEXT;
	skb->tc_index = 0;
	if (skb->vlan_present || data + ETH_HLEN > end || skb->protocol != bpf_htons(ETHERTYPE) || parse(data + ETH_HLEN, end, IN, &p) || p.flags)
		return NEXT;
	pod = bpf_map_lookup_elem(&pods, &device);
	if (!pod)
		return NEXT;
	pod_epoch = read_once(&pod->epoch); /* before the rest of it, as pod_of() does */
	if (!pod_epoch)
		return NEXT;
	name_flow(&p);
	/* A packet for another address is only passing: a pod may be a router. */
	if (read_once(&pod->addr) != p.key.local)
		return NEXT;
	p.key.tenant_proto |= pod->tenant << 8;
	own = words_of(&p);
	if (!conntrack_allows(skb, &own, IN, &t))
		return NEXT;
	wire = t.translated ? &t.before : &own; /* a copy of either has no room on the stack */
	if (!SIBLINGS_TRANSLATED && t.translated) {
		if (is_pod(t.before.key.remote, pod->tenant))
			return recount_sibling(&t.before);
	} else if (learn_sibling(skb, data, device, pod, pod_epoch, &own, &t, now)) {
		return NEXT;
	}
	candidate_key(wire, &a, &b);
	c = find_candidate(a, b);
	if (!c)
		return NEXT;
	number = c->peer;
	peer = bpf_map_lookup_elem(&peers, &number);
	if (!peer)
		return NEXT;
	peer_epoch = read_once(&peer->epoch);
	if (!peer_epoch || c->seal != digest(a, b, number, peer_epoch) || peer->ingress_ifindex != skb->ingress_ifindex)
		return NEXT;
	f = get_flow(&own, wire, &t);
	if (!f)
		return NEXT;
	if (f->pod != device || f->pod_epoch != pod_epoch || f->peer != number || f->peer_epoch != peer_epoch) {
		if (f->peer != number && f->seen_out == proof_of(&own.key, &wire->key, f->pod_epoch, f->peer, f->peer_epoch, now))
			return NEXT; /* replies come from another peer */
		reset_flow(&own.key, f);
		f->pod = device;
		f->pod_epoch = pod_epoch;
		f->peer = number;
		f->peer_epoch = peer_epoch;
	}
	was = f->epoch;
	f->used = tick;
	proof = proof_of(&own.key, &wire->key, pod_epoch, number, peer_epoch, now);
	f->seen_in = proof;
	promote(&own.key, f, proof, now);
	if (epoch != now)
		f->epoch = 0;
	bump_carried(&own.key, f, was);
	return NEXT;
}

#ifdef SHADOW
/* If the packet has a number, records what the network has made of it. */
static __always_inline int passed_on(struct __sk_buff *skb, enum direction dir);
#endif

/* The same for both kinds; to_peer differs. */
SEC("tc/to_pod")
int to_pod(struct __sk_buff *skb)
{
#ifdef SHADOW
	if (passed_on(skb, IN))
		return NEXT;
#endif
	return learn_in(skb);
}
