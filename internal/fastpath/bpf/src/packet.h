/* Parsing packets, and updating their checksums. */
#pragma once
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <bpf/bpf_core_read.h>
#include "state.h"

#define UDP_LEN 8
#define MAX_FRAME (65535 - HEADER_LEN) /* with room for the headers of a tunnel */
#define ECN_MASK 3
#define DONT_FRAGMENT 0x4000

#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_ACK 0x10
#define TCP_FLAGS 13   /* offset in the header */
#define TCP_OFFSET 12  /* offset of the header's length, in the upper half of the byte */
#define TCP_LEN 20     /* without options */
#define TCP_CHECK 16   /* offset in the header */
#define UDP_CHECK 6

/* A key that is read as two words. */
union flow_words {
	struct flow_key key;
	struct {
		__u64 a, b;
#ifdef INET6
		struct addr6 local, remote; /* whose numbers are in the key, as far as they have any */
#endif
	};
};

/* Random numbers that only this load of the programs knows. Who chooses addresses and ports cannot choose those of
 * which a hash with them is the same. */
#define SECRETS 12
const volatile __u64 secret[SECRETS];

/* A part of the hash NH: of any two sums of parts, each with a key of its own, that are of different words, the
 * chance to be the same is one of 2^32. */
static __always_inline __u64 nh(__u64 word, __u64 key)
{
	return (__u64)((__u32)word + (__u32)key) * (__u32)((word >> 32) + (key >> 32));
}

/* 32 bits of such a sum. */
static __always_inline __u32 shorten(__u64 hash)
{
	return hash * (secret[0] | 1) >> 32;
}

/* The ends of a connection, with its addresses. */
struct tuple {
	ip_addr local, remote;
	__be16 local_port, remote_port;
};

/* The key of a flow from the other side. */
static __always_inline void other_key(struct flow_key *to, __u32 tenant_proto, const struct ends *other)
{
	to->tenant_proto = tenant_proto;
	to->local = other->local;
	to->remote = other->remote;
	to->local_port = other->local_port;
	to->remote_port = other->remote_port;
}

static __always_inline void to_ends(struct ends *to, const struct flow_key *k)
{
	to->local = k->local;
	to->remote = k->remote;
	to->local_port = k->local_port;
	to->remote_port = k->remote_port;
}

static __always_inline int same_ends(const struct ends *e, const struct flow_key *k)
{
	return e->local == k->local && e->remote == k->remote && e->local_port == k->local_port && e->remote_port == k->remote_port;
}

#ifdef INET6
#include "inet6.h"
#else
#define IP_LEN 20
#define ETHERTYPE ETH_P_IP
#define SIBLINGS_TRANSLATED 1

struct parsed {
	union {
		struct flow_key key; /* without the tenant */
		struct {
			__u64 a, b; /* the same, as two words */
		};
	};
	__u32 headers;       /* IP and transport, bytes */
	__u32 flags;         /* TCP: SYN, FIN, RST, or ACK missing */
	__u32 ip_len;        /* from the IP header */
	__be16 id;
	__u16 check;         /* of the IP header */
	__u8 tos, ttl;
	__be16 frag_off;     /* nothing but DF */
};

#include "transport.h"

/* The priority that forwarding derives from the TOS: rt_tos2priority(), four bits for each of
 * sixteen values. */
static __always_inline __u32 priority_of(__u8 tos)
{
	return 0x4444666622220000ULL >> ((tos & 0x1e) << 1) & 0xf;
}

#define IPV4_PLAIN 0x45 /* version, and length of a header without options */

/* Parses an IPv4 packet of TCP or UDP. Returns 0, or the reason for which the packet takes the
 * slow path. */
static __always_inline int parse(struct iphdr *ip, void *end, enum direction dir, struct parsed *p)
{
	__u8 *transport = (void *)ip + IP_LEN;
	__u32 ports;
	int why;

	if ((void *)transport + UDP_LEN > end)
		return SLOW_NOT_IPV4;
	if (*(__u8 *)ip != IPV4_PLAIN)
		return ip->version == 4 ? SLOW_OPTIONS : SLOW_NOT_IPV4;
	if (ip->frag_off & bpf_htons((__u16)~DONT_FRAGMENT))
		return SLOW_FRAGMENT;
	if (ip->ttl <= 1)
		return SLOW_TTL;
	p->ip_len = bpf_ntohs(ip->tot_len);
	why = parse_transport(ip->protocol, transport, end, dir, p, &ports);
	if (why)
		return why;
	p->tos = ip->tos;
	p->id = ip->id;
	p->check = ip->check;
	p->ttl = ip->ttl;
	p->frag_off = ip->frag_off & bpf_htons(DONT_FRAGMENT);
	p->a = (__u64)(dir == OUT ? ip->saddr : ip->daddr) << 32 | ip->protocol;
	p->b = (__u64)ports << 32 | (dir == OUT ? ip->daddr : ip->saddr);
	return 0;
}

/* Decrements the TTL, as a router does. It does not read the packet, which the kernel has just
 * moved: a load would wait for those stores. */
static __always_inline void decrement_ttl(struct iphdr *ip, const struct parsed *p)
{
	__u32 sum = p->check + bpf_htons(0x0100);

	ip->check = sum + (sum >= 0xffff);
	ip->ttl = p->ttl - 1;
}

/* Writes the checksum of a translated header that keeps its TTL. */
static __always_inline void write_check(struct iphdr *ip, const struct parsed *p)
{
	ip->check = p->check;
}

/* Writes the addresses of a flow into its key, where they are already. */
static __always_inline void name_flow(struct parsed *p)
{
}

static __always_inline int are_numbered(const union flow_words *k)
{
	return 1;
}

static __always_inline int give_numbers(union flow_words *own, union flow_words *wire, int translated)
{
	return 1;
}

static __always_inline union flow_words words_of(const struct parsed *p)
{
	union flow_words k = {.a = p->a, .b = p->b};

	return k;
}

/* The key of a flow between the addresses of a tuple; the rest is written already. */
static __always_inline void name_ends(union flow_words *k, const struct tuple *t)
{
	k->key.local = t->local;
	k->key.remote = t->remote;
}

/* The addresses of a flow that has a key. */
static __always_inline int find_addrs(union flow_words *k, const struct parsed *p)
{
	return 1;
}

static __always_inline ip_addr local_of(const union flow_words *k)
{
	return k->key.local;
}

static __always_inline ip_addr remote_of(const union flow_words *k)
{
	return k->key.remote;
}

static __always_inline int same_addr(const ip_addr *a, const ip_addr *b)
{
	return *a == *b;
}

/* The sum of an address's words, and how many they are. */
static __always_inline __u64 sum_of(ip_addr addr)
{
	return addr;
}

#define ADDR_WORDS 1

/* An address as maybe_local_pod() knows it. */
static __always_inline __u32 short_addr(const ip_addr *addr)
{
	return *addr;
}

/* The address in a key may be that of a pod of this host. */
static __always_inline int maybe_pod(__be32 addr)
{
	return maybe_local_pod(addr);
}

/* Writes other addresses. */
static __always_inline void write_addrs(struct iphdr *ip, const ip_addr *from, const ip_addr *to)
{
	ip->saddr = *from;
	ip->daddr = *to;
}

/* The sum of the whole packet, if the card has given it, is kept right where other addresses are
 * written and the checksum of the transport header with them. */
static __always_inline void keep_addrs_sum(struct __sk_buff *skb, __u32 difference)
{
}

/* The sum of the whole packet, if the card has given it, is still right. */
static __always_inline void keep_sum(struct __sk_buff *skb)
{
}

/* The priority of a packet that was forwarded. */
static __always_inline __u32 forwarded_priority(const struct __sk_buff *skb, const struct parsed *p)
{
	return priority_of(p->tos);
}

/* The packet may be for a pod of this host. */
static __always_inline int maybe_for_pod(const void *ip)
{
	return maybe_local_pod(((const struct iphdr *)ip)->daddr);
}

/* The address of the receiver, as pod_at has it. */
static __always_inline __be32 receiver_addr(const void *ip)
{
	return ((const struct iphdr *)ip)->daddr;
}

/* The key of a candidate: that of its flow on the wire. */
static __always_inline void candidate_key(const union flow_words *on, __u64 *a, __u64 *b)
{
	*a = on->a;
	*b = on->b;
}

/* The same of what a sibling sends; own is the key of its flow. */
static __always_inline void sender_candidate_key(const union flow_words *in, const struct flow_key *own, __u64 *a, __u64 *b)
{
	union flow_words on = {.key = *own};

	candidate_key(&on, a, b);
}
#endif

/* The checksum of a header from the sum of its words. */
static __always_inline __u16 fold(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

/* Adds to a checksum the difference that translated fields make. As the kernel's own sum, it
 * begins with 0xffff, which counts as 0, so the result is 0 where it might be 0xffff. */
static __always_inline __u16 adjust(__u16 check, __u32 difference)
{
	return fold(0xffff + (__u16)~check + (difference & 0xffff) + (difference >> 16));
}

/* What the checksum of so many words grows by when others take their place; it is given the sums of
 * both. With two words or more it is not 0. */
static __always_inline __u32 difference(__u64 was, __u64 is, __u32 words)
{
	__u64 sum = words * 0xffffffffULL - was + is;

	sum = (sum & 0xffffffff) + (sum >> 32);
	return (sum & 0xffffffff) + (sum >> 32);
}

/* The checksum of a header without options is right. */
static __always_inline int ip_csum_ok(const struct iphdr *ip)
{
	const __u32 *words = (const void *)ip;
	__u64 sum = (__u64)words[0] + words[1] + words[2] + words[3] + words[4];

	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff;
}

/* Of the kernel's structure, what __sk_buff lacks; relocated by BTF. */
struct sk_buff___flags {
	__u8 encapsulation : 1; /* there are inner headers, and segmentation goes by these */
	__u8 ip_summed : 2;
} __attribute__((preserve_access_index));

/* A packet is to be cut into segments of which each is larger than gso_size and the headers that were parsed: a pod
 * has a tunnel of its own in UDP, and gso_size is that of what is in there. */
static __always_inline int cut_inside(struct __sk_buff *ctx, const struct parsed *p)
{
	struct sk_buff___flags *skb = (void *)ctx; /* the context is the sk_buff itself */

	return ctx->gso_size && p->headers == IP_LEN + UDP_LEN && BPF_CORE_READ_BITFIELD_PROBED(skb, encapsulation);
}

static __always_inline int same_mac(const void *a, const void *b)
{
	return *(__u32 *)a == *(__u32 *)b && *(__u16 *)(a + 4) == *(__u16 *)(b + 4);
}

/* Writes the Ethernet header of a packet, from its two addresses. */
static __always_inline void write_eth(void *eth, const void *macs)
{
	*(__u64 *)eth = *(__u64 *)macs;
	*(__u32 *)(eth + 8) = *(__u32 *)(macs + 8);
	*(__be16 *)(eth + 12) = bpf_htons(ETHERTYPE);
}
