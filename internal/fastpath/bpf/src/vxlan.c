//go:build ignore

/* The fast path of a VXLAN overlay whose machines route between pods and tunnel,
 * as Flannel wires it: four programs.
 *
 *   pod -> from_pod  ............ carried: headers around it, out of the wire
 *              \-> bridge, rules, routes, vxlan device, rules -> to_peer (learns) -> wire
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
	struct iphdr *ip;
	struct udphdr *udp;
	__u64 *header;
	void *data;
	int why = find_out(skb, &c), i;

	if (why)
		return slow(skb, OUT, why);
	if (bpf_skb_adjust_room(skb, OVERHEAD, BPF_ADJ_ROOM_MAC, GROW))
		return slow(skb, OUT, SLOW_ENCAPSULATED); /* nothing was changed */
	data = (void *)(long)skb->data;
	if (data + INNER_IP + IP_LEN > (void *)(long)skb->data_end)
		return TC_SHOT; /* cannot be: these bytes were read above */
	header = data;
#pragma unroll
	for (i = 0; i < HEADER_LEN / 8; i++)
		header[i] = c.to->header[i];
	ip = data + OUTER_IP;
	udp = data + OUTER_UDP;
	ip->tos = ((__u8 *)c.to->header)[OUTER_IP + 1] | (c.p.tos & ECN_MASK);
	ip->tot_len = bpf_htons(c.p.ip_len + OVERHEAD);
	ip->id = c.p.id;
	ip->check = fold(c.to->sum + bpf_htons(c.p.tos & ECN_MASK) + ip->tot_len + c.p.id);
	udp->source = c.to->port;
	udp->len = bpf_htons(c.p.ip_len + OVERHEAD - IP_LEN);
	hop(data + INNER_IP, &c.p);
	skb->priority = priority_of(c.p.tos);
	return carry(skb, OUT, bpf_redirect(c.to->wire, 0));
}

/* A packet is for the port of this overlay, and long enough for all of its headers. */
static __always_inline int of_overlay(struct __sk_buff *skb, void *data, void *end)
{
	struct iphdr *ip = data + OUTER_IP;
	struct udphdr *udp = data + OUTER_UDP;

	return data + INNER_IP + IP_LEN + UDP_LEN <= end && skb->protocol == bpf_htons(ETH_P_IP) &&
	       ip->protocol == IPPROTO_UDP && *(__u8 *)ip == IPV4_PLAIN && udp->dest == port;
}

static __always_inline int outer_fragment(void *data)
{
	struct iphdr *ip = data + OUTER_IP;

	return ip->frag_off & bpf_htons((__u16)~DONT_FRAGMENT);
}

/* Within is IPv4, and nothing else is said but the VNI. */
static __always_inline int plain(void *data)
{
	__be32 *vxlan = data + VXLAN_HEADER;

	return vxlan[0] == bpf_htonl(VNI_VALID) && !(vxlan[1] & bpf_htonl(VNI_NOT)) &&
	       *(__be16 *)(data + INNER_IP - 2) == bpf_htons(ETH_P_IP);
}

static __always_inline __u32 vni(void *data)
{
	__be32 *vxlan = data + VXLAN_HEADER;

	return bpf_ntohl(vxlan[1]) >> 8;
}

/* What the machine's rules have made of the headers around a packet is what is put
 * there without them, but for what differs by packet. */
static __always_inline int as_carried(const void *data, const struct peer *to)
{
	const struct iphdr *is = data + OUTER_IP, *ours = (const void *)to->header + OUTER_IP;
	const __u16 *eth = data, *inner = data + INNER_ETH, *header = (const void *)to->header;
	int i;

#pragma unroll
	for (i = 0; i < MAC_LEN; i++)
		if (eth[i] != header[i] || inner[i] != header[INNER_ETH / 2 + i])
			return 0;
	return is->saddr == ours->saddr && is->daddr == ours->daddr && is->ttl == ours->ttl &&
	       is->frag_off == ours->frag_off && !((is->tos ^ ours->tos) & ~ECN_MASK);
}

/* In front of the tunnel's device, a packet still says by which device the machine's
 * network got it, and what connection tracking knows of it. */
SEC("tc/to_tunnel")
int to_tunnel(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	__u32 now = epoch, of = tenant, device;
	struct parsed p;
	struct pod *pod;

	if (!stamped(skb, now))
		return NEXT;
	skb->tc_index = 0;
	if (skb->protocol != bpf_htons(ETH_P_IP) || data + ETH_HLEN > end || parse(data + ETH_HLEN, end, OUT, &p) || p.flags)
		return NEXT;
	pod = pod_of(p.key.local, of, &device);
	if (!pod || pod->receiver != skb->ingress_ifindex)
		return NEXT;
	p.key.tenant_proto |= of << 8;
	if (learned(skb, &p))
		cross(skb, now);
	return NEXT;
}

/* It learns behind the tunnel's device, where rules for what the machine itself
 * sends have let pass what is around the packet, too. */
SEC("tc/to_peer")
int to_peer(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct udphdr *udp = data + OUTER_UDP;
	__u32 now = epoch;

	if (!crossed(skb, now))
		return NEXT;
	skb->tc_index = 0;
	if (!of_overlay(skb, data, end) || outer_fragment(data) || !plain(data))
		return NEXT;
	return learn_out(skb, INNER_IP, INNER_ETH, vni(data), udp->source, now, 1);
}

/* The headers around a packet are those that the peer's machine puts there, and as the
 * network takes them: a tunnel's device drops what comes from its own MAC. */
static __always_inline int from_peer(void *data, const void *ours, const struct parsed *p, int learning)
{
	const void *us = ours + INNER_ETH + MAC_LEN, *to = data + INNER_ETH;
	const struct iphdr *ip = data + OUTER_IP, *back = ours + OUTER_IP;
	const struct udphdr *udp = data + OUTER_UDP;

	if (ip->saddr != back->daddr || ip->daddr != back->saddr || !same_mac(to, us) || same_mac(to + MAC_LEN, us))
		return SLOW_SOURCE;
	if (ip->tot_len != bpf_htons(p->ip_len + OVERHEAD) || udp->len != bpf_htons(p->ip_len + OVERHEAD - IP_LEN))
		return SLOW_SIZE;
	if ((udp->check && !learning) || !sums_up(ip))
		return SLOW_CHECKSUM;
	if ((ip->tos ^ p->tos) & ECN_MASK)
		return SLOW_ECN;
	return 0;
}

struct sk_buff___sum {
	__u8 ip_summed : 2;
} __attribute__((preserve_access_index));

extern void *bpf_cast_to_kern_ctx(void *obj) __ksym __weak; /* from 6.2 on */

/* The card says that checksums are right: CHECKSUM_UNNECESSARY. Where this cannot be
 * read without a call, the one that it saves asks the same. */
static __always_inline int looked_at(struct __sk_buff *ctx)
{
	struct sk_buff___sum *skb;

	if (!bpf_cast_to_kern_ctx)
		return 1;
	skb = bpf_cast_to_kern_ctx(ctx);
	return BPF_CORE_READ_BITFIELD(skb, ip_summed) == 1;
}

SEC("tc/from_wire")
int from_wire(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct carried c;
	int why;

	unstamp(skb);
	if (!of_overlay(skb, data, end))
		return NEXT; /* not of this overlay: it is not counted either */
	if (!alive())
		return slow(skb, IN, SLOW_NO_DAEMON);
	if (outer_fragment(data))
		return slow(skb, IN, SLOW_FRAGMENT);
	if (skb->pkt_type != PACKET_FOR_US || skb->vlan_present || !plain(data))
		return slow(skb, IN, SLOW_NOT_IPV4);
	why = find_in(skb, data, end, INNER_IP, vni(data), &c);
	if (!why)
		why = skb->ifindex == c.to->wire ? from_peer(data, c.to->header, &c.p, 0) : SLOW_SOURCE;
	if (why)
		return slow_in(skb, data, INNER_ETH + MAC_LEN, ((struct iphdr *)(data + INNER_IP))->daddr, vni(data), &c, why);
	/* Who cuts them asks whether they are in a tunnel, and nothing here can say no. */
	if (skb->gso_size && (c.p.key.tenant_proto & 0xff) == IPPROTO_UDP)
		return slow(skb, IN, SLOW_ENCAPSULATED);
	if (bpf_skb_adjust_room(skb, -OVERHEAD, BPF_ADJ_ROOM_MAC, SHRINK))
		return slow(skb, IN, SLOW_ENCAPSULATED);
	/* As the network does when it takes headers off: of the checksums that the
	 * card has looked at, the outermost is gone. */
	if (looked_at(skb))
		bpf_csum_level(skb, BPF_CSUM_LEVEL_DEC);
	data = (void *)(long)skb->data;
	if (data + ETH_HLEN + IP_LEN > (void *)(long)skb->data_end)
		return TC_SHOT; /* cannot be, as above */
	deliver(data, c.to->macs);
	hop(data + ETH_HLEN, &c.p);
	skb->priority = priority_of(c.p.tos);
	return carry(skb, IN, bpf_redirect_peer(c.to->pod, 0));
}

char __license[] SEC("license") = "GPL";
