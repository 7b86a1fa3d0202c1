/* What IPv6 does in place of what packet.h and slots.h do for IPv4.
 *
 * Addresses have numbers, so that keys, flows, pods and the daemon's work on them are as for IPv4,
 * and as small. The daemon gives numbers to the addresses of pods, learn.h to those of the other
 * ends, and the daemon takes them back. A number is given again after 2^31 others, when nothing knows
 * it. Slots remember the addresses themselves, so that a packet whose flow has one needs no number; so
 * do translations. */
#pragma once
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include "state.h"

#define IP_LEN 40
#define ETHERTYPE ETH_P_IPV6
#define SIBLINGS_TRANSLATED 0 /* what is translated on its way from one pod of this host to another stays slow */

/* The number of an address; there is none 0. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_FLOWS);
	__type(key, struct addr6);
	__type(value, __u32);
} numbers SEC(".maps");

/* The address with a number. An address is entered here first, and removed here last. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_FLOWS);
	__type(key, __u32);
	__type(value, struct addr6);
} addresses SEC(".maps");

volatile __u32 last_number = 1; /* given to an address; the first that is given is 2 */

/* The daemon gives greater ones. Beyond it they begin again, where one that is still of another address is
 * not given: the next packet of the flow gets the next number. */
#define MAX_NUMBER 0x7fffffff

/* The addresses of a slot's flow. */
struct names {
	struct addr6 local, remote;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE); /* so that it is page-aligned */
	__uint(max_entries, 1); /* as many as slots, see ../slots.go */
	__type(key, __u32);
	__type(value, struct names);
} slot_names SEC(".maps");

struct parsed {
	union {
		struct flow_key key; /* without the tenant; until name_flow() without addresses */
		struct {
			__u64 a, b; /* the same, as two words */
		};
	};
	struct addr6 local, remote;
	struct names *names; /* of the slot of its flow */
	__u32 at;            /* the number of that slot */
	__u32 headers;       /* IP and transport, bytes */
	__u32 flags;         /* TCP: SYN, FIN, RST, or ACK missing */
	__u32 ip_len;        /* of header and payload */
	__u16 check;         /* there is none */
	__u8 tos, ttl;
};

#include "transport.h"

static __always_inline void read_addr(struct addr6 *to, const void *from)
{
	to->a = *(const __u64 *)from;
	to->b = *(const __u64 *)(from + 8);
}

static __always_inline void write_addr(void *to, const struct addr6 *addr)
{
	*(__u64 *)to = addr->a;
	*(__u64 *)(to + 8) = addr->b;
}

/* Writes other addresses. */
static __always_inline void write_addrs(struct ipv6hdr *ip, const struct addr6 *from, const struct addr6 *to)
{
	write_addr(&ip->saddr, from);
	write_addr(&ip->daddr, to);
}

static __always_inline int same_addr(const struct addr6 *a, const struct addr6 *b)
{
	return a->a == b->a && a->b == b->b;
}

/* The number of an address; 0: it has none. */
static __always_inline __u32 number_of(const struct addr6 *addr)
{
	__u32 *number = bpf_map_lookup_elem(&numbers, addr);

	return number ? *number : 0;
}

/* The address has the number, and the number the address. What was read of one table may be another address's: the
 * kernel gives the memory of a deleted entry to the next one at once, while other cores still read it. Both
 * tables agree on no such mixture. */
static __always_inline int is_number_of(const __u32 *number, const struct addr6 *addr)
{
	struct addr6 *is = bpf_map_lookup_elem(&addresses, number);

	return is && same_addr(is, addr);
}

/* The number of an address, which gets one if it has none; 0: there is no room. */
static __noinline __u32 give_number(const struct addr6 *addr)
{
	__u32 number = number_of(addr);

	if (!number) {
		number = (__sync_fetch_and_add(&last_number, 1) + 1) & MAX_NUMBER;
		if (!number || bpf_map_update_elem(&addresses, &number, addr, BPF_NOEXIST))
			return 0;
		if (!bpf_map_update_elem(&numbers, addr, &number, BPF_NOEXIST))
			return number;
		bpf_map_delete_elem(&addresses, &number); /* another core was faster, or there is no room */
		number = number_of(addr);
	}
	return is_number_of(&number, addr) ? number : 0;
}

/* Writes the addresses of a flow into its key, as far as they have numbers; without one for the local
 * address, it is no known flow. */
static __always_inline void name_flow(struct parsed *p)
{
	p->key.local = number_of(&p->local);
	p->key.remote = p->key.local ? number_of(&p->remote) : 0;
}

/* The ends of a flow have the numbers in its key. */
static __always_inline int are_numbered(const union flow_words *k)
{
	return is_number_of(&k->key.local, &k->local) && is_number_of(&k->key.remote, &k->remote);
}

/* The flow is to have an entry, or two: its ends get numbers, but for its pod, which has one. 0: there is
 * no room, or somebody takes a number back meanwhile. */
static __always_inline int give_numbers(union flow_words *own, union flow_words *wire, int translated)
{
	if (!is_number_of(&own->key.local, &own->local))
		return 0;
	own->key.remote = give_number(&own->remote);
	if (!translated) {
		wire->key.remote = own->key.remote;
		return own->key.remote != 0;
	}
	wire->key.local = give_number(&wire->local);
	wire->key.remote = give_number(&wire->remote);
	return own->key.remote && wire->key.local && wire->key.remote;
}

static __always_inline union flow_words words_of(const struct parsed *p)
{
	union flow_words k = {.a = p->a, .b = p->b, .local = p->local, .remote = p->remote};

	return k;
}

/* The key of a flow between the addresses of a tuple, as far as they have numbers; the rest is written
 * already. */
static __always_inline void name_ends(union flow_words *k, const struct tuple *t)
{
	k->local = t->local;
	k->remote = t->remote;
	k->key.local = number_of(&k->local);
	k->key.remote = number_of(&k->remote);
}

/* The address with a number; mostly it is another one's, which is known. 0: it has none any more. */
static __always_inline int find_addr(__u32 number, __u32 known, const struct addr6 *of, struct addr6 *to)
{
	struct addr6 *addr;

	if (number == known) {
		*to = *of;
		return 1;
	}
	addr = bpf_map_lookup_elem(&addresses, &number);
	if (!addr)
		return 0;
	*to = *addr;
	return number_of(to) == number; /* and it is not being taken back */
}

/* The addresses of a flow that has a key; a packet has some of them. 0: one is not known any more. */
static __always_inline int find_addrs(union flow_words *k, const struct parsed *p)
{
	return find_addr(k->key.local, p->key.local, &p->local, &k->local) && find_addr(k->key.remote, p->key.remote, &p->remote, &k->remote);
}

static __always_inline struct addr6 local_of(const union flow_words *k)
{
	return k->local;
}

static __always_inline struct addr6 remote_of(const union flow_words *k)
{
	return k->remote;
}

/* The sum of an address's words, and how many they are. */
static __always_inline __u64 sum_of(struct addr6 addr)
{
	return (addr.a & 0xffffffff) + (addr.a >> 32) + (addr.b & 0xffffffff) + (addr.b >> 32);
}

#define ADDR_WORDS 4

/* Parses an IPv6 packet of TCP or UDP without extension headers. Returns 0, or the reason for which
 * the packet takes the slow path. */
static __always_inline int parse(struct ipv6hdr *ip, void *end, enum direction dir, struct parsed *p)
{
	__u8 *transport = (void *)ip + IP_LEN;
	__u32 ports;
	int why;

	if ((void *)transport + UDP_LEN > end || ip->version != 6)
		return SLOW_NOT_IPV4;
	if (ip->nexthdr == IPPROTO_FRAGMENT)
		return SLOW_FRAGMENT;
	if (ip->nexthdr == IPPROTO_HOPOPTS || ip->nexthdr == IPPROTO_ROUTING || ip->nexthdr == IPPROTO_DSTOPTS)
		return SLOW_OPTIONS;
	if (ip->hop_limit <= 1)
		return SLOW_TTL;
	p->ip_len = IP_LEN + bpf_ntohs(ip->payload_len);
	why = parse_transport(ip->nexthdr, transport, end, dir, p, &ports);
	if (why)
		return why;
	p->tos = ip->priority << 4 | ip->flow_lbl[0] >> 4;
	p->check = 0;
	p->ttl = ip->hop_limit;
	read_addr(&p->local, dir == OUT ? &ip->saddr : &ip->daddr);
	read_addr(&p->remote, dir == OUT ? &ip->daddr : &ip->saddr);
	p->a = ip->nexthdr;
	p->b = (__u64)ports << 32;
	return 0;
}

/* Decrements the hop limit, as a router does. */
static __always_inline void decrement_ttl(struct ipv6hdr *ip, const struct parsed *p)
{
	ip->hop_limit = p->ttl - 1;
}

/* There is none that a translated header would need. */
static __always_inline void write_check(struct ipv6hdr *ip, const struct parsed *p)
{
}

/* If the card has given the sum of the whole packet, the network forgets it then, because the header
 * has no checksum that makes up for the change. Here it is kept right. */
static __always_inline void keep_sum(struct __sk_buff *skb)
{
	bpf_csum_update(skb, 0xfeff); /* 0x0100 less, in ones' complement */
}

/* So it is where other addresses are written, and the checksum of the transport header: together they leave
 * it as it is. The kernel's function for the latter takes them for those of IPv4, whose own header has a
 * checksum that makes up for them. */
static __always_inline void keep_addrs_sum(struct __sk_buff *skb, __u32 difference)
{
	bpf_csum_update(skb, difference);
}

/* The priority of a packet that was forwarded: as before. */
static __always_inline __u32 forwarded_priority(const struct __sk_buff *skb, const struct parsed *p)
{
	return skb->priority;
}

/* An address as maybe_local_pod() knows it; ../numbers.go computes the same. */
static __always_inline __u32 short_addr(const struct addr6 *addr)
{
	__u64 words = addr->a ^ addr->b;

	return words ^ words >> 32;
}

/* The packet may be for a pod of this host. */
static __always_inline int maybe_for_pod(const void *ip)
{
	struct addr6 to;

	read_addr(&to, &((const struct ipv6hdr *)ip)->daddr);
	return maybe_local_pod(short_addr(&to));
}

/* The address of the receiver, as pod_at has it; 0: of no pod. */
static __always_inline __u32 receiver_addr(const void *ip)
{
	struct addr6 to;

	read_addr(&to, &((const struct ipv6hdr *)ip)->daddr);
	return number_of(&to);
}

/* The address with a number may be that of a pod: only a look-up tells. */
static __always_inline int maybe_pod(__u32 number)
{
	return number != 0;
}

/* Candidates are known by two digests of their addresses and ports: flows of few packets get no
 * numbers. With a secret, NH makes any two flows the same in both once in 2^64 times. */
#define DIGESTED 5 /* words */
const volatile __u64 digest_secret[2 * DIGESTED];

/* The digest of a flow between two addresses; the rest is in its key. Callers have no room for what it
 * keeps on the stack. */
static __noinline __u64 digest_flow(const struct addr6 *local, const struct addr6 *remote, const struct flow_key *k, const volatile __u64 *key)
{
	__u64 ports_protocol = k->local_port | (__u64)k->remote_port << 16 | (__u64)(__u8)k->tenant_proto << 32;

	return nh(local->a, key[0]) + nh(local->b, key[1]) + nh(remote->a, key[2]) + nh(remote->b, key[3]) + nh(ports_protocol, key[4]);
}

/* The key of a candidate; on is that of its flow on the wire. */
static __always_inline void candidate_key(const union flow_words *on, __u64 *a, __u64 *b)
{
	*a = digest_flow(&on->local, &on->remote, &on->key, digest_secret);
	*b = digest_flow(&on->local, &on->remote, &on->key, digest_secret + DIGESTED);
}

/* The same of what a sibling sends: own is the key of its flow, and in that of the same flow from the other side. */
static __always_inline void sender_candidate_key(const union flow_words *in, const struct flow_key *own, __u64 *a, __u64 *b)
{
	*a = digest_flow(&in->remote, &in->local, own, digest_secret);
	*b = digest_flow(&in->remote, &in->local, own, digest_secret + DIGESTED);
}
