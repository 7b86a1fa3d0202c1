/* Flows between siblings: pods of one host. Such a flow has an entry for each of its pods, for what that one
 * sends: the peer in it is the other pod. They are learned where the network hands packets to
 * the pod that gets them, and carried from pod to pod.
 *
 * The network leads packets from pod to pod in two ways, which their MACs and the device that they came
 * in by tell apart. It routes them: then they come from the pod's gateway, with a lower TTL. Or a bridge
 * forwards them: then they come from the MAC of the pod that sends them, as they were, unless rules
 * translate them there. A bridge that gives packets to another pod than the one that they are sent to
 * also gives them the MAC of that pod. */
#pragma once
#include "carry.h"

/* The key of a flow in the other direction. */
static __always_inline void turn_ends(struct flow_key *to, const struct flow_key *from)
{
	to->tenant_proto = from->tenant_proto;
	to->local = from->remote;
	to->remote = from->local;
	to->local_port = from->remote_port;
	to->remote_port = from->local_port;
}

/* A pod sends a frame to the MAC of the pod that it is for. They are ports of one bridge. */
static __always_inline int is_for_sibling(const void *eth, const struct pod *from, const struct parsed *p)
{
	__u32 device, to_epoch;
	struct pod *to;

	if (!from->sibling || !maybe_pod(p->key.remote) || !same_mac(eth + MAC_LEN, from->header))
		return 0;
	to = pod_of(p->key.remote, from->tenant, &device, &to_epoch);
	return to && to->sibling && to->ingress_ifindex == from->ingress_ifindex && same_mac(eth, to->header);
}

static __always_inline void fill_sibling(struct slot *s, int proven, __u32 way, const struct flow_key *k, const struct pod *from, const struct pod *to)
{
	__u16 *header = (void *)s->header;
	int i, bridged = way & BRIDGED;
	/* To its gateway, unless a bridge leads what it sends to the other's MAC. */
	const __u16 *sent_to = bridged && k->remote == to->addr ? to->header : from->header + MAC_LEN / 2;

	s->wire = way;
	s->size[OUT] = proven && to->mac_epoch == to->epoch ? to->size : 0;
	s->size[IN] = 0; /* nothing comes by the wire */
	s->port = 0;
	s->sum = 0;
	for (i = 0; i < MAC_LEN / 2; i++) {
		s->macs[i] = from->header[i];
		s->macs[MAC_LEN / 2 + i] = sent_to[i];
		header[i] = to->header[i];
		header[MAC_LEN / 2 + i] = bridged ? from->header[i] : to->header[MAC_LEN / 2 + i];
	}
}

/* Finds the entry of a flow for what comes back, by what its own says; 0: there is none. */
static __always_inline struct flow *reverse_of(const struct flow_key *k, int translated, const struct ends *other, struct flow_key *reverse)
{
	struct flow_key there = *k;
	struct flow *f;

	if (translated)
		other_key(&there, k->tenant_proto, other);
	turn_ends(reverse, &there);
	f = bpf_map_lookup_elem(&flows, reverse);
	return f && f->peer & SIBLING ? f : 0;
}

/* What ends a flow ends it both ways. */
static __always_inline void drop_reverse(const struct flow_key *k, const struct flow *f)
{
	struct flow_key reverse;

	if (reverse_of(k, f->translated, &f->other, &reverse))
		delete_entry(&reverse);
}

/* How the network has led a packet from pod to pod: 0, BRIDGED, or -1 if it is not known to. */
static __always_inline int led_by(const struct __sk_buff *skb, const void *eth, const struct pod *from, __u32 sender, const struct pod *to)
{
	if (!same_mac(eth, to->header))
		return -1;
	if (skb->ingress_ifindex == from->ingress_ifindex && same_mac(eth + MAC_LEN, to->header + MAC_LEN / 2))
		return 0;
	if (skb->ingress_ifindex == sender && from->ingress_ifindex != sender && from->ingress_ifindex == to->ingress_ifindex &&
	    same_mac(eth + MAC_LEN, from->header))
		return BRIDGED;
	return -1;
}

static __always_inline int learn_sibling(struct __sk_buff *skb, const void *eth, __u32 device, const struct pod *pod, __u32 to_epoch, const union flow_words *in, const struct ct_state *t, __u32 now)
{
	struct flow_key own, there, reverse;
	__u32 sender, peer, was, proof, from_epoch;
	struct flow *f, *back;
	struct candidate *c;
	struct pod *from;
	__u64 a, b;
	int by;

	turn_ends(&there, &in->key);
	turn_ends(&own, t->translated ? &t->before.key : &in->key);
	if (!maybe_pod(own.local))
		return 0;
	from = pod_of(own.local, pod->tenant, &sender, &from_epoch);
	if (!from || (skb->ingress_ifindex != sender && skb->ingress_ifindex != from->ingress_ifindex))
		return 0;
	by = led_by(skb, eth, from, sender, pod);
	if (by < 0 || sender == device || !from->sibling || !pod->sibling || t->unreplied || is_invalid(t, by == BRIDGED ? TRACKS_BRIDGED : TRACKS_ROUTED))
		return 1;
	/* Its pod may have sent it to the MAC of the pod that rules have put this one in place of. */
	if (by == BRIDGED && own.remote != pod->addr && is_pod(own.remote, pod->tenant))
		return 1;
	/* Something that connection tracking does not know may have translated it: its pod has sent no such packet. */
	sender_candidate_key(in, &own, &a, &b);
	c = find_candidate(a, b);
	if (!are_numbered(in) || (!c && !bpf_map_lookup_elem(&flows, &own)))
		return 1;
	f = get_entry(&own, t->translated ? &there : 0);
	if (!f) {
		if (c)
			c->full = tick | FULL;
		return 1;
	}
	if (f->unreplied) {
		f->unreplied = 0;
		reset_flow(&own, f);
	}
	if (!conntrack_ready(&own, f, t))
		return 1;
	if (!t->entry)
		f->ct_entry = 0; /* it was tracked before */
	peer = SIBLING | by | device;
	was = f->epoch;
	f->epoch = 0; /* not carried while it is changed */
	if (f->pod != sender || f->pod_epoch != from_epoch || f->peer != peer || f->peer_epoch != to_epoch)
		f->seen_in = 0;
	f->port = 0;
	f->pod = sender;
	f->pod_epoch = from_epoch;
	f->peer = peer;
	f->peer_epoch = to_epoch;
	f->used = tick;
	proof = proof_of(&own, &there, from_epoch, peer, to_epoch, now);
	f->seen_out = proof;
	back = reverse_of(&own, t->translated, &f->other, &reverse);
	if (back) {
		__u32 way = read_once(&back->peer), back_proof;

		turn_ends(&there, &own); /* the other flow as this pod sees it */
		back_proof = proof_of(&reverse, &there, to_epoch, way, from_epoch, now);
		if (back->seen_out == back_proof && back->pod == device && (way & DEVICE_OF_SIBLING) == sender) {
			f->seen_in = proof;
			if (back->seen_in != back_proof) { /* the first packet that way: now both were seen */
				back->seen_in = back_proof;
				back->epoch = now;
				bump_group(&reverse);
			}
		}
	}
	promote(&own, f, proof, now, was);
	return 1;
}

static __always_inline int recount_sibling(const union flow_words *in)
{
	struct candidate *c;
	struct flow_key own;
	__u64 a, b;

	turn_ends(&own, &in->key);
	sender_candidate_key(in, &own, &a, &b);
	c = find_candidate(a, b);
	if (c)
		c->packets = 0;
	return NEXT;
}

/* Writes all headers of a packet for a sibling. */
static __always_inline void write_sibling(void *eth, struct carried *c)
{
	void *ip = eth + ETH_HLEN;

	write_eth(eth, c->to->header);
	if (c->nat)
		translate(ip, c);
	if (!(c->to->wire & BRIDGED))
		decrement_ttl(ip, &c->p);
	else if (c->nat)
		write_check(ip, &c->p);
}

#ifdef SHADOW
static __always_inline int shadow(struct __sk_buff *skb, enum direction dir, struct carried *c, __u32 at, __u32 ip);
#endif

/* Carries a packet to a sibling, which takes it for one that its host sends to it. */
static __always_inline int carry_sibling(struct __sk_buff *skb, struct carried *c)
{
	void *eth;

#ifdef SHADOW
	return shadow(skb, OUT, c, ETH_HLEN, ETH_HLEN);
#endif
	if (c->nat && translate_checksum(skb, ETH_HLEN, c))
		return TC_SHOT; /* impossible: these bytes were read above, and are writable */
	eth = (void *)(long)skb->data;
	if (eth + ETH_HLEN + IP_LEN + UDP_LEN > (void *)(long)skb->data_end)
		return TC_SHOT; /* impossible, as above */
	write_sibling(eth, c);
	if (!(c->to->wire & BRIDGED))
		keep_sum(skb);
	skb->priority = 0; /* as a veth device leaves it in a pod */
	bpf_skb_change_type(skb, PACKET_FOR_US); /* older kernels leave it the type that it has at a bridge */
	return carry(skb, OUT, 0, bpf_redirect_peer(c->to->wire & DEVICE_OF_SIBLING, 0));
}
