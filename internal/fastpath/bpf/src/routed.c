//go:build ignore

/* The fast path of a network that routes pods' packets without a tunnel, for IPv4 or for IPv6: the
 * programs of vxlan.c without outer headers. Slow packets leave through the wire too, so outgoing flows
 * are learned there.
 *
 * Of IPv6, the wire may also be a vxlan device. It adds and removes the outer headers, of carried packets
 * as of all others: over IPv6 they have a UDP checksum, which a program cannot have segmentation write. */
#include "carry.h"

/* Writes all headers of a packet that leaves. */
static __always_inline void write_out(void *eth, struct carried *c)
{
	write_eth(eth, (void *)c->to->header);
	if (c->nat)
		translate(eth + ETH_HLEN, c);
	decrement_ttl(eth + ETH_HLEN, &c->p);
}

SEC("tc/from_pod")
int from_pod(struct __sk_buff *skb)
{
	struct carried c;
	void *eth;
	int why;

#ifdef INET6
	if (skb->protocol == bpf_htons(ETH_P_IP))
		return NEXT; /* another fast path's */
#endif
	why = lookup_out(skb, &c);
	if (why)
		return slow(skb, OUT, why);
	if (c.to->wire & SIBLING)
		return carry_sibling(skb, &c);
#ifdef SHADOW
	return shadow(skb, OUT, &c, ETH_HLEN, ETH_HLEN);
#endif
	if (c.nat && translate_checksum(skb, ETH_HLEN, &c))
		return TC_SHOT; /* impossible: these bytes were read above, and are writable */
	eth = (void *)(long)skb->data;
	if (eth + ETH_HLEN + IP_LEN + UDP_LEN > (void *)(long)skb->data_end)
		return TC_SHOT; /* impossible, as above */
	write_out(eth, &c);
	skb->priority = forwarded_priority(skb, &c.p);
	return carry(skb, OUT, 0, bpf_redirect(c.to->wire, 0));
}

/* The peer was found by its MAC, but its number may have become another one's meanwhile. The other MAC is not the
 * wire's if a device upon the wire sends. */
static __always_inline int same_headers(const void *data, const struct peer *to)
{
	const void *header = to->header;

	return same_mac(data, header) && same_mac(data + MAC_LEN, header + MAC_LEN);
}

SEC("tc/to_peer")
int to_peer(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	__u32 now = epoch;
	struct hop_key via;

#ifdef SHADOW
	if (passed_on(skb, OUT))
		return NEXT;
#endif
	if (!stamped(skb, now))
		return NEXT;
	skb->tc_index = 0;
	if (skb->protocol != bpf_htons(ETHERTYPE) || data + ETH_HLEN > end)
		return NEXT;
	via = hop_by_mac(skb, data);
	return learn_out(skb, ETH_HLEN, &via, 0, 0, now, 0);
}

/* There is no tunnel: this and the next are attached nowhere. */
SEC("tc/to_tunnel")
int to_tunnel(struct __sk_buff *skb)
{
	return NEXT;
}

SEC("tc/from_tunnel")
int from_tunnel(struct __sk_buff *skb)
{
	return NEXT;
}

/* The packet comes from the next hop towards its sender. */
static __always_inline int from_peer(void *data, const void *header, const struct parsed *p, int learning)
{
	const __u16 *eth = data, *them = header;

	return eth[3] == them[0] && eth[4] == them[1] && eth[5] == them[2] ? 0 : SLOW_SOURCE;
}

/* Not every router sends from the MAC that it is sent to: with VRRP, for example, it does not. */
static __always_inline int known_sender(struct __sk_buff *skb, void *data, __u32 at, __u32 tenant)
{
	return 1;
}

SEC("tc/from_wire")
int from_wire(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	void *ip = data + ETH_HLEN;
	struct hop_key via;
	struct carried c;
	int why;

	clear_stamp(skb);
	if (data + ETH_HLEN + IP_LEN + UDP_LEN > end || skb->protocol != bpf_htons(ETHERTYPE) ||
	    skb->vlan_present || skb->pkt_type != PACKET_FOR_US || !maybe_for_pod(ip))
		return NEXT; /* not for a pod, nor for an address that has taken the place of one's */
	why = lease_valid() ? lookup_in(skb, data, end, ETH_HLEN, 0, &c) : SLOW_NO_DAEMON;
	if (!why)
		why = skb->ifindex == c.to->wire ? from_peer(data, c.to->header, &c.p, 0) : SLOW_SOURCE;
	if (!why && cut_inside(skb, &c.p))
		why = SLOW_SIZE;
	if (skb->mark) /* as in lookup_out(); or rules have marked it when it was in a tunnel */
		why = SLOW_ENCAPSULATED;
	if (why) {
		via = hop_by_mac(skb, data + MAC_LEN);
		return slow_in(skb, data, &via, receiver_addr(ip), 0, &c, why, 0);
	}
#ifdef SHADOW
	return shadow(skb, IN, &c, ETH_HLEN, ETH_HLEN);
#endif
	return carry_in(skb, &c);
}

char __license[] SEC("license") = "GPL";
