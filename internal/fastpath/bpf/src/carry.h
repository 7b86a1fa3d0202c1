/* Whether a packet can be carried, and what happens to one that cannot. */
#pragma once
#include "slots.h"
#include "learn.h"

struct carried {
	struct parsed p;
	struct slot *to; /* of its flow */
	struct translation *nat; /* of its addresses and ports; 0: none */
};

/* Deletes the entry of a flow for what comes back from a sibling. */
static __always_inline void drop_reverse(const struct flow_key *k, const struct flow *f);

/* A pod sends a frame to the MAC of the sibling that it is for. */
static __always_inline int is_for_sibling(const void *eth, const struct pod *from, const struct parsed *p);

/* Deletes the entry of a flow, and the other one that it has if it is translated. Connection
 * tracking has not seen how far a carried connection had come, so it cannot tell whether a reset
 * ends it: the daemon looks. */
static __always_inline void drop_entries(const struct flow_key *k, const struct flow *f, int reset)
{
	int translated = f->translated;
	struct flow_key other;

	if (f->peer & SIBLING)
		drop_reverse(k, f);
	other_key(&other, k->tenant_proto ^ WIRE_VIEW, &f->other);
#ifndef SHADOW
	if (reset && (translated || f->ct_entry))
		send_request(k->tenant_proto & WIRE_VIEW ? &other : k, RESET);
#endif
	delete_entry(k);
	if (carry_translated && translated)
		delete_entry(&other);
}

/* A packet opens or ends a connection: what is known of earlier packets with the same
 * addresses and ports is void. */
static __always_inline int drop_flow(const struct parsed *p, enum direction dir)
{
	union flow_words own = words_of(p);
	struct flow_key wire = p->key;
	struct flow *f = bpf_map_lookup_elem(&flows, &p->key);
	struct candidate *c;
	__u64 a, b;

	candidate_key(&own, &a, &b);
	c = find_candidate(a, b);
	if (c)
		c->packets = 0; /* the last packets of a connection do not count for the next */
	if (f && (dir == OUT || !(f->translated || f->peer & SIBLING)))
		drop_entries(&p->key, f, p->flags & TCP_RST);
	if (carry_translated && dir == IN) {
		wire.tenant_proto |= WIRE_VIEW;
		f = bpf_map_lookup_elem(&flows, &wire);
		if (f)
			drop_entries(&wire, f, p->flags & TCP_RST);
	}
	return SLOW_FLAGS;
}

/* A pod sends a reset or a FIN as another. Connection tracking may take it for that one's, and gives the
 * connection a short time: packets that it sees prolong that, or give it the usual one again. */
static __always_inline void forget_end(struct parsed *p, __u32 tenant)
{
	struct flow *f;

	p->a |= tenant << 8;
	f = bpf_map_lookup_elem(&flows, &p->key);
	if (f)
		drop_entries(&p->key, f, 0);
}

/* A packet of a flow that is slow in this direction. It may be the first reply to a flow that
 * was learned without one: that flow is reset, and learned in its new state. */
static __always_inline int not_forwarded(const struct flow_key *k)
{
	struct flow *f = bpf_map_lookup_elem(&flows, k);

	if (f && f->unreplied && f->epoch)
		reset_flow(k, f);
	return SLOW_UNPROVEN;
}

/* A pod sends to its gateway, from its own MAC: the host does not route other frames. */
static __always_inline int is_for_gateway(const void *eth, const void *macs)
{
	return same_mac(eth, macs + MAC_LEN) && same_mac(eth + MAC_LEN, macs);
}

/* A pod has sent a frame. If it is from the pod's known MAC, packets may be carried to it. */
static __always_inline void confirm_mac(const void *eth, const void *end, __u32 device)
{
	struct pod *pod = bpf_map_lookup_elem(&pods, &device);
	__u32 pod_epoch;

	if (!pod || eth + ETH_HLEN > end)
		return;
	pod_epoch = read_once(&pod->epoch); /* before the rest of it, as pod_of() does */
	if (!pod_epoch)
		return;
	if (!same_mac(eth + MAC_LEN, pod->header))
		pod->mac_epoch = 0;
	else if (pod->mac_epoch != pod_epoch)
		pod->mac_epoch = pod_epoch;
}

/* A packet from a pod, of a flow without a valid slot, or one that a program ahead of this one has marked: rules
 * and routes may go by the mark, so it is none to learn from either. 0: it can be carried. */
static __always_inline int lookup_flow_out(struct __sk_buff *skb, const void *eth, const void *end, struct carried *c, __u64 hash, __u32 device)
{
	struct pod *pod = bpf_map_lookup_elem(&pods, &device);
	__u32 pod_epoch = pod ? read_once(&pod->epoch) : 0; /* before the rest of it, as pod_of() does */
	int why;

	if (!pod || pod->addr != c->p.key.local || !(is_for_gateway(eth, pod->header) || is_for_sibling(eth, pod, &c->p))) {
		confirm_mac(eth, end, device);
		if (pod && c->p.flags & (TCP_RST | TCP_FIN))
			forget_end(&c->p, pod->tenant);
		return SLOW_SOURCE;
	}
	if (pod->mac_epoch != pod_epoch)
		pod->mac_epoch = pod_epoch;
	c->p.a |= pod->tenant << 8;
	if (c->p.flags)
		return drop_flow(&c->p, OUT);
	if (skb->mark)
		return SLOW_ENCAPSULATED;
	if (carry_translated)
		c->nat = translation_of(&c->p, hash);
	why = fill_slot(c->to, c->nat, &c->p, hash, OUT);
	if (!why) {
		if (!c->to->translated)
			c->nat = 0;
		return c->to->pod == device ? 0 : SLOW_SOURCE;
	}
	if (why != SLOW_UNKNOWN || count_candidate(&c->p, &why))
		stamp(skb);
	return why;
}

/* A packet from a pod. 0: it can be carried. */
static __always_inline int lookup_out(struct __sk_buff *skb, struct carried *c)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	__u32 device = skb->ifindex, size;
	__u64 hash;
	int why;

	clear_stamp(skb);
	if (!lease_valid()) {
		confirm_mac(data, end, device);
		return SLOW_NO_DAEMON;
	}
	if (data + ETH_HLEN > end || skb->protocol != bpf_htons(ETHERTYPE) || skb->vlan_present) {
		confirm_mac(data, end, device);
		return SLOW_NOT_IPV4;
	}
	why = parse(data + ETH_HLEN, end, OUT, &c->p);
#ifdef INET6
	if (why)
		confirm_mac(data, end, device); /* neighbour discovery is ICMP */
#endif
	if (why)
		return why;
	c->nat = 0;
	c->to = slot_of_packet(&c->p, &hash);
	if (!c->to)
		return SLOW_UNKNOWN; /* impossible */
	if (carry_translated && c->to->translated)
		c->nat = translation_of(&c->p, hash);
	if ((c->to->a ^ c->p.a) & NO_TENANT || c->to->b != c->p.b || c->to->pod != device || !slot_valid(c->to, hash) || c->p.flags || skb->mark ||
	    (c->nat && !translation_valid(c->nat, OUT))) {
		why = lookup_flow_out(skb, data, end, c, hash, device);
		if (why)
			return why;
	}
	if (!is_for_gateway(data, c->to->macs)) {
		/* The network does not find a pod that has changed its MAC; or the pod has sent to a sibling
		 * before, and to its gateway now, or the other way round. */
		confirm_mac(data, end, device);
		c->p.a = c->to->a;
		drop_flow(&c->p, OUT);
		return SLOW_SOURCE;
	}
	size = skb->gso_size ? c->p.headers + skb->gso_size : c->p.ip_len;
	if (size > c->to->size[OUT] || c->p.ip_len + ETH_HLEN != skb->len || skb->len > MAX_FRAME || cut_inside(skb, &c->p)) {
		if (c->to->size[OUT])
			return SLOW_SIZE;
		c->p.a = c->to->a;
		stamp(skb);
		return not_forwarded(&c->p.key);
	}
	return 0;
}

/* A packet from the wire may end or reset its flow. One that has come through a tunnel must be from
 * a peer: rules may drop what others send. at is the offset of the pod's IP header. */
static __always_inline int known_sender(struct __sk_buff *skb, void *data, __u32 at, __u32 tenant);

/* A packet for a pod, whose IP header is at an offset. 0: it can be carried. */
static __always_inline int lookup_in(struct __sk_buff *skb, void *data, void *end, __u32 at, __u32 tenant, struct carried *c)
{
	int why = parse(data + at, end, IN, &c->p);
	__u32 len, size, segment;
	__u64 hash;

	if (why)
		return why;
	len = c->p.ip_len + at;
	c->to = slot_of_packet(&c->p, &hash);
	if (!c->to)
		return SLOW_UNKNOWN; /* impossible */
	c->p.a |= tenant << 8;
	if (c->p.flags)
		return known_sender(skb, data, at, tenant) ? drop_flow(&c->p, IN) : SLOW_SOURCE;
	c->nat = 0;
	if (carry_translated && c->to->translated)
		c->nat = translation_of(&c->p, hash);
	if (c->to->a != c->p.a || c->to->b != c->p.b || !slot_valid(c->to, hash) || (c->nat && !translation_valid(c->nat, IN))) {
		if (carry_translated)
			c->nat = translation_of(&c->p, hash);
		why = fill_slot(c->to, c->nat, &c->p, hash, IN);
		if (why)
			return why;
		if (!c->to->translated)
			c->nat = 0;
	}
	segment = skb->gso_size;
	size = segment ? c->p.headers + segment : c->p.ip_len;
	if (!c->to->size[IN])
		return known_sender(skb, data, at, tenant) ? not_forwarded(&c->p.key) : SLOW_SOURCE;
	/* Short frames are padded; the pod removes the padding, as the host would. */
	if (size > c->to->size[IN] || (segment ? len != skb->len : len > skb->len))
		return SLOW_SIZE;
	return 0;
}

/* The peer behind a hop, and its number; 0: there is none. */
static __always_inline struct peer *peer_behind(const struct hop_key *via, __u32 tenant, __u32 *number)
{
	struct hop *to = bpf_map_lookup_elem(&hops, via);
	struct peer *peer;

	if (!to || to->tenant != tenant)
		return 0;
	*number = to->peer;
	peer = bpf_map_lookup_elem(&peers, number);
	return peer && peer->epoch ? peer : 0;
}

/* 0: the outer headers of a packet are those that the peer's host sends. A packet from which
 * a flow is learned may have an outer UDP checksum, which the network verifies. */
static __always_inline int from_peer(void *data, const void *header, const struct parsed *p, int learning);

/* Stamps a packet from the wire, of a flow to be learned, if it is from the peer that its headers
 * name. */
static __always_inline void stamp_in(struct __sk_buff *skb, void *data, const struct hop_key *via, __u32 tenant, const struct carried *c)
{
	__u32 number, peer_epoch;
	struct peer *peer = peer_behind(via, tenant, &number);

	if (!peer)
		return;
	peer_epoch = read_once(&peer->epoch); /* before the rest of it, as pod_of() does */
	if (peer_epoch && !from_peer(data, peer->header, &c->p, 1))
		note_peer(skb, &c->p, number, peer_epoch);
}

/* Leaves a packet from the wire to the slow path. A packet for no pod of this host is neither
 * counted nor a candidate. via is the peer that its headers name, around how many bytes a tunnel's are. */
static __always_inline int slow_in(struct __sk_buff *skb, void *data, const struct hop_key *via, __be32 addr, __u32 tenant, const struct carried *c, int why, __u32 around)
{
	struct pod_key who = {.tenant = tenant, .addr = addr};
	struct flow_key wire;

	if (!bpf_map_lookup_elem(&pod_at, &who)) {
		/* Masquerade has put an address of the host in place of a pod's. */
		if (!carry_translated || (why != SLOW_UNKNOWN && why != SLOW_STALE && why != SLOW_UNPROVEN))
			return NEXT;
		wire = c->p.key; /* not before: a packet that was not parsed has none */
		wire.tenant_proto |= WIRE_VIEW;
		if (!bpf_map_lookup_elem(&flows, &wire))
			return NEXT;
	}
	if (why == SLOW_UNKNOWN ? count_candidate(&c->p, &why) : why == SLOW_STALE || why == SLOW_UNPROVEN || why == SLOW_SOURCE)
		stamp_in(skb, data, via, tenant, c);
	count(skb, IN, why, around);
	return NEXT;
}

/* Translates the transport's checksum of a packet whose IP header is at an offset. The kernel
 * knows whether the field has a checksum, or the sum of addresses that a card begins with. */
static __always_inline int translate_checksum(struct __sk_buff *skb, __u32 at, const struct carried *c)
{
	int tcp = (c->p.key.tenant_proto & 0xff) == IPPROTO_TCP;
	__u32 check = at + IP_LEN + (tcp ? TCP_CHECK : UDP_CHECK);
	__u64 flags = tcp ? 0 : BPF_F_MARK_MANGLED_0; /* UDP: without a checksum it stays without */

	if (c->nat->addr_difference) {
		if (bpf_l4_csum_replace(skb, check, 0, c->nat->addr_difference, flags | BPF_F_PSEUDO_HDR))
			return -1;
		keep_addrs_sum(skb, c->nat->addr_difference);
	}
	return c->nat->port_difference ? bpf_l4_csum_replace(skb, check, 0, c->nat->port_difference, flags) : 0;
}

/* Translates addresses and ports. */
static __always_inline void translate(void *ip, struct carried *c)
{
	write_addrs(ip, &c->nat->saddr, &c->nat->daddr);
	*(__u32 *)(ip + IP_LEN) = c->nat->ports;
	if (c->nat->addr_difference)
		c->p.check = adjust(c->p.check, c->nat->addr_difference); /* written with the TTL */
}

/* Writes all headers of a packet for a pod. */
static __always_inline void write_in(void *eth, struct carried *c)
{
	write_eth(eth, c->to->macs);
	if (c->nat)
		translate(eth + ETH_HLEN, c);
	decrement_ttl(eth + ETH_HLEN, &c->p);
}

/* Counts a carried packet, without so many bytes that are around it. */
static __always_inline int carry(struct __sk_buff *skb, enum direction dir, __u32 around, int verdict)
{
	count(skb, dir, CARRIED, around);
	return verdict;
}

/* Hands a packet without outer headers to a pod. */
static __always_inline int carry_in(struct __sk_buff *skb, struct carried *c)
{
	void *data;

	if (c->nat && translate_checksum(skb, ETH_HLEN, c))
		return TC_SHOT; /* impossible: these bytes were read before, and are writable */
	data = (void *)(long)skb->data;
	if (data + ETH_HLEN + IP_LEN + UDP_LEN > (void *)(long)skb->data_end)
		return TC_SHOT; /* impossible, as above */
	write_in(data, c);
	skb->priority = 0; /* as a veth device leaves it in a pod, whatever it was where it was routed */
	keep_sum(skb);
	return carry(skb, IN, 0, bpf_redirect_peer(c->to->pod, 0));
}

#include "sibling.h"
#ifdef SHADOW
#include "shadow.h"
#endif
