/* RSTs of carried connections.
 *
 * An RST takes the slow path, where connection tracking compares its sequence number with the
 * last acknowledgement. It has not seen those of carried packets. So it takes a valid RST for
 * one that the receiver may reject, leaves the connection established, and lets it expire
 * after ten seconds; and it does the same for a forged RST that it would ignore otherwise.
 * The programs know better, and tell the daemon, which puts right what connection tracking
 * has made of the RST:
 *
 * - An RST from a pod of this host ends its connection. The pod's stack sends one only when it
 *   has given the connection up, and nobody else can send from the pod's device and address.
 * - An RST from the wire ends it if it continues the last segment that was carried into the
 *   pod. One with an older sequence number is ignored, as without the fast path. With any
 *   other, connection tracking decides. */
#pragma once
#include "conntrack.h"
#include "packet.h"

#define TAILS 65536

/* Where the last segment of a connection ended that was carried into a pod. Connections share
 * places, and cores share the table: what was overwritten is unknown. */
struct tail {
	__u64 hash; /* of the flow's key */
	__u32 end;  /* sequence number */
	__u32 kept; /* tick of the last CT_KEEP */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TAILS);
	__type(key, __u32);
	__type(value, struct tail);
} tails SEC(".maps");

static __always_inline struct tail *tail_of(__u64 hash)
{
	__u32 at = hash >> 48;

	return bpf_map_lookup_elem(&tails, &at);
}

/* A segment is carried into a pod. */
static __always_inline void note_segment(const struct parsed *p, __u64 hash)
{
	__u32 end = bpf_ntohl(p->seq) + p->ip_len - p->headers;
	struct tail *t = tail_of(hash);

	if (!t)
		return; /* impossible */
	if (t->hash != hash) {
		t->end = end;
		t->hash = hash;
	} else if ((__s32)(end - t->end) > 0) {
		t->end = end;
	}
}

static __always_inline void request_action(const struct flow_key *k, __u32 action)
{
	struct ct_request *r = bpf_ringbuf_reserve(&ct_requests, sizeof(*r), 0);

	if (!r)
		return; /* the connection expires ten seconds later */
	r->key = *k;
	r->entry = 0;
	r->action = action;
	bpf_ringbuf_submit(r, 0);
}

static __always_inline void on_reset(const struct parsed *p, enum direction dir, __u64 hash)
{
	struct tail *t = tail_of(hash);
	int known = t && t->hash == hash;
	__s32 after;

	if (dir == OUT) {
		if (!known && !bpf_map_lookup_elem(&flows, &p->key))
			return; /* never carried, or an RST was there already */
		if (known)
			t->hash = 0;
		request_action(&p->key, CT_CLOSE);
		return;
	}
	if (!known)
		return;
	after = bpf_ntohl(p->seq) - t->end;
	if (!after) {
		t->hash = 0;
		request_action(&p->key, CT_CLOSE);
	} else if (after < 0 && t->kept != tick) {
		t->kept = tick;
		request_action(&p->key, CT_KEEP);
	}
}
