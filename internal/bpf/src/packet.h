/* Reading packets, and mending their checksums. */
#pragma once
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include "state.h"

#define IP_LEN 20
#define UDP_LEN 8
#define MAX_FRAME (65535 - HEADER_LEN) /* that can take the headers of a tunnel */
#define ECN_MASK 3
#define DONT_FRAGMENT 0x4000

#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_ACK 0x10
#define TCP_FLAGS 13   /* offset of the byte in the header */
#define TCP_OFFSET 12  /* offset of the header's length, in its upper half */
#define TCP_LEN 20     /* without options */

/* Which of two ends of a packet is the pod of this machine. */
enum way { OUT, IN };

struct parsed {
	struct flow_key key; /* without the tenant */
	__u32 headers;       /* IP and transport, bytes */
	__u32 flags;         /* of TCP that open or end a connection, or that no connection has */
	__u32 ip_len;        /* what the IP header says */
	__u8 tos;
};

/* Reads an IPv4 packet of TCP or UDP; anything else is for the slow path, and
 * the reason is given. 0: it was read. */
static __always_inline int parse(struct iphdr *ip, void *end, enum way way, struct parsed *p)
{
	__u8 *transport = (void *)ip + IP_LEN;
	__be16 *ports = (void *)transport;

	if ((void *)transport + UDP_LEN > end || ip->version != 4)
		return SLOW_NOT_IPV4;
	if (ip->ihl != IP_LEN / 4)
		return SLOW_OPTIONS;
	if (ip->frag_off & bpf_htons((__u16)~DONT_FRAGMENT))
		return SLOW_FRAGMENT;
	if (ip->ttl <= 1)
		return SLOW_TTL;
	p->flags = 0;
	p->headers = IP_LEN + UDP_LEN;
	p->ip_len = bpf_ntohs(ip->tot_len);
	if (ip->protocol == IPPROTO_TCP) {
		if ((void *)transport + TCP_LEN > end)
			return SLOW_NOT_IPV4;
		p->flags = (transport[TCP_FLAGS] ^ TCP_ACK) & (TCP_FIN | TCP_SYN | TCP_RST | TCP_ACK);
		p->headers = IP_LEN + (transport[TCP_OFFSET] >> 4) * 4;
		if (p->headers < IP_LEN + TCP_LEN)
			return SLOW_SIZE;
	} else if (ip->protocol != IPPROTO_UDP) {
		return SLOW_PROTOCOL;
	} else if (((struct udphdr *)transport)->len != bpf_htons(p->ip_len - IP_LEN)) {
		return SLOW_SIZE;
	}
	if (p->ip_len < p->headers)
		return SLOW_SIZE;
	p->tos = ip->tos;
	p->key.tenant_proto = ip->protocol;
	p->key.local = way == OUT ? ip->saddr : ip->daddr;
	p->key.remote = way == OUT ? ip->daddr : ip->saddr;
	p->key.local_port = ports[way == OUT ? 0 : 1];
	p->key.remote_port = ports[way == OUT ? 1 : 0];
	return 0;
}

/* The checksum of a header from the sum of its words. */
static __always_inline __u16 fold(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

/* One hop less to go, as a router does it. */
static __always_inline void hop(struct iphdr *ip)
{
	__u32 sum = ip->check + bpf_htons(0x0100);

	ip->check = sum + (sum >= 0xffff);
	ip->ttl--;
}

/* The Ethernet header of a packet for a pod. */
static __always_inline void deliver(__u16 *eth, const struct pod *pod)
{
	int i;

#pragma unroll
	for (i = 0; i < ETH_HLEN / 2; i++)
		eth[i] = pod->header[i];
}
