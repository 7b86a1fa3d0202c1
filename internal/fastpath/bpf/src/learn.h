/* How a flow comes to be carried: the network itself has forwarded it under the rules of
 * now; of UDP that way, and of TCP both ways.
 *
 * A packet that goes the slow way is stamped with the epoch of policy in which
 * it set out. Where the network hands it on, behind all of its rules, a second
 * program reads the stamp: of the epoch of now, it is a verdict of the rules of
 * now. The stamp is skb->tc_index, which nothing between the two looks at.
 *
 * It survives network namespaces. So the device by which the machine's network got the
 * packet last has to be the pod's own or the peer's: else it has passed something in
 * between that is not known. A tunnel's device takes that away from a packet, and its
 * entry of connection tracking; so what goes through a tunnel is looked at in front of it,
 * by to_tunnel, and its stamp says so. */
#pragma once
#include "known.h"
#include "track.h"

#define STAMPED 0x8000
#define OURS 0xf800       /* the bits that say whose stamp it is */
#define CROSSED 0x0400    /* to_tunnel has let it pass */
#define EPOCH_BITS 0x03ff /* so many changes of rules do not happen while a packet is under way */

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

/* It has been looked at in front of a tunnel, too. */
static __always_inline void cross(struct __sk_buff *skb, __u32 now)
{
	skb->tc_index = ours() | CROSSED | (now & EPOCH_BITS);
}

static __always_inline int crossed(struct __sk_buff *skb, __u32 now)
{
	return skb->tc_index == (ours() | CROSSED | (now & EPOCH_BITS));
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
	__u32 peer, peer_epoch; /* that its last packet from the wire came from, see arrives() */
	__u32 seal;   /* of what is above: it was written by one core */
	__u8 packets;
	__u8 seen;    /* tick, its lower bits */
	__u8 full;    /* tick in which the table of flows had no room for it, and FULL; or 0 */
	__u8 pad;
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

/* What a candidate says of a peer was written for its flow, and not by two cores at once. */
static __always_inline __u32 seal(const struct parsed *p, __u32 peer, __u32 peer_epoch)
{
	__u64 mixed = ((p->a ^ peer) * 0x9e3779b97f4a7c15 ^ p->b ^ (__u64)peer_epoch << 16) * 0xc2b2ae3d27d4eb4f;

	return mixed >> 32;
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

/* A packet comes by the wire from a peer, as it has made sure. If the network hands it to
 * the pod, that is learned of packets from this peer. */
static __always_inline void arrives(struct __sk_buff *skb, const struct parsed *p, __u32 peer, __u32 peer_epoch)
{
	struct candidate *c = become_candidate(p);

	if (!c)
		return;
	c->peer = peer;
	c->peer_epoch = peer_epoch;
	c->seal = seal(p, peer, peer_epoch);
	stamp(skb);
}

/* A packet on the wire has the headers that one would get that is carried. */
static __always_inline int as_carried(const void *data, const struct peer *to);

/* UDP is carried each way in which it was seen in this epoch, and TCP once both were. */
static __always_inline void promote(const struct flow_key *k, struct flow *f, __u32 now)
{
	if ((k->tenant_proto & 0xff) == IPPROTO_UDP || (f->seen_out == now && f->seen_in == now))
		f->epoch = now;
}

/* Nothing holds any more that was learned of a flow. */
static __always_inline void unlearn(const struct flow_key *k, struct flow *f)
{
	f->epoch = 0;
	f->seen_out = 0;
	f->seen_in = 0;
	changed(k);
}

/* The entry of a flow that connection tracking has nothing against, which may be a new
 * one; 0: there is none, or it is not to be carried yet. What was learned before or after the
 * first reply does not hold on the other side of that. */
static __always_inline struct flow *learned(struct __sk_buff *skb, const struct parsed *p)
{
	struct tracked t;
	struct flow fresh = {};
	struct flow *f;

	if (!tracked_well(skb, &p->key, &t))
		return 0;
	f = bpf_map_lookup_elem(&flows, &p->key);
	if (!f) {
		fresh.used = tick;
		bpf_map_update_elem(&flows, &p->key, &fresh, BPF_NOEXIST);
		f = bpf_map_lookup_elem(&flows, &p->key);
		if (!f) {
			no_room(p);
			return 0;
		}
	}
	if (f->unreplied != t.unreplied) {
		f->unreplied = t.unreplied;
		unlearn(&p->key, f);
	}
	return pinned(&p->key, f, &t) ? f : 0;
}

/* The pod that has an address, and the index of its device; 0: there is none. */
static __always_inline struct pod *pod_of(__be32 addr, __u32 tenant, __u32 *device)
{
	struct pod_key who = {.tenant = tenant, .addr = addr};
	__u32 *at = bpf_map_lookup_elem(&pod_at, &who);
	struct pod *pod;

	if (!at)
		return 0;
	*device = *at;
	pod = bpf_map_lookup_elem(&pods, at);
	return pod && pod->epoch ? pod : 0;
}

/* The network sends a packet of a pod to a peer, behind all of its rules: also those
 * for what it puts around the packet. The pod's IP header is at an offset, the
 * address of the next hop at another. Carried packets keep the source port of what the
 * network puts around: to who tracks or spreads those, they go on as before. crossed:
 * the machine's network got the packet from its pod, and connection tracking has nothing
 * against it, as to_tunnel has seen; else that is asked here. */
static __always_inline int learn_out(struct __sk_buff *skb, __u32 at, __u32 mac, __u32 tenant, __be16 port, __u32 now, int crossed)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct hop_key via = {.ifindex = skb->ifindex};
	__u32 device;
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
	pod = pod_of(p.key.local, tenant, &device);
	peer = bpf_map_lookup_elem(&peers, &to->peer);
	if (!pod || !peer || !peer->epoch || !as_carried(data, peer))
		return NEXT;
	if (skb->ingress_ifindex != (crossed ? 0 : pod->receiver))
		return NEXT;
	p.key.tenant_proto |= tenant << 8;
	f = crossed ? bpf_map_lookup_elem(&flows, &p.key) : learned(skb, &p);
	if (!f)
		return NEXT;
	f->epoch = 0; /* nobody carries it while it is changed */
	if (f->pod != device || f->pod_epoch != pod->epoch || f->peer != to->peer || f->peer_epoch != peer->epoch)
		f->seen_in = 0; /* what came in, came from elsewhere */
	f->port = port;
	f->pod = device;
	f->pod_epoch = pod->epoch;
	f->peer = to->peer;
	f->peer_epoch = peer->epoch;
	f->used = tick;
	f->seen_out = now;
	promote(&p.key, f, now);
	if (epoch != now)
		f->epoch = 0; /* another core may have learned it under newer rules meanwhile */
	changed(&p.key);
	return NEXT;
}

/* The network hands a packet to a pod, behind all of its rules. */
static __always_inline int learn_in(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	__u32 now = epoch, device = skb->ifindex, number;
	struct candidate *c;
	struct parsed p;
	struct peer *peer;
	struct flow *f;
	struct pod *pod;

	if (!stamped(skb, now))
		return NEXT;
	skb->tc_index = 0;
	if (data + ETH_HLEN > end || skb->protocol != bpf_htons(ETH_P_IP) || parse(data + ETH_HLEN, end, IN, &p) || p.flags)
		return NEXT;
	pod = bpf_map_lookup_elem(&pods, &device);
	/* On its way to a pod whose it is not, it has not arrived: a pod may be a router. */
	if (!pod || !pod->epoch || pod->addr != p.key.local)
		return NEXT;
	p.key.tenant_proto |= pod->tenant << 8;
	c = candidate(&p);
	if (!c)
		return NEXT;
	number = c->peer;
	peer = bpf_map_lookup_elem(&peers, &number);
	if (!peer || !peer->epoch || c->seal != seal(&p, number, peer->epoch) || peer->receiver != skb->ingress_ifindex)
		return NEXT;
	f = learned(skb, &p);
	if (!f)
		return NEXT;
	if (f->pod != device || f->pod_epoch != pod->epoch || f->peer != number || f->peer_epoch != peer->epoch) {
		if (f->seen_out == now && f->peer != number)
			return NEXT; /* it answers by another way */
		unlearn(&p.key, f);
		f->pod = device;
		f->pod_epoch = pod->epoch;
		f->peer = number;
		f->peer_epoch = peer->epoch;
	}
	f->used = tick;
	f->seen_in = now;
	promote(&p.key, f, now);
	if (epoch != now)
		f->epoch = 0;
	changed(&p.key);
	return NEXT;
}

/* It is that of every kind; what leads to a peer is not. */
SEC("tc/to_pod")
int to_pod(struct __sk_buff *skb)
{
	return learn_in(skb);
}
