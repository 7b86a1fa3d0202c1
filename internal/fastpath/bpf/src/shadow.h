/* The shadow of a fast path carries nothing. It records what would have been sent for a packet,
 * leaves the packet to the network, and records it again where the network hands it on. The
 * daemon compares the two. A number in the packet's stamp joins them. */
#pragma once
#include "carry.h"

#define RECORDED_HEADERS (HEADER_LEN + 40 + TCP_LEN) /* of either IP version */
#define MAX_RECORDED 64000 /* bytes of a packet: a record of perf has less than 65536 */

#define CHECKSUM_PARTIAL 3 /* the device that sends the packet completes its checksum */

/* A record, which the packet follows. */
struct shadow_record {
	__u64 time;  /* ns */
	__u32 epoch, version;
	__u32 device;   /* that sends it, or would */
	__u32 length;   /* of the packet as it is, bytes */
	__u32 segment;  /* its gso_size */
	__u32 priority; /* that it has, or would have */
	__u16 number;
	__u8 direction;
	__u8 partial;  /* the checksum of its transport header is not complete */
	__u8 headers;  /* bytes of header; 0: the record is of a packet that the network hands on */
	__u8 replaces; /* bytes at the beginning of the packet that they stand for */
	__u8 ip;       /* offset of the pod's IP header in them */
	__u8 pad;
	__u8 header[RECORDED_HEADERS]; /* that would have been sent */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); /* too large for the stack */
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct shadow_record);
} shadow_scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} shadow_records SEC(".maps");

volatile __u32 shadow_number = 1; /* of packets */

static __always_inline struct shadow_record *new_record(struct __sk_buff *ctx, enum direction dir)
{
	struct sk_buff___flags *skb = (void *)ctx; /* the context is the sk_buff itself */
	__u32 zero = 0;
	struct shadow_record *r = bpf_map_lookup_elem(&shadow_scratch, &zero);

	if (!r)
		return 0; /* impossible */
	r->time = bpf_ktime_get_ns();
	r->epoch = epoch;
	r->version = version;
	r->length = ctx->len;
	r->segment = ctx->gso_size;
	r->direction = dir;
	r->partial = BPF_CORE_READ_BITFIELD_PROBED(skb, ip_summed) == CHECKSUM_PARTIAL;
	return r;
}

/* Hands a record to the daemon. 0: it has been. */
static __always_inline int send_record(struct __sk_buff *skb, struct shadow_record *r)
{
	__u64 recorded = r->length < MAX_RECORDED ? r->length : MAX_RECORDED;

	return bpf_perf_event_output(skb, &shadow_records, BPF_F_CURRENT_CPU | recorded << 32, r, sizeof(*r));
}

/* Translates the checksum of a transport header as the kernel does, see translate_checksum(). */
static __always_inline void shadow_checksum(void *transport, const struct carried *c, int partial)
{
	int tcp = (c->p.key.tenant_proto & 0xff) == IPPROTO_TCP;
	__u16 *check = transport + (tcp ? TCP_CHECK : UDP_CHECK);
	__u32 by = c->nat->addr_difference;

	if (!tcp && !*check)
		return; /* UDP without a checksum */
	if (partial) { /* the sum of the addresses, not complemented */
		*check = ~fold(*check + (by & 0xffff) + (by >> 16));
	} else {
		if (by)
			*check = adjust(*check, by);
		if (c->nat->port_difference)
			*check = adjust(*check, c->nat->port_difference);
	}
	if (!tcp && !*check)
		*check = 0xffff;
}

/* Writes all headers of a packet that leaves. */
static __always_inline void write_out(void *data, struct carried *c);

/* Records what would be sent for a packet whose IP header is at an offset; in what would be sent
 * it is at another. The packet gets a number, and is left to the network. */
static __always_inline int shadow(struct __sk_buff *skb, enum direction dir, struct carried *c, __u32 at, __u32 ip)
{
	__u32 len = IP_LEN + ((c->p.key.tenant_proto & 0xff) == IPPROTO_TCP ? TCP_LEN : UDP_LEN);
	struct shadow_record *r = new_record(skb, dir);
	__u32 number;

	if (!r || bpf_skb_load_bytes(skb, at, r->header + ip, len))
		return slow(skb, dir, SLOW_UNKNOWN); /* impossible: these bytes were read above */
	number = __sync_fetch_and_add(&shadow_number, 1);
	number = (number & EPOCH_BITS) | (number << 1 & CROSSED);
	r->number = number;
	r->ip = ip;
	r->headers = ip + len;
	r->replaces = at + len;
	r->device = dir == OUT ? c->to->wire : c->to->pod;
	r->priority = forwarded_priority(skb, &c->p);
	if (c->nat)
		shadow_checksum(r->header + ip + IP_LEN, c, r->partial);
	if (c->to->wire & SIBLING) {
		r->direction = IN; /* where the network hands it on */
		r->device = c->to->wire & DEVICE_OF_SIBLING;
		if (c->to->wire & BRIDGED)
			r->priority = skb->priority;
		write_sibling(r->header, c);
	} else if (dir == OUT) {
		write_out(r->header, c);
	} else {
		write_in(r->header, c);
	}
	if (!send_record(skb, r))
		skb->tc_index = own_stamp() | NUMBERED | number;
	return carry(skb, dir, at - ETH_HLEN, NEXT);
}

static __always_inline int passed_on(struct __sk_buff *skb, enum direction dir)
{
	__u32 is = skb->tc_index;
	struct shadow_record *r;

	if ((is & (OURS | NUMBERED)) != (own_stamp() | NUMBERED))
		return 0;
	skb->tc_index = 0;
	r = new_record(skb, dir);
	if (!r)
		return 1; /* impossible */
	r->number = is & (CROSSED | EPOCH_BITS);
	r->headers = 0;
	r->replaces = 0;
	r->device = skb->ifindex;
	r->priority = skb->priority;
	send_record(skb, r);
	return 1;
}
