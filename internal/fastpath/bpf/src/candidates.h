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
#pragma once
#include "slots.h"
#include "stamp.h"

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

/* The set of a flow. Nobody can choose flows of the same set as another's, to push that out. The secrets are not those
 * of digest(), which is to tell the flows of a set apart. The sum grows evenly from one port to the next, and with some
 * secrets so would its upper bits: the flows from a range of ports would share a few sets, and push each other out. */
static __always_inline struct candidates *candidate_set(__u64 a, __u64 b)
{
	__u64 hash = nh(a, secret[10]) + nh(b, secret[11]);
	__u32 set = shorten(hash ^ hash >> 32) / (0x100000000 / CANDIDATE_SETS);

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
