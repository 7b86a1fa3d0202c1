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

/* What an entry has beside: where, in bytes from its beginning, or 0. */
struct nf_ct_ext {
	__u8 offset[1];
} __attribute__((preserve_access_index));

enum nf_ct_ext_id { NF_CT_EXT_TIMEOUT = 6 };

struct nf_conn {
	struct {
		__u16 id;
	} __attribute__((preserve_access_index)) zone;
	unsigned long status;
	struct nf_ct_ext *ext;
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

/* A rule has given the entry lifetimes of its own, of which the daemon knows nothing that
 * keeps it alive. */
static __always_inline int has_own_timeout(struct nf_conn *ct)
{
	struct nf_ct_ext *ext = BPF_CORE_READ(ct, ext);
	__u8 at = 0;

	if (!ext || !bpf_core_enum_value_exists(enum nf_ct_ext_id, NF_CT_EXT_TIMEOUT))
		return 0;
	bpf_probe_read_kernel(&at, sizeof(at), (void *)ext + bpf_core_field_offset(ext->offset) +
						       bpf_core_enum_value(enum nf_ct_ext_id, NF_CT_EXT_TIMEOUT));
	return at;
}

/* What connection tracking says of a packet's flow. */
struct tracked {
	__u32 entry;     /* which it is, or 0: nothing is tracked, and it has no say */
	__u16 unreplied; /* no reply was seen */
	__u16 liberal;   /* TCP: windows are not watched */
};

/* The flow is established and nobody translates its addresses, as far as connection
 * tracking goes. Of UDP one that nobody has replied to will do, where rules do not ask. */
static __always_inline int tracked_well(struct __sk_buff *ctx, const struct flow_key *k, struct tracked *t)
{
	struct sk_buff___here *skb = (void *)ctx; /* at whose address it is in truth */
	unsigned long nfct = BPF_CORE_READ(skb, _nfct);
	struct nf_conn *ct = (void *)(nfct & ~(unsigned long)NFCT_INFO);
	int tcp = (k->tenant_proto & 0xff) == IPPROTO_TCP;
	unsigned long status;

	t->entry = 0;
	t->unreplied = 0;
	t->liberal = 0;
	if (!ct)
		return 1;
	status = BPF_CORE_READ(ct, status);
	if (!(status & CONFIRMED) || status & NOT_OURS || has_own_timeout(ct))
		return 0;
	if (!(status & SEEN_REPLY)) {
		if (tcp || unreplied != 1)
			return 0;
		t->unreplied = 1;
	}
	if (bpf_core_field_exists(ct->zone) && BPF_CORE_READ(ct, zone.id) != 0)
		return 0;
	if (tcp && BPF_CORE_READ(ct, proto.tcp.state) != TCP_ESTABLISHED_STATE)
		return 0;
	t->entry = (__u32)(nfct >> 6) | 1;
	if (tcp)
		t->liberal = BPF_CORE_READ(ct, proto.tcp.seen[0].flags) & BPF_CORE_READ(ct, proto.tcp.seen[1].flags) & LIBERAL;
	return 1;
}

/* The daemon has made the entry of connection tracking fit for the flow; else it is
 * asked to. An entry can be another's, at the same place in memory: of TCP it says
 * itself whether it is fit. */
static __always_inline int pinned(const struct flow_key *k, struct flow *f, const struct tracked *t)
{
	if (!t->entry || (f->pinned == t->entry && ((k->tenant_proto & 0xff) != IPPROTO_TCP || t->liberal)))
		return 1;
	ask_pin(k, f, t->entry);
	return 0;
}
