/* What connection tracking knows of a packet that it let pass. The kernel hangs
 * its entry on the packet itself; a packet without one is not tracked here. */
#pragma once
#include <bpf/bpf_core_read.h>
#include "state.h"

/* Of the kernel's structures, what is read: where it is, BTF says. */
struct sk_buff___here {
	unsigned long _nfct;
} __attribute__((preserve_access_index));

struct ip_ct_tcp_state___here {
	__u8 flags;
} __attribute__((preserve_access_index));

struct ip_ct_tcp___here {
	struct ip_ct_tcp_state___here seen[2];
	__u8 state;
} __attribute__((preserve_access_index));

struct nf_conn {
	struct {
		__u16 id;
	} __attribute__((preserve_access_index)) zone;
	unsigned long status;
	struct {
		struct ip_ct_tcp___here tcp;
	} __attribute__((preserve_access_index)) proto;
} __attribute__((preserve_access_index));

#define NFCT_INFO 7 /* the lower bits say which way a packet goes */

/* enum ip_conntrack_status */
#define SEEN_REPLY (1 << 1)
#define CONFIRMED (1 << 3)
#define SRC_NAT (1 << 4)
#define DST_NAT (1 << 5)
#define SEQ_ADJUST (1 << 6)
#define DYING (1 << 9)
#define HELPER (1 << 13) /* somebody reads what it says: FTP's, SIP's */
#define NOT_OURS (SRC_NAT | DST_NAT | SEQ_ADJUST | DYING | HELPER)

#define LIBERAL 8 /* IP_CT_TCP_FLAG_BE_LIBERAL */

#define TCP_ESTABLISHED_STATE 3 /* enum tcp_conntrack */

/* A flow that is tracked, and must be pinned before it can be carried. */
struct pin {
	struct flow_key key;
	__u32 track;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} pins SEC(".maps");

const struct pin *pin_layout __attribute__((unused)); /* tells BTF of it */

/* Asks the daemon, at most once in a tick: what it could not pin, it will not be
 * able to a moment later. */
static __always_inline void ask_pin(const struct flow_key *k, struct flow *f, __u32 track)
{
	__u32 now = tick;
	struct pin *pin;

	if (f->asked == now)
		return;
	pin = bpf_ringbuf_reserve(&pins, sizeof(*pin), 0);
	if (!pin)
		return; /* the next packet asks again */
	pin->key = *k;
	pin->track = track;
	bpf_ringbuf_submit(pin, 0);
	f->asked = now;
}

/* The flow is established both ways and nobody translates its addresses, as far
 * as connection tracking goes; where it goes nowhere, it has no say. */
static __always_inline int tracked_well(struct __sk_buff *ctx, const struct flow_key *k, struct flow *f)
{
	struct sk_buff___here *skb = (void *)ctx; /* at whose address it is in truth */
	unsigned long nfct = BPF_CORE_READ(skb, _nfct);
	struct nf_conn *ct = (void *)(nfct & ~(unsigned long)NFCT_INFO);
	int tcp = (k->tenant_proto & 0xff) == IPPROTO_TCP;
	unsigned long status;
	__u32 track;

	if (!ct)
		return 1;
	status = BPF_CORE_READ(ct, status);
	if ((status & (SEEN_REPLY | CONFIRMED)) != (SEEN_REPLY | CONFIRMED) || status & NOT_OURS)
		return 0;
	if (bpf_core_field_exists(ct->zone) && BPF_CORE_READ(ct, zone.id) != 0)
		return 0;
	if (tcp && BPF_CORE_READ(ct, proto.tcp.state) != TCP_ESTABLISHED_STATE)
		return 0;
	track = (__u32)(nfct >> 6) | 1;
	/* An entry can be another's, at the same place in memory: it says itself whether
	 * it is fit. */
	if (f->pinned == track && (!tcp || BPF_CORE_READ(ct, proto.tcp.seen[0].flags) & BPF_CORE_READ(ct, proto.tcp.seen[1].flags) & LIBERAL))
		return 1;
	ask_pin(k, f, track);
	return 0;
}
