//go:build ignore

/* The fast path of a VXLAN overlay whose machines route between pods and tunnel,
 * as Flannel wires it: four programs.
 *
 *   pod -> from_pod  ............ carried: headers around it, out of the wire
 *              \-> bridge, rules, routes -> to_peer (learns) -> vxlan device
 *   wire -> from_wire ........... carried: headers off, into the pod
 *              \-> vxlan device, rules, routes, bridge -> to_pod (learns) -> pod
 */
#include "carry.h"

/* Offsets in a packet on the wire. */
#define OUTER_IP ETH_HLEN
#define OUTER_UDP (OUTER_IP + IP_LEN)
#define VXLAN_HEADER (OUTER_UDP + UDP_LEN)
#define INNER_ETH (VXLAN_HEADER + 8)
#define INNER_IP (INNER_ETH + ETH_HLEN)

#define OVERHEAD (INNER_IP - ETH_HLEN)
#define VNI_VALID 0x08000000
#define VNI_NOT 0xff /* of the word that the VNI is in */

#define GROW (BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 | BPF_F_ADJ_ROOM_ENCAP_L4_UDP | \
	      BPF_F_ADJ_ROOM_ENCAP_L2(ETH_HLEN) | BPF_F_ADJ_ROOM_ENCAP_L2_ETH)
#define SHRINK (BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_NO_CSUM_RESET)

const volatile __be16 port; /* UDP, of the tunnels */

SEC("tc/from_pod")
int from_pod(struct __sk_buff *skb)
{
	struct carried c;
	struct iphdr *ip, *inner;
	struct udphdr *udp;
	__u64 *header;
	void *data;
	int why = find_out(skb, &c), i;

	if (why)
		return slow(skb, why);
	if (bpf_skb_adjust_room(skb, OVERHEAD, BPF_ADJ_ROOM_MAC, GROW))
		return slow(skb, SLOW_ENCAPSULATED); /* nothing was changed */
	data = (void *)(long)skb->data;
	if (data + INNER_IP + IP_LEN > (void *)(long)skb->data_end)
		return TC_SHOT; /* cannot be: these bytes were read above */
	header = data;
#pragma unroll
	for (i = 0; i < HEADER_LEN / 8; i++)
		header[i] = c.peer->header[i];
	ip = data + OUTER_IP;
	udp = data + OUTER_UDP;
	inner = data + INNER_IP;
	ip->tos |= c.p.tos & ECN_MASK;
	ip->tot_len = bpf_htons(c.p.ip_len + OVERHEAD);
	ip->id = inner->id;
	ip->check = fold(c.peer->sum + bpf_htons(c.p.tos & ECN_MASK) + ip->tot_len + ip->id);
	udp->source = c.flow->port;
	udp->len = bpf_htons(c.p.ip_len + OVERHEAD - IP_LEN);
	hop(inner);
	return carry(skb, c.flow, CARRIED_OUT, bpf_redirect(c.peer->ifindex, 0));
}

/* The headers around a packet are those that the peer's machine puts there. */
static __always_inline int from_peer(void *data, const struct carried *c)
{
	struct iphdr *ip = data + OUTER_IP;
	struct udphdr *udp = data + OUTER_UDP;
	__u16 *to = data + INNER_ETH, *us = (void *)c->peer->header + INNER_ETH + MAC_LEN;

	if (ip->saddr != c->peer->remote || ip->daddr != c->peer->local ||
	    to[0] != us[0] || to[1] != us[1] || to[2] != us[2])
		return SLOW_SOURCE;
	if (ip->tot_len != bpf_htons(c->p.ip_len + OVERHEAD) || udp->len != bpf_htons(c->p.ip_len + OVERHEAD - IP_LEN))
		return SLOW_SIZE;
	if (udp->check)
		return SLOW_CHECKSUM;
	if ((ip->tos ^ c->p.tos) & ECN_MASK)
		return SLOW_ECN;
	return 0;
}

SEC("tc/from_wire")
int from_wire(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct iphdr *ip = data + OUTER_IP;
	struct udphdr *udp = data + OUTER_UDP;
	__be32 *vxlan = data + VXLAN_HEADER;
	struct carried c;
	int why;

	unstamp(skb);
	if (data + INNER_IP + IP_LEN + UDP_LEN > end || skb->protocol != bpf_htons(ETH_P_IP) ||
	    ip->protocol != IPPROTO_UDP || ip->ihl != IP_LEN / 4 || udp->dest != port)
		return NEXT; /* not of this overlay: it is not counted either */
	if (!alive())
		return slow(skb, SLOW_NO_DAEMON);
	if (ip->frag_off & bpf_htons((__u16)~DONT_FRAGMENT))
		return slow(skb, SLOW_FRAGMENT);
	if (skb->pkt_type != PACKET_FOR_US || skb->vlan_present || vxlan[0] != bpf_htonl(VNI_VALID) ||
	    vxlan[1] & bpf_htonl(VNI_NOT) || *(__be16 *)(data + INNER_IP - 2) != bpf_htons(ETH_P_IP))
		return slow(skb, SLOW_NOT_IPV4);
	why = find_in(skb, INNER_IP, bpf_ntohl(vxlan[1]) >> 8, &c);
	if (!why)
		why = from_peer(data, &c);
	if (why)
		return slow(skb, why);
	/* Who cuts them asks whether they are in a tunnel, and nothing here can say no. */
	if (skb->gso_size && (c.p.key.tenant_proto & 0xff) == IPPROTO_UDP)
		return slow(skb, SLOW_ENCAPSULATED);
	if (bpf_skb_adjust_room(skb, -OVERHEAD, BPF_ADJ_ROOM_MAC, SHRINK))
		return slow(skb, SLOW_ENCAPSULATED);
	/* As the network does when it takes headers off: of the checksums that the
	 * card has looked at, the outermost is gone. */
	bpf_csum_level(skb, BPF_CSUM_LEVEL_DEC);
	data = (void *)(long)skb->data;
	if (data + ETH_HLEN + IP_LEN > (void *)(long)skb->data_end)
		return TC_SHOT; /* cannot be, as above */
	deliver(data, c.pod);
	hop(data + ETH_HLEN);
	return carry(skb, c.flow, CARRIED_IN, bpf_redirect_peer(c.flow->pod, 0));
}

char __license[] SEC("license") = "GPL";
