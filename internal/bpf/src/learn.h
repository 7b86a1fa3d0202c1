/* How a flow comes to be carried: the network itself has forwarded it, both
 * ways, under the rules of now.
 *
 * A packet that goes the slow way is stamped with the epoch of policy in which
 * it set out. Where the network hands it on, behind all of its rules, a second
 * program reads the stamp: of the epoch of now, it is a verdict of the rules of
 * now. The stamp is skb->tc_index, which nothing between the two looks at. */
#pragma once
#include "known.h"
#include "track.h"

#define STAMPED 0x8000
#define OURS 0xf800       /* the bits that say whose stamp it is */
#define EPOCH_BITS 0x07ff /* so many changes of rules do not happen while a packet is under way */

/* Fast paths of one machine tell their stamps apart by a number, up to 15. */
const volatile __u32 stamp_id;

static __always_inline __u32 ours(void)
{
	return STAMPED | stamp_id << 11;
}

static __always_inline void stamp(struct __sk_buff *skb)
{
	skb->tc_index = ours() | (epoch & EPOCH_BITS);
}

/* The packet set out in the epoch of now. */
static __always_inline int stamped(struct __sk_buff *skb, __u32 now)
{
	return skb->tc_index == (ours() | (now & EPOCH_BITS));
}

/* Only we stamp as we do: what comes with such a stamp has it from elsewhere. */
static __always_inline void unstamp(struct __sk_buff *skb)
{
	__u32 is = skb->tc_index;

	if (is && (is & OURS) == ours())
		skb->tc_index = 0;
}

/* Flows that are not known yet, and how many packets of each there were, either way: an
 * end that only receives must not wait for its own eighth answer. A flow of few packets
 * never costs an entry in the table of flows.
 *
 * The candidates are a set-associative cache of a fixed size, of which one lookup finds
 * a set: an LRU map would take a lock, and with more flows in turn than it has room for
 * would forget each before its next packet. A newcomer takes a way that is free: one that is
 * old, or whose flow had its packets. Where none is, it takes a packet from one of them
 * at random, and the way itself if it had no more. So any number of flows that take turns
 * come to their packets, some of them at a time, and what a flood of short flows brings
 * in goes again with the flood. Cores count together, and may lose a packet of it. */
#define CANDIDATE_SETS 65536
#define CANDIDATE_WAYS 4
#define CANDIDATE_OLD 30 /* ticks in which one was not seen */

struct candidate {
	__u64 a, b;   /* the key of its flow */
	__u8 packets;
	__u8 seen;    /* tick, its lower bits */
	__u8 full;    /* tick in which the table of flows had no room for it, and FULL; or 0 */
	__u8 pad[5];
};

#define FULL 0x80 /* beside the lower bits of a tick */

struct candidates {
	struct candidate ways[CANDIDATE_WAYS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CANDIDATE_SETS);
	__type(key, __u32);
	__type(value, struct candidates);
} candidates SEC(".maps");

static __always_inline struct candidates *candidates_of(const struct parsed *p)
{
	__u64 mixed = (p->a * 0x9e3779b97f4a7c15 ^ p->b) * 0xc2b2ae3d27d4eb4f;
	__u32 set = mixed >> 48;

	return bpf_map_lookup_elem(&candidates, &set);
}

/* The candidate of a flow; 0: it has none. */
static __always_inline struct candidate *candidate(const struct parsed *p)
{
	struct candidates *set = candidates_of(p);
	int i;

	if (!set)
		return 0; /* cannot be */
#pragma unroll
	for (i = 0; i < CANDIDATE_WAYS; i++)
		if (set->ways[i].a == p->a && set->ways[i].b == p->b)
			return &set->ways[i];
	return 0;
}

/* A candidate makes room for another. */
static __always_inline int done(const struct candidate *c, __u8 now)
{
	return c->packets >= learn_after || !c->packets || (__u8)(now - c->seen) > CANDIDATE_OLD;
}

/* The candidate of a flow, which becomes one if it is none and there is room; else 0. */
static __always_inline struct candidate *become_candidate(const struct parsed *p)
{
	struct candidates *set = candidates_of(p);
	struct candidate *room = 0;
	__u8 now = tick;
	int i;

	if (!set)
		return 0; /* cannot be */
#pragma unroll
	for (i = 0; i < CANDIDATE_WAYS; i++) {
		struct candidate *c = &set->ways[i];

		if (c->a == p->a && c->b == p->b) {
			c->seen = now;
			return c;
		}
		if (!room && done(c, now))
			room = c;
	}
	if (!room) {
		room = &set->ways[bpf_get_prandom_u32() % CANDIDATE_WAYS];
		if (room->packets > 1) {
			room->packets--;
			return 0;
		}
	}
	room->a = p->a;
	room->b = p->b;
	room->packets = 0;
	room->full = 0;
	room->seen = now;
	return room;
}

/* A packet of an unknown flow. It is told whether there were enough of them to learn,
 * and why it goes slow. */
static __always_inline int noted(const struct parsed *p, int *why)
{
	struct candidate *c = become_candidate(p);

	*why = SLOW_UNKNOWN;
	if (!c)
		return 0;
	if (c->packets < learn_after)
		c->packets++;
	if (c->full && ((tick - c->full) & (FULL - 1)) <= 1)
		*why = SLOW_FULL;
	return c->packets >= learn_after;
}

/* A flow would be learned, and there is no room for it. The packet was counted where
 * it set out, so that it is said of the next ones. */
static __always_inline void no_room(const struct parsed *p)
{
	struct candidate *c = candidate(p);

	if (c)
		c->full = tick | FULL;
}

/* A packet on the wire has the headers that one would get that is carried. */
static __always_inline int as_carried(const void *data, const struct peer *to);

/* Both ways were seen in this epoch: from now on it is carried. */
static __always_inline void promote(struct flow *f, __u32 now)
{
	if (f->seen_out == now && f->seen_in == now)
		f->epoch = now;
}

/* The network sends a packet of a pod to a peer, behind all of its rules: also those
 * for what it puts around the packet. The pod's IP header is at an offset, the
 * address of the next hop at another. Carried packets keep the source port of what the
 * network puts around: to who tracks or spreads those, they go on as before. */
static __always_inline int learn_out(struct __sk_buff *skb, __u32 at, __u32 mac, __u32 tenant, __be16 port, __u32 now)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct hop_key via = {.ifindex = skb->ifindex};
	__u32 *device;
	struct flow fresh = {};
	struct pod_key who = {.tenant = tenant};
	struct flow *f;
	struct parsed p;
	struct peer *peer;
	struct pod *pod;
	struct hop *to;

	if (data + at > end || parse(data + at, end, OUT, &p) || p.flags)
		return NEXT;
	__builtin_memcpy(via.mac, data + mac, MAC_LEN);
	to = bpf_map_lookup_elem(&hops, &via);
	if (!to || to->tenant != tenant)
		return NEXT;
	who.addr = p.key.local;
	device = bpf_map_lookup_elem(&pod_at, &who);
	if (!device)
		return NEXT;
	pod = bpf_map_lookup_elem(&pods, device);
	peer = bpf_map_lookup_elem(&peers, &to->peer);
	if (!pod || !peer || !pod->epoch || !peer->epoch || !as_carried(data, peer))
		return NEXT;
	p.key.tenant_proto |= tenant << 8;
	f = bpf_map_lookup_elem(&flows, &p.key);
	if (!f) {
		bpf_map_update_elem(&flows, &p.key, &fresh, BPF_NOEXIST);
		f = bpf_map_lookup_elem(&flows, &p.key);
		if (!f) {
			no_room(&p);
			return NEXT;
		}
	}
	f->epoch = 0; /* nobody carries it while it is changed */
	f->port = port;
	f->pod = *device;
	f->pod_epoch = pod->epoch;
	f->peer = to->peer;
	f->peer_epoch = peer->epoch;
	f->used = tick;
	f->seen_out = now;
	promote(f, now);
	if (epoch != now)
		f->epoch = 0; /* another core may have learned it under newer rules meanwhile */
	changed(&p.key);
	return NEXT;
}

/* The network hands a packet to a pod, behind all of its rules. */
static __always_inline int learn_in(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	__u32 now = epoch, device = skb->ifindex;
	struct parsed p;
	struct flow *f;
	struct pod *pod;

	if (!stamped(skb, now))
		return NEXT;
	skb->tc_index = 0;
	if (data + ETH_HLEN > end || skb->protocol != bpf_htons(ETH_P_IP) || parse(data + ETH_HLEN, end, IN, &p) || p.flags)
		return NEXT;
	pod = bpf_map_lookup_elem(&pods, &device);
	if (!pod || !pod->epoch)
		return NEXT;
	p.key.tenant_proto |= pod->tenant << 8;
	f = bpf_map_lookup_elem(&flows, &p.key);
	/* On its way to a pod whose it is not, it has not arrived: a pod may be a router. */
	if (f && f->pod == device && tracked_well(skb, &p.key, f)) {
		f->seen_in = now;
		promote(f, now);
	}
	return NEXT;
}

/* It is that of every kind; what leads to a peer is not. */
SEC("tc/to_pod")
int to_pod(struct __sk_buff *skb)
{
	return learn_in(skb);
}
