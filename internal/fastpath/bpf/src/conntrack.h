/* What connection tracking knows of a packet that it accepted. The packet refers to its
 * conntrack entry. One without is not tracked, or was found invalid: its checksum is wrong, for
 * example. */
#pragma once
#include "packet.h"

/* The fields of the kernel's structures that are read, relocated by BTF. */
struct sk_buff___here {
	unsigned long _nfct;
	__u8 ipvs_property : 1; /* IPVS has sent it on; not on kernels without it */
} __attribute__((preserve_access_index));

struct ip_ct_tcp_state___here {
	__u8 flags;
} __attribute__((preserve_access_index));

struct ip_ct_tcp___here {
	struct ip_ct_tcp_state___here seen[2];
	__u8 state;
} __attribute__((preserve_access_index));

/* Offsets of the extensions of an entry, in bytes; 0: absent. */
struct nf_ct_ext {
	__u8 offset[1];
} __attribute__((preserve_access_index));

enum nf_ct_ext_id { NF_CT_EXT_HELPER = 1, NF_CT_EXT_TIMEOUT = 6 }; /* the kernel's own values are read */

#ifdef INET6
#define TUPLE_ADDR all
#else
#define TUPLE_ADDR ip
#endif

struct nf_conntrack_end {
	struct {
		__u32 all[4];
		__be32 ip;
	} __attribute__((preserve_access_index)) u3;
	struct {
		__be16 all;
	} __attribute__((preserve_access_index)) u;
} __attribute__((preserve_access_index));

struct nf_conntrack_tuple_hash {
	struct {
		struct nf_conntrack_end src, dst;
	} __attribute__((preserve_access_index)) tuple;
} __attribute__((preserve_access_index));

struct nf_conn {
	struct nf_conntrack_tuple_hash tuplehash[2]; /* of packets in the original direction, and of replies */
	struct {
		__u16 id;
	} __attribute__((preserve_access_index)) zone;
	unsigned long status;
	struct nf_ct_ext *ext;
	struct {
		struct ip_ct_tcp___here tcp;
	} __attribute__((preserve_access_index)) proto;
} __attribute__((preserve_access_index));

#define NFCT_INFO 7 /* the lower bits: enum ip_conntrack_info */
#define IS_REPLY 3  /* from this on, the packet is a reply */
#define UNTRACKED 7 /* a rule has taken the packet from connection tracking */

/* enum ip_conntrack_status */
#define EXPECTED (1 << 0) /* by a helper: it is related to another one until its first reply, and not new */
#define SEEN_REPLY (1 << 1)
#define CONFIRMED (1 << 3)
#define SRC_NAT (1 << 4)
#define DST_NAT (1 << 5)
#define SEQ_ADJUST (1 << 6)
#define NAT_DONE (1 << 7 | 1 << 8) /* rules that translate have been asked, and no packet is to meet them again */
#define DYING (1 << 9)
#define HELPER (1 << 13) /* a helper reads its payload: FTP, SIP */
#define UNSUITABLE (SEQ_ADJUST | DYING | HELPER)
#define TRANSLATED (SRC_NAT | DST_NAT)
#define NAT_CLASH (1 << 12) /* another connection has the same tuple */

#define LIBERAL 8 /* IP_CT_TCP_FLAG_BE_LIBERAL */

#define TCP_ESTABLISHED_STATE 3 /* enum tcp_conntrack */

/* A request: the daemon is to prepare the conntrack entry of a flow, so that it can be carried,
 * or the flow's connection was reset. */
struct ct_request {
	struct flow_key key;
	__u32 entry; /* RESET, or the one to prepare */
};

#define RESET 0

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} ct_requests SEC(".maps");

const struct ct_request *ct_request_layout __attribute__((unused)); /* puts it into BTF */

/* Sends a request, and says whether there was room for it. */
static __always_inline int send_request(const struct flow_key *k, __u32 entry)
{
	struct ct_request *r = bpf_ringbuf_reserve(&ct_requests, sizeof(*r), 0);

	if (!r)
		return 0;
	r->key = *k;
	r->entry = entry;
	bpf_ringbuf_submit(r, 0);
	return 1;
}

/* Requests an entry, at most once in a tick: what failed would fail again a moment later. Without
 * room, the next packet requests it again. */
static __always_inline void request_conntrack(const struct flow_key *k, struct flow *f, __u32 entry)
{
	__u32 now = tick;

	if (f->requested != now && send_request(k, entry))
		f->requested = now;
}

/* The entry has an extension, by its number. */
static __always_inline int has_extension(struct nf_conn *ct, __u32 id)
{
	struct nf_ct_ext *ext = BPF_CORE_READ(ct, ext);
	__u8 at = 0;

	if (ext)
		bpf_probe_read_kernel(&at, sizeof(at), (void *)ext + bpf_core_field_offset(ext->offset) + id);
	return at;
}

/* A rule has given the entry timeouts of its own, which the daemon does not know. */
static __always_inline int has_timeout_policy(struct nf_conn *ct)
{
	return bpf_core_enum_value_exists(enum nf_ct_ext_id, NF_CT_EXT_TIMEOUT) &&
	       has_extension(ct, bpf_core_enum_value(enum nf_ct_ext_id, NF_CT_EXT_TIMEOUT));
}

/* A helper reads the payload. One that the kernel has chosen by the port, which it does before
 * 6.0 if nf_conntrack_helper is set, is not in the status. */
static __always_inline int has_helper(struct nf_conn *ct)
{
	return bpf_core_enum_value_exists(enum nf_ct_ext_id, NF_CT_EXT_HELPER) &&
	       has_extension(ct, bpf_core_enum_value(enum nf_ct_ext_id, NF_CT_EXT_HELPER));
}

/* The conntrack state of a packet's flow. */
struct ct_state {
	__u32 entry;     /* identifies the entry; 0: not tracked */
	__u8 unreplied;  /* no reply was seen */
	__u8 liberal;    /* TCP: no window checks */
	__u8 translated; /* the packet had the addresses and ports below, before they were translated */
	__u8 untold;     /* no entry, and no rule has taken the packet from connection tracking */
	union flow_words before;
};

/* Reads the source and destination of a conntrack tuple. */
static __always_inline void read_tuple(struct nf_conn *ct, int replies, struct tuple *t)
{
	if (replies) {
		BPF_CORE_READ_INTO(&t->local, ct, tuplehash[1].tuple.src.u3.TUPLE_ADDR);
		BPF_CORE_READ_INTO(&t->remote, ct, tuplehash[1].tuple.dst.u3.TUPLE_ADDR);
		t->local_port = BPF_CORE_READ(ct, tuplehash[1].tuple.src.u.all);
		t->remote_port = BPF_CORE_READ(ct, tuplehash[1].tuple.dst.u.all);
		return;
	}
	BPF_CORE_READ_INTO(&t->local, ct, tuplehash[0].tuple.src.u3.TUPLE_ADDR);
	BPF_CORE_READ_INTO(&t->remote, ct, tuplehash[0].tuple.dst.u3.TUPLE_ADDR);
	t->local_port = BPF_CORE_READ(ct, tuplehash[0].tuple.src.u.all);
	t->remote_port = BPF_CORE_READ(ct, tuplehash[0].tuple.dst.u.all);
}

static __always_inline void swap_ends(struct tuple *t)
{
	struct tuple was = *t;

	t->local = was.remote;
	t->remote = was.local;
	t->local_port = was.remote_port;
	t->remote_port = was.local_port;
}

/* The flow is that between the ends of a tuple. */
static __always_inline int has_ends(const union flow_words *k, const struct tuple *t)
{
	ip_addr local = local_of(k), remote = remote_of(k);

	return same_addr(&local, &t->local) && same_addr(&remote, &t->remote) && k->key.local_port == t->local_port && k->key.remote_port == t->remote_port;
}

/* Finds out what a translated packet was before, by the tuples of its conntrack entry. 0: it
 * is not, or not only, what conntrack makes of it. IPVS writes its own translation into the
 * tuples, and leaves the status, so the status must account for what the tuples say. */
static __always_inline int read_translation(struct nf_conn *ct, unsigned long status, int reply, const union flow_words *k, enum direction dir,
					    struct ct_state *t)
{
	unsigned long source = reply ? DST_NAT : SRC_NAT, destination = reply ? SRC_NAT : DST_NAT; /* of this packet */
	struct tuple before, after;

	read_tuple(ct, reply, &before);
	read_tuple(ct, !reply, &after); /* turned round: of the packets that answer this one */
	if (!(status & source) && (!same_addr(&before.local, &after.remote) || before.local_port != after.remote_port))
		return 0;
	if (!(status & destination) && (!same_addr(&before.remote, &after.local) || before.remote_port != after.local_port))
		return 0;
	if (dir == OUT)
		swap_ends(&after);
	else
		swap_ends(&before);
	if (!has_ends(k, &after))
		return 0;
	t->before.key.tenant_proto = k->key.tenant_proto;
	t->before.key.local_port = before.local_port;
	t->before.key.remote_port = before.remote_port;
	name_ends(&t->before, &before);
	t->translated = 1;
	return 1;
}

/* Rules for packets of a kind, TRACKS_ROUTED or TRACKS_BRIDGED, go by connection tracking, which knows nothing of this
 * one: it is invalid. They may let it pass and drop others of its flow, so it teaches nothing. */
static __always_inline int is_invalid(const struct ct_state *t, __u32 kind)
{
	return t->untold && tracking & kind;
}

/* Connection tracking allows the flow of a packet, which it has translated already, to be
 * carried, unless the packet is invalid: it is established. UDP without a reply is allowed where no rule asks for replies,
 * where it is not translated, and where rules that translate will not be asked again. */
static __always_inline int conntrack_allows(struct __sk_buff *ctx, const union flow_words *k, enum direction dir, struct ct_state *t)
{
	struct sk_buff___here *skb = (void *)ctx; /* the context is the sk_buff itself */
	unsigned long nfct = BPF_CORE_READ(skb, _nfct);
	struct nf_conn *ct = (void *)(nfct & ~(unsigned long)NFCT_INFO);
	int tcp = (k->key.tenant_proto & 0xff) == IPPROTO_TCP;
	unsigned long status;

	t->entry = 0;
	t->unreplied = 0;
	t->liberal = 0;
	t->translated = 0;
	t->untold = 0;
	t->before.a = 0;
	t->before.b = 0;
	/* IPVS translates packets, or leads them elsewhere, by connections of its own. It takes their
	 * conntrack entry from them, unless net.ipv4.vs.conntrack is set. */
	if (bpf_core_field_exists(skb->ipvs_property) && BPF_CORE_READ_BITFIELD_PROBED(skb, ipvs_property))
		return 0;
	if (!ct) {
		t->untold = nfct != UNTRACKED;
		return 1;
	}
	status = BPF_CORE_READ(ct, status);
	if (!(status & CONFIRMED) || status & UNSUITABLE || has_timeout_policy(ct) || has_helper(ct))
		return 0;
	if (!(status & SEEN_REPLY)) {
		__u32 may = unreplied;

		if (tcp || may == 2 || status & EXPECTED)
			return 0;
		/* Of a connection that began before there were such rules, every packet meets them until a reply. */
		if (may == 3 && (status & NAT_DONE) != NAT_DONE)
			return 0;
		t->unreplied = 1;
	}
	if (bpf_core_field_exists(ct->zone) && BPF_CORE_READ(ct, zone.id) != 0)
		return 0;
	if (tcp && BPF_CORE_READ(ct, proto.tcp.state) != TCP_ESTABLISHED_STATE)
		return 0;
	t->entry = (__u32)(nfct >> 6) | 1;
	if (status & TRANSLATED && (!carry_translated || t->unreplied || status & NAT_CLASH ||
				    !read_translation(ct, status, (nfct & NFCT_INFO) >= IS_REPLY, k, dir, t)))
		return 0;
	if (tcp)
		t->liberal = BPF_CORE_READ(ct, proto.tcp.seen[0].flags) & BPF_CORE_READ(ct, proto.tcp.seen[1].flags) & LIBERAL;
	return 1;
}

/* The daemon has prepared the conntrack entry; otherwise requests it. Another entry may be at
 * the same address in memory: for TCP, the liberal flag tells. */
static __always_inline int conntrack_ready(const struct flow_key *k, struct flow *f, const struct ct_state *t)
{
#ifdef SHADOW
	return 1; /* conntrack sees every packet */
#endif
	if (!t->entry || (f->ct_entry == t->entry && ((k->tenant_proto & 0xff) != IPPROTO_TCP || t->liberal)))
		return 1;
	request_conntrack(k, f, t->entry);
	return 0;
}
