/* Whether a packet can be carried, and what becomes of one that cannot. */
#pragma once
#include "known.h"
#include "learn.h"

struct carried {
	struct parsed p;
	struct slot *to; /* all that is known of its flow */
};

/* A packet that opens or ends a connection, of whatever came before on the same
 * addresses: nothing that is known holds for what comes next. */
static __always_inline int forget(const struct parsed *p)
{
	struct candidate *c = candidate(p);

	if (c)
		c->packets = 0; /* the last packets of its end are no beginning */
	if (bpf_map_lookup_elem(&flows, &p->key) && !bpf_map_delete_elem(&flows, &p->key))
		changed(&p->key);
	return SLOW_FLAGS;
}

/* A packet of a flow that goes slow that way. It may be the first answer to one that
 * was learned without: that is over then, and it is learned in its new state. */
static __always_inline int unproven(const struct flow_key *k)
{
	struct flow *f = bpf_map_lookup_elem(&flows, k);

	if (f && f->unreplied && f->epoch)
		unlearn(k, f);
	return SLOW_UNPROVEN;
}

/* A pod sends to its gateway, by its own address: what it sends to others is not
 * for the machine to route. */
static __always_inline int to_gateway(const void *eth, const void *macs)
{
	return same_mac(eth, macs + MAC_LEN) && same_mac(eth + MAC_LEN, macs);
}

/* A pod has sent a frame. If that is from the MAC that is known of it, it gets what is
 * sent there. */
static __always_inline void heard(const void *eth, const void *end, __u32 device)
{
	struct pod *pod = bpf_map_lookup_elem(&pods, &device);

	if (!pod || !pod->epoch || eth + ETH_HLEN > end)
		return;
	if (!same_mac(eth + MAC_LEN, pod->header))
		pod->heard = 0;
	else if (pod->heard != pod->epoch)
		pod->heard = pod->epoch;
}

/* A packet that a pod sends, of a flow that this core does not know. 0: it can be
 * carried. */
static __always_inline int ask_out(struct __sk_buff *skb, const void *eth, const void *end, struct carried *c, __u64 mixed, __u32 device)
{
	struct pod *pod = bpf_map_lookup_elem(&pods, &device);
	int why;

	if (!pod || pod->addr != c->p.key.local || !to_gateway(eth, pod->header)) {
		heard(eth, end, device);
		return SLOW_SOURCE;
	}
	if (pod->heard != pod->epoch)
		pod->heard = pod->epoch;
	c->p.a |= pod->tenant << 8;
	if (c->p.flags)
		return forget(&c->p);
	why = fill(c->to, &c->p, mixed);
	if (!why)
		return c->to->pod == device ? 0 : SLOW_SOURCE;
	if (why != SLOW_UNKNOWN || noted(&c->p, &why))
		stamp(skb);
	return why;
}

/* A packet that a pod sends. 0: it can be carried. */
static __always_inline int find_out(struct __sk_buff *skb, struct carried *c)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	__u32 device = skb->ifindex, size;
	__u64 mixed;
	int why;

	unstamp(skb);
	if (!alive()) {
		heard(data, end, device);
		return SLOW_NO_DAEMON;
	}
	if (data + ETH_HLEN > end || skb->protocol != bpf_htons(ETH_P_IP) || skb->vlan_present) {
		heard(data, end, device);
		return SLOW_NOT_IPV4;
	}
	why = parse(data + ETH_HLEN, end, OUT, &c->p);
	if (why)
		return why;
	mixed = mix(c->p.a, c->p.b);
	c->to = slot_of(mixed);
	if (!c->to)
		return SLOW_UNKNOWN; /* cannot be */
	if ((c->to->a ^ c->p.a) & NO_TENANT || c->to->b != c->p.b || c->to->pod != device || !fresh(c->to, mixed) || c->p.flags) {
		why = ask_out(skb, data, end, c, mixed, device);
		if (why)
			return why;
	} else if (!to_gateway(data, c->to->macs)) {
		/* A pod that goes by another MAC now is not found by the network any more. */
		heard(data, end, device);
		c->p.a = c->to->a;
		forget(&c->p);
		return SLOW_SOURCE;
	}
	size = skb->gso_size ? c->p.headers + skb->gso_size : c->p.ip_len;
	if (size > c->to->size[OUT] || c->p.ip_len + ETH_HLEN != skb->len || skb->len > MAX_FRAME) {
		if (c->to->size[OUT])
			return SLOW_SIZE;
		c->p.a = c->to->a;
		stamp(skb);
		return unproven(&c->p.key);
	}
	return 0;
}

/* A packet for a pod, whose IP header is at an offset. 0: it can be carried. */
static __always_inline int find_in(struct __sk_buff *skb, void *data, void *end, __u32 at, __u32 tenant, struct carried *c)
{
	int why = parse(data + at, end, IN, &c->p);
	__u32 len, size, segment;
	__u64 mixed;

	if (why)
		return why;
	len = c->p.ip_len + at;
	mixed = mix(c->p.a, c->p.b);
	c->p.a |= tenant << 8;
	if (c->p.flags)
		return forget(&c->p);
	c->to = slot_of(mixed);
	if (!c->to)
		return SLOW_UNKNOWN; /* cannot be */
	if (c->to->a != c->p.a || c->to->b != c->p.b || !fresh(c->to, mixed)) {
		why = fill(c->to, &c->p, mixed);
		if (why)
			return why;
	}
	segment = skb->gso_size;
	size = segment ? c->p.headers + segment : c->p.ip_len;
	/* Short frames come with padding, which the pod cuts off as the machine would. */
	if (size > c->to->size[IN] || (segment ? len != skb->len : len > skb->len))
		return c->to->size[IN] ? SLOW_SIZE : unproven(&c->p.key);
	return 0;
}

/* The headers around a packet are those that a peer's machine puts there. 0: they are.
 * A checksum of UDP is for the network to compute: what is learned from may have one. */
static __always_inline int from_peer(void *data, const void *header, const struct parsed *p, int learning);

/* A packet that came by the wire, of a flow to be learned, is from the peer that is the
 * way to the MAC that it is from. */
static __always_inline void ask_in(struct __sk_buff *skb, void *data, __u32 mac, __u32 tenant, const struct carried *c)
{
	struct hop_key via = {.ifindex = skb->ifindex};
	struct peer *peer;
	struct hop *to;

	__builtin_memcpy(via.mac, data + mac, MAC_LEN);
	to = bpf_map_lookup_elem(&hops, &via);
	if (!to || to->tenant != tenant)
		return;
	peer = bpf_map_lookup_elem(&peers, &to->peer);
	if (peer && peer->epoch && !from_peer(data, peer->header, &c->p, 1))
		arrives(skb, &c->p, to->peer, peer->epoch);
}

/* Leaves a packet that came by the wire to the network. What is for no pod of this
 * machine is neither counted, nor noted as of a flow. The MAC of its sender is at an
 * offset. */
static __always_inline int slow_in(struct __sk_buff *skb, void *data, __u32 mac, __be32 addr, __u32 tenant, const struct carried *c, int why)
{
	struct pod_key who = {.tenant = tenant, .addr = addr};

	if (!bpf_map_lookup_elem(&pod_at, &who))
		return NEXT;
	if (why == SLOW_UNKNOWN ? noted(&c->p, &why) : why == SLOW_STALE || why == SLOW_UNPROVEN || why == SLOW_SOURCE)
		ask_in(skb, data, mac, tenant, c);
	return slow(skb, IN, why);
}

/* Counts a packet that is carried. */
static __always_inline int carry(struct __sk_buff *skb, enum way way, int verdict)
{
	count(skb, way, CARRIED);
	return verdict;
}
