//go:build ignore

/* The fast path of a network that routes pods' packets as they are: four
 * programs, as in vxlan.c, without headers around. What the network forwards by
 * itself leaves by the wire too, so it is there that flows out are learned. */
#include "carry.h"

SEC("tc/from_pod")
int from_pod(struct __sk_buff *skb)
{
	struct carried c;
	void *eth;
	int why = find_out(skb, &c);

	if (why)
		return slow(skb, OUT, why);
	eth = (void *)(long)skb->data;
	if (eth + ETH_HLEN + IP_LEN > (void *)(long)skb->data_end)
		return NEXT; /* cannot be: these bytes were read above */
	deliver(eth, (void *)c.to->header);
	hop(eth + ETH_HLEN, &c.p);
	skb->priority = priority_of(c.p.tos);
	return carry(skb, OUT, bpf_redirect(c.to->wire, 0));
}

/* The hop is what the peer was found by. */
static __always_inline int as_carried(const void *data, const struct peer *to)
{
	return 1;
}

SEC("tc/to_peer")
int to_peer(struct __sk_buff *skb)
{
	__u32 now = epoch;

	if (!stamped(skb, now))
		return NEXT;
	skb->tc_index = 0;
	if (skb->protocol != bpf_htons(ETH_P_IP))
		return NEXT;
	return learn_out(skb, ETH_HLEN, 0, 0, 0, now, 0);
}

/* There is no tunnel: it is nowhere. */
SEC("tc/to_tunnel")
int to_tunnel(struct __sk_buff *skb)
{
	return NEXT;
}

/* The packet comes from the machine that is the way to its sender. */
static __always_inline int from_peer(void *data, const void *header, const struct parsed *p, int learning)
{
	const __u16 *eth = data, *them = header;

	return eth[3] == them[0] && eth[4] == them[1] && eth[5] == them[2] ? 0 : SLOW_SOURCE;
}

SEC("tc/from_wire")
int from_wire(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct iphdr *ip = data + ETH_HLEN;
	struct carried c;
	int why;

	unstamp(skb);
	if (data + ETH_HLEN + IP_LEN + UDP_LEN > end || skb->protocol != bpf_htons(ETH_P_IP) ||
	    skb->vlan_present || skb->pkt_type != PACKET_FOR_US || !maybe_home(ip->daddr))
		return NEXT; /* what is for the machine itself goes by at once */
	why = alive() ? find_in(skb, data, end, ETH_HLEN, 0, &c) : SLOW_NO_DAEMON;
	if (!why)
		why = skb->ifindex == c.to->wire ? from_peer(data, c.to->header, &c.p, 0) : SLOW_SOURCE;
	if (why)
		return slow_in(skb, data, MAC_LEN, ip->daddr, 0, &c, why);
	deliver(data, c.to->macs);
	hop(data + ETH_HLEN, &c.p);
	skb->priority = priority_of(c.p.tos);
	return carry(skb, IN, bpf_redirect_peer(c.to->pod, 0));
}

char __license[] SEC("license") = "GPL";
