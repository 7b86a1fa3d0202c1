//go:build ignore

/* The fast path of a VXLAN overlay whose hosts route between pods and tunnel, as Flannel wires
 * it, or of one of Geneve, whose headers are as long. Where the programs are:
 *
 *   pod -> from_pod  ............ carried: headers around it, out of the wire
 *              \-> bridge, rules, routes, tunnel device, rules -> to_peer (learns) -> wire
 *   wire -> from_wire ........... carried: headers off, into the pod
 *              \-> rules, tunnel device -> from_tunnel .... carried: UDP that is to be cut, into the pod
 *                                              \-> rules, routes, bridge -> to_pod (learns) -> pod
 */
#include "carry.h"

/* Offsets in a packet on the wire. */
#define OUTER_IP ETH_HLEN
#define OUTER_UDP (OUTER_IP + IP_LEN)
#define TUNNEL_HEADER (OUTER_UDP + UDP_LEN)
#define TUNNEL_VNI (TUNNEL_HEADER + 4)
#define INNER_ETH (TUNNEL_HEADER + 8)
#define INNER_IP (INNER_ETH + ETH_HLEN)
#define TUNNEL_IP ETH_HLEN /* in a packet on the tunnel's device */

#define OVERHEAD (INNER_IP - ETH_HLEN)
#define VXLAN_PLAIN 0x08000000 /* first word of its header: there is a VNI */
#define GENEVE_PLAIN 0x6558    /* the same of Geneve: no options, no other bits, Ethernet inside */
#define VNI_NOT 0xff /* the reserved bits of the word with the VNI */

#define GROW (BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 | BPF_F_ADJ_ROOM_ENCAP_L4_UDP | \
	      BPF_F_ADJ_ROOM_ENCAP_L2(ETH_HLEN) | BPF_F_ADJ_ROOM_ENCAP_L2_ETH)

const volatile __be16 port; /* UDP, of the tunnels */
const volatile __u32 geneve; /* 1: they are Geneve's; 0: VXLAN's */

/* Writes all headers of a packet that leaves: those of the peer in front of it, and its own. */
static __always_inline void write_out(void *data, struct carried *c)
{
	struct iphdr *ip = data + OUTER_IP;
	struct udphdr *udp = data + OUTER_UDP;
	__u64 *header = data;
	int i;

#pragma unroll
	for (i = 0; i < HEADER_LEN / 8; i++)
		header[i] = c->to->header[i];
	ip->tos = ((__u8 *)c->to->header)[OUTER_IP + 1] | (c->p.tos & ECN_MASK);
	ip->tot_len = bpf_htons(c->p.ip_len + OVERHEAD);
	ip->id = c->p.id;
	ip->check = fold(c->to->sum + bpf_htons(c->p.tos & ECN_MASK) + ip->tot_len + c->p.id);
	udp->source = c->to->port;
	udp->len = bpf_htons(c->p.ip_len + OVERHEAD - IP_LEN);
	if (c->nat)
		translate(data + INNER_IP, c);
	decrement_ttl(data + INNER_IP, &c->p);
}

/* A packet is for this overlay's port, and long enough for all headers. */
static __always_inline int is_overlay(struct __sk_buff *skb, void *data, void *end)
{
	struct iphdr *ip = data + OUTER_IP;
	struct udphdr *udp = data + OUTER_UDP;

	return data + INNER_IP + IP_LEN + UDP_LEN <= end && skb->protocol == bpf_htons(ETH_P_IP) &&
	       ip->protocol == IPPROTO_UDP && *(__u8 *)ip == IPV4_PLAIN && udp->dest == port;
}

/* 0: the inner packet is IPv4, and the tunnel's header has nothing but the VNI. */
static __always_inline int not_plain(void *data)
{
	__be32 *tunnel = data + TUNNEL_HEADER;

	if (tunnel[0] != bpf_htonl(geneve ? GENEVE_PLAIN : VXLAN_PLAIN) || tunnel[1] & bpf_htonl(VNI_NOT))
		return SLOW_OPTIONS;
	return *(__be16 *)(data + INNER_IP - 2) == bpf_htons(ETH_P_IP) ? 0 : SLOW_NOT_IPV4;
}

static __always_inline __be32 vni_in(const void *header)
{
	return *(__be32 *)(header + TUNNEL_VNI) & bpf_htonl(~VNI_NOT);
}

/* With Geneve each peer has a VNI of its own, which is compared with the rest of its headers. */
static __always_inline __u32 tenant_of(void *data)
{
	return geneve ? 0 : bpf_ntohl(vni_in(data)) >> 8;
}

/* The outer headers of a slow packet are those that a carried one gets, except for the fields
 * that differ by packet. */
static __always_inline int same_headers(const void *data, const struct peer *to)
{
	const struct iphdr *is = data + OUTER_IP, *ours = (const void *)to->header + OUTER_IP;
	const __u16 *eth = data, *inner = data + INNER_ETH, *header = (const void *)to->header;
	int i;

#pragma unroll
	for (i = 0; i < MAC_LEN; i++)
		if (eth[i] != header[i] || inner[i] != header[INNER_ETH / 2 + i])
			return 0;
	return is->saddr == ours->saddr && is->daddr == ours->daddr && is->ttl == ours->ttl && vni_in(data) == vni_in(to->header) &&
	       is->frag_off == ours->frag_off && !((is->tos ^ ours->tos) & ~ECN_MASK);
}

/* The MACs in the tunnel are those that the peer's host sends with: rules may read them, and a tunnel device that
 * learns drops frames from one that it knows elsewhere. */
static __always_inline int inner_source_matches(const void *eth, const void *ours)
{
	return same_mac(eth, ours + INNER_ETH + MAC_LEN) && same_mac(eth + MAC_LEN, ours + INNER_ETH);
}

/* And so are the addresses and the VNI. */
static __always_inline int source_matches(void *data, const void *ours)
{
	const struct iphdr *ip = data + OUTER_IP, *back = ours + OUTER_IP;

	return ip->saddr == back->daddr && ip->daddr == back->saddr && vni_in(data) == vni_in(ours) &&
	       inner_source_matches(data + INNER_ETH, ours);
}

/* The outer headers are those that the peer's host sends, and the network accepts. */
static __always_inline int from_peer(void *data, const void *ours, const struct parsed *p, int learning)
{
	const struct iphdr *ip = data + OUTER_IP;
	const struct udphdr *udp = data + OUTER_UDP;

	if (!source_matches(data, ours))
		return SLOW_SOURCE;
	if (ip->tot_len != bpf_htons(p->ip_len + OVERHEAD) || udp->len != bpf_htons(p->ip_len + OVERHEAD - IP_LEN))
		return SLOW_SIZE;
	if ((udp->check && !learning) || !ip_csum_ok(ip))
		return SLOW_CHECKSUM;
	if ((ip->tos ^ p->tos) & ECN_MASK)
		return SLOW_ECN;
	return 0;
}

extern void *bpf_cast_to_kern_ctx(void *obj) __ksym __weak; /* from 6.2 on */

/* The device has verified checksums: CHECKSUM_UNNECESSARY. If this cannot be read without a
 * call, the answer is yes: the call that it would save checks the same. */
static __always_inline int csum_unnecessary(struct __sk_buff *ctx)
{
	struct sk_buff___flags *skb;

	if (!bpf_cast_to_kern_ctx)
		return 1;
	skb = bpf_cast_to_kern_ctx(ctx);
	return BPF_CORE_READ_BITFIELD(skb, ip_summed) == 1;
}

/* As the network does when it decapsulates: the outermost of the verified checksums, that of the
 * outer UDP header, is gone. */
static __always_inline void after_shrinking(struct __sk_buff *skb)
{
	if (csum_unnecessary(skb))
		bpf_csum_level(skb, BPF_CSUM_LEVEL_DEC);
}

static __always_inline struct hop_key receiver(struct __sk_buff *skb, void *data)
{
	return hop_by_mac(skb, data + INNER_ETH);
}

static __always_inline struct hop_key sender(struct __sk_buff *skb, void *data)
{
	return hop_by_mac(skb, data + INNER_ETH + MAC_LEN);
}

static __always_inline __be16 outer_port(void *data)
{
	struct udphdr *udp = data + OUTER_UDP;

	return udp->source;
}

#include "overlay.h"

char __license[] SEC("license") = "GPL";
