/* Whether a packet can be carried, and what becomes of one that cannot. */
#pragma once
#include "learn.h"

struct carried {
	struct parsed p;
	struct flow *flow;
	struct pod *pod;
	struct peer *peer;
};

/* All that was found out for a flow still holds. */
static __always_inline int holds(struct carried *c)
{
	if (c->flow->epoch != epoch || c->flow->pod_epoch != c->pod->epoch)
		return SLOW_STALE;
	c->peer = bpf_map_lookup_elem(&peers, &c->flow->peer);
	if (!c->peer || c->flow->peer_epoch != c->peer->epoch)
		return SLOW_STALE;
	return 0;
}

/* A packet that opens or ends a connection, of whatever came before on the same
 * addresses: nothing that is known holds for what comes next. */
static __always_inline int forget(const struct flow_key *k)
{
	bpf_map_delete_elem(&flows, k);
	return SLOW_FLAGS;
}

/* A pod sends to its gateway, by its own address: what it sends to others is not
 * for the machine to route. */
static __always_inline int to_gateway(const __u16 *eth, const struct pod *pod)
{
	return eth[0] == pod->header[3] && eth[1] == pod->header[4] && eth[2] == pod->header[5] &&
	       eth[3] == pod->header[0] && eth[4] == pod->header[1] && eth[5] == pod->header[2];
}

/* A packet that a pod sends. 0: it can be carried. */
static __always_inline int find_out(struct __sk_buff *skb, struct carried *c)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	__u32 device = skb->ifindex, size;
	int why;

	unstamp(skb);
	if (!alive())
		return SLOW_NO_DAEMON;
	if (data + ETH_HLEN > end || skb->protocol != bpf_htons(ETH_P_IP) || skb->vlan_present)
		return SLOW_NOT_IPV4;
	why = parse(data + ETH_HLEN, end, OUT, &c->p);
	if (why)
		return why;
	c->pod = bpf_map_lookup_elem(&pods, &device);
	if (!c->pod || c->pod->addr != c->p.key.local || !to_gateway(data, c->pod))
		return SLOW_SOURCE;
	c->p.key.tenant_proto |= c->pod->tenant << 8;
	c->flow = bpf_map_lookup_elem(&flows, &c->p.key);
	if (!c->flow) {
		if (c->p.flags)
			return SLOW_FLAGS;
		consider(skb, &c->p.key);
		return SLOW_UNKNOWN;
	}
	if (c->p.flags)
		return forget(&c->p.key);
	why = holds(c);
	if (why) {
		stamp(skb);
		return why;
	}
	if (c->flow->pod != device)
		return SLOW_SOURCE;
	size = skb->gso_size ? c->p.headers + skb->gso_size : c->p.ip_len;
	if (size > c->peer->size || c->p.ip_len + ETH_HLEN != skb->len || skb->len > MAX_FRAME)
		return SLOW_SIZE;
	return 0;
}

/* A packet for a pod, whose IP header is at an offset. 0: it can be carried. */
static __always_inline int find_in(struct __sk_buff *skb, __u32 at, __u32 tenant, struct carried *c)
{
	int why = parse((void *)(long)skb->data + at, (void *)(long)skb->data_end, IN, &c->p);
	__u32 len;

	if (why)
		return why;
	len = c->p.ip_len + at;
	c->p.key.tenant_proto |= tenant << 8;
	c->flow = bpf_map_lookup_elem(&flows, &c->p.key);
	if (!c->flow)
		return c->p.flags ? SLOW_FLAGS : SLOW_UNKNOWN;
	if (c->p.flags)
		return forget(&c->p.key);
	c->pod = bpf_map_lookup_elem(&pods, &c->flow->pod);
	if (!c->pod)
		return SLOW_STALE;
	why = holds(c);
	if (why) {
		stamp(skb);
		return why;
	}
	/* Short frames come with padding, which the pod cuts off as the machine would. */
	if (skb->gso_size ? len != skb->len : len > skb->len)
		return SLOW_SIZE;
	return 0;
}

/* Counts a packet that is carried, and notes that its flow lives. */
static __always_inline int carry(struct __sk_buff *skb, struct flow *f, __u32 which, int verdict)
{
	__u32 now = tick;

	if (f->used != now)
		f->used = now;
	count(skb, which);
	return verdict;
}
