//go:build ignore

/* The fast path of an overlay with one more IP header around packets (RFC 2003), as Calico wires it
 * by its device tunl0. The programs are where those of vxlan.c are. A peer is known by its address on
 * the wire: a route names it, and there are no MACs inside. */
#include "carry.h"

#define OUTER_IP ETH_HLEN
#define INNER_IP (OUTER_IP + IP_LEN)
#define TUNNEL_IP 0 /* the tunnel's device has no Ethernet header */

#define OVERHEAD IP_LEN
#define GROW (BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_ENCAP_L3_IPV4)

/* A TTL of 0 in the peer's header, or a DF that is not set, is taken from the pod's packet. */
static __always_inline __u8 outer_ttl(const struct iphdr *to, __u8 inner)
{
	return to->ttl ? to->ttl : inner;
}

static __always_inline __be16 outer_df(const struct iphdr *to, __be16 inner)
{
	return to->frag_off | (inner & bpf_htons(DONT_FRAGMENT));
}

/* Writes all headers of a packet that leaves: those of the peer in front of it, and its own. */
static __always_inline void write_out(void *data, struct carried *c)
{
	const struct iphdr *to = (void *)c->to->header + OUTER_IP;
	__u8 ecn = c->p.tos & ECN_MASK, ttl = outer_ttl(to, c->p.ttl - 1);
	__be16 df = outer_df(to, c->p.frag_off);
	struct iphdr *ip = data + OUTER_IP;
	__u64 *header = data;
	int i;

#pragma unroll
	for (i = 0; i < INNER_IP / 8; i++)
		header[i] = c->to->header[i];
	ip->daddr = to->daddr; /* the rest of it */
	ip->tos = to->tos | ecn;
	ip->tot_len = bpf_htons(c->p.ip_len + OVERHEAD);
	ip->id = c->p.id;
	ip->frag_off = df;
	ip->ttl = ttl;
	/* The sum has the peer's TTL and DF. */
	ip->check = fold(c->to->sum + bpf_htons(ecn) + ip->tot_len + c->p.id + (df ^ to->frag_off) + bpf_htons((ttl ^ to->ttl) << 8));
	if (c->nat)
		translate(data + INNER_IP, c);
	decrement_ttl(data + INNER_IP, &c->p);
}

/* A packet has an IP packet in it, and is long enough for all headers. */
static __always_inline int is_overlay(struct __sk_buff *skb, void *data, void *end)
{
	struct iphdr *ip = data + OUTER_IP;

	return data + INNER_IP + IP_LEN + UDP_LEN <= end && skb->protocol == bpf_htons(ETH_P_IP) &&
	       ip->protocol == IPPROTO_IPIP && *(__u8 *)ip == IPV4_PLAIN;
}

/* There is nothing between the headers. */
static __always_inline int not_plain(void *data)
{
	return 0;
}

static __always_inline __u32 tenant_of(void *data)
{
	return 0;
}

static __always_inline __be16 outer_port(void *data)
{
	return 0;
}

/* The outer headers of a slow packet are those that a carried one gets, except for the fields
 * that differ by packet. */
static __always_inline int same_headers(const void *data, const struct peer *to)
{
	const struct iphdr *is = data + OUTER_IP, *inner = data + INNER_IP, *ours = (const void *)to->header + OUTER_IP;
	const __u16 *eth = data, *header = (const void *)to->header;
	int i;

#pragma unroll
	for (i = 0; i < MAC_LEN; i++)
		if (eth[i] != header[i])
			return 0;
	return is->saddr == ours->saddr && is->daddr == ours->daddr && is->ttl == outer_ttl(ours, inner->ttl) &&
	       is->frag_off == outer_df(ours, inner->frag_off) && !((is->tos ^ ours->tos) & ~ECN_MASK);
}

/* The outer addresses are those that the peer's host sends with. */
static __always_inline int source_matches(void *data, const void *ours)
{
	const struct iphdr *ip = data + OUTER_IP, *back = ours + OUTER_IP;

	return ip->saddr == back->daddr && ip->daddr == back->saddr;
}

/* Of a packet without its outer header nothing says where it is from. */
static __always_inline int inner_source_matches(void *ip, const void *ours)
{
	return 1;
}

/* The outer headers are those that the peer's host sends, and the network accepts. */
static __always_inline int from_peer(void *data, const void *ours, const struct parsed *p, int learning)
{
	const struct iphdr *ip = data + OUTER_IP;

	if (!source_matches(data, ours))
		return SLOW_SOURCE;
	if (ip->tot_len != bpf_htons(p->ip_len + OVERHEAD))
		return SLOW_SIZE;
	if (!ip_csum_ok(ip))
		return SLOW_CHECKSUM;
	if ((ip->tos ^ p->tos) & ECN_MASK)
		return SLOW_ECN;
	return 0;
}

/* The outer header has no checksum that a device verifies, so none is gone with it. */
static __always_inline void after_shrinking(struct __sk_buff *skb)
{
}

static __always_inline struct hop_key receiver(struct __sk_buff *skb, void *data)
{
	struct iphdr *ip = data + OUTER_IP;

	return hop_by_addr(skb, ip->daddr);
}

static __always_inline struct hop_key sender(struct __sk_buff *skb, void *data)
{
	struct iphdr *ip = data + OUTER_IP;

	return hop_by_addr(skb, ip->saddr);
}

#include "overlay.h"

char __license[] SEC("license") = "GPL";
