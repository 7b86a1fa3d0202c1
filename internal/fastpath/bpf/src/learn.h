/* How flows are learned. A flow is carried once the network itself has forwarded it under the
 * current rules: UDP in that direction, TCP in both.
 *
 * A slow packet is stamped with the current policy epoch. Behind all rules, where the network
 * hands the packet on, a second program reads the stamp. If it is that of the current epoch,
 * the current rules have let the packet pass. The stamp is skb->tc_index, which nothing in
 * between reads.
 *
 * The stamp outlives network namespaces. So the packet's last ingress device must be the pod's
 * own or the peer's; otherwise it has crossed something unknown. A tunnel device clears the
 * ingress device and the conntrack entry of a packet, so to_tunnel checks both in front of
 * it, and marks the stamp. */
#pragma once
#include "candidates.h"
#include "conntrack.h"

/* A packet on the wire has the headers that a carried packet would get. */
static __always_inline int same_headers(const void *data, const struct peer *to);

/* Invalidates what was learned of a flow. */
static __always_inline void reset_flow(const struct flow_key *k, struct flow *f)
{
	f->epoch = 0;
	f->seen_out = 0;
	f->seen_in = 0;
	bump_group(k);
}

/* A flow was seen in a direction, and its entry written; was is the epoch in which it was carried before. UDP is
 * carried in each direction seen in this epoch, and TCP once both were, between the same pod and peer.
 *
 * This invalidates the slots of a flow that was carried before, or is now. A flow that is not carried has none, and
 * must not cost those of its group theirs. */
static __always_inline void promote(const struct flow_key *k, struct flow *f, __u32 proof, __u32 now, __u32 was)
{
	if ((k->tenant_proto & 0xff) == IPPROTO_UDP || (f->seen_out == proof && f->seen_in == proof))
		f->epoch = now;
	if (epoch != now)
		f->epoch = 0; /* the rules have changed meanwhile */
	if (was || read_once(&f->epoch)) /* another core may have set it */
		bump_group(k);
}

/* Finds or makes an entry of a flow, with the other key that the flow has if it is translated,
 * else 0. An entry with another one is that of an earlier connection. 0: there is no room. */
static __always_inline struct flow *get_entry(const struct flow_key *k, const struct flow_key *other)
{
	struct flow fresh = {.used = tick};
	struct flow *f = bpf_map_lookup_elem(&flows, k);

	if (f && (other ? f->translated && same_ends(&f->other, other) : !f->translated))
		return f;
	if (f)
		delete_entry(k);
	if (other) {
		fresh.translated = 1;
		to_ends(&fresh.other, other);
	}
	bpf_map_update_elem(&flows, k, &fresh, BPF_NOEXIST);
	f = bpf_map_lookup_elem(&flows, k);
	/* Another core may have been faster, with another connection. */
	return f && (other ? f->translated && same_ends(&f->other, other) : !f->translated) ? f : 0;
}

/* Finds or makes the entry of a flow that connection tracking allows, by the key that its pod
 * sees; wire is the other one, if it is translated, and gets what pod gets: numbers. 0: it is not
 * to be carried yet. The first reply invalidates what was learned before it. A direct flow between
 * the ends that a translated one has on the wire is over: conntrack gives them to one connection
 * at a time. */
static __always_inline struct flow *get_flow(union flow_words *pod, union flow_words *wire, const struct ct_state *t)
{
	struct flow *f = 0, *at, *direct;
	struct flow_key seen;

	if (give_numbers(pod, wire, t->translated))
		f = get_entry(&pod->key, t->translated ? &wire->key : 0);
	if (f && t->translated) {
		seen = wire->key;
		seen.tenant_proto |= WIRE_VIEW;
		direct = bpf_map_lookup_elem(&flows, &wire->key);
		if (direct && !direct->translated)
			delete_entry(&wire->key); /* it would hide this one */
		at = get_entry(&seen, &pod->key);
		if (at)
			at->used = tick;
		else
			f = 0;
	}
	if (!f) {
		note_full(pod); /* the candidate of what the pod sends, and that of what comes back */
		if (t->translated)
			note_full(wire);
		return 0;
	}
	if (f->unreplied != t->unreplied) {
		f->unreplied = t->unreplied;
		reset_flow(&pod->key, f);
	}
	return conntrack_ready(&pod->key, f, t) ? f : 0;
}

/* The pod with an address, the ifindex of its device, and its epoch; 0: there is none. The entry of pod_at may have
 * become that of another address while it was read. The epoch is read before all that it vouches for, as the
 * daemon may make the entry that of another pod meanwhile: what is learned is not that one's then. */
static __always_inline struct pod *pod_of(__be32 addr, __u32 tenant, __u32 *device, __u32 *pod_epoch)
{
	struct pod_key who = {.tenant = tenant, .addr = addr};
	__u32 *at = bpf_map_lookup_elem(&pod_at, &who);
	struct pod *pod;

	*device = *pod_epoch = 0; /* or they may be read unwritten, for what the kernel can tell */
	if (!at)
		return 0;
	*device = read_once(at);
	pod = bpf_map_lookup_elem(&pods, device);
	if (!pod)
		return 0;
	*pod_epoch = read_once(&pod->epoch);
	return *pod_epoch && read_once(&pod->addr) == addr ? pod : 0;
}

/* An address is that of a pod of this host. */
static __always_inline int is_pod(__be32 addr, __u32 tenant)
{
	__u32 device, pod_epoch;

	return maybe_pod(addr) && pod_of(addr, tenant, &device, &pod_epoch);
}

/* The network sends a pod's packet to a peer, behind all rules, also those for the outer
 * headers. at is the offset of the pod's IP header, via the next hop. Carried
 * packets keep the outer source port, so those who track or balance the outer flow see no
 * difference. crossed: to_tunnel has checked the ingress device and connection tracking;
 * otherwise that is done here. */
static __always_inline int learn_out(struct __sk_buff *skb, __u32 at, const struct hop_key *via, __u32 tenant, __be16 port, __u32 now, int crossed)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	union flow_words own, wire;
	struct ct_state t;
	__u64 ignored;
	__u32 device, number, pod_epoch, peer_epoch, proof, was;
	struct flow *f = 0;
	struct parsed p;
	struct peer *peer;
	struct pod *pod;
	struct hop *to;

	/* A VLAN device upon the wire sends through it: its tag is not among the headers yet. */
	if (skb->vlan_present || data + at > end || parse(data + at, end, OUT, &p) || p.flags)
		return NEXT;
	to = bpf_map_lookup_elem(&hops, via);
	if (!to || to->tenant != tenant)
		return NEXT;
	name_flow(&p);
	p.key.tenant_proto |= tenant << 8;
	wire = own = words_of(&p);
	if (crossed) {
		if (carry_translated)
			f = flow_on_wire(&wire.key, &own, &ignored);
		if (!f) {
			own = wire;
			f = bpf_map_lookup_elem(&flows, &own.key);
			if (!f || f->translated)
				return NEXT;
		}
	} else {
		if (!conntrack_allows(skb, &wire, OUT, &t) || is_invalid(&t, TRACKS_ROUTED))
			return NEXT;
		/* Anybody may send resets to an address of the host. What they end is for connection tracking to
		 * judge, which does not see how far a carried connection has come. */
		if (t.translated && (wire.key.tenant_proto & 0xff) == IPPROTO_TCP && !is_pod(wire.key.local, tenant))
			return NEXT;
		if (t.translated)
			own = t.before;
	}
	number = read_once(&to->peer);
	pod = pod_of(own.key.local, tenant, &device, &pod_epoch);
	peer = bpf_map_lookup_elem(&peers, &number);
	if (!pod || !peer)
		return NEXT;
	peer_epoch = read_once(&peer->epoch); /* before the rest of it, as pod_of() does */
	if (!peer_epoch || !same_headers(data, peer))
		return NEXT;
	if (skb->ingress_ifindex != (crossed ? 0 : pod->ingress_ifindex))
		return NEXT;
	if (!crossed)
		f = get_flow(&own, &wire, &t);
	if (!f)
		return NEXT;
	if (carry_translated && !crossed && t.translated) {
		ip_addr local = local_of(&wire);

		if (!maybe_local_pod(short_addr(&local)))
			note_translated(short_addr(&local)); /* masquerade, or a port of the host: what comes back is for that */
	}
	was = f->epoch;
	f->epoch = 0; /* not carried while it is changed */
	if (f->pod != device || f->pod_epoch != pod_epoch || f->peer != number || f->peer_epoch != peer_epoch)
		f->seen_in = 0; /* that was another pod or peer */
	f->port = port;
	f->pod = device;
	f->pod_epoch = pod_epoch;
	f->peer = number;
	f->peer_epoch = peer_epoch;
	f->used = tick;
	proof = proof_of(&own.key, &wire.key, pod_epoch, number, peer_epoch, now);
	f->seen_out = proof;
	promote(&own.key, f, proof, now, was);
	return NEXT;
}

/* Learns from a packet that the network hands to a pod, if another pod of this host has sent it.
 * 0: that is not so. */
static __always_inline int learn_sibling(struct __sk_buff *skb, const void *eth, __u32 device, const struct pod *pod, __u32 to_epoch, const union flow_words *in, const struct ct_state *t, __u32 now);

/* What another pod of this host has sent, as it has, is translated on its way, and is not to be carried. Its packets
 * are counted from the beginning, so that one of many is stamped, and looked at here. */
static __always_inline int recount_sibling(const union flow_words *in);

/* The network hands a packet to a pod, behind all rules. */
static __always_inline int learn_in(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	__u32 now = epoch, device = skb->ifindex, number, pod_epoch, peer_epoch, proof, was;
	union flow_words own, *wire;
	struct candidate *c;
	struct ct_state t;
	struct parsed p;
	struct peer *peer;
	struct flow *f;
	struct pod *pod;
	__u64 a, b;

	if (!stamped(skb, now))
		return NEXT;
	skb->tc_index = 0;
	if (skb->vlan_present || data + ETH_HLEN > end || skb->protocol != bpf_htons(ETHERTYPE) || parse(data + ETH_HLEN, end, IN, &p) || p.flags)
		return NEXT;
	pod = bpf_map_lookup_elem(&pods, &device);
	if (!pod)
		return NEXT;
	pod_epoch = read_once(&pod->epoch); /* before the rest of it, as pod_of() does */
	if (!pod_epoch)
		return NEXT;
	name_flow(&p);
	/* A packet for another address is only passing: a pod may be a router. One for another MAC is none that it takes,
	 * though it has taken others: the network has another for it by now, and the daemon has yet to find out. */
	if (read_once(&pod->addr) != p.key.local || !same_mac(data, pod->header))
		return NEXT;
	p.key.tenant_proto |= pod->tenant << 8;
	own = words_of(&p);
	if (!conntrack_allows(skb, &own, IN, &t))
		return NEXT;
	wire = t.translated ? &t.before : &own; /* a copy of either has no room on the stack */
	if (!SIBLINGS_TRANSLATED && t.translated) {
		if (is_pod(t.before.key.remote, pod->tenant))
			return recount_sibling(&t.before);
	} else if (learn_sibling(skb, data, device, pod, pod_epoch, &own, &t, now)) {
		return NEXT;
	}
	if (is_invalid(&t, TRACKS_ROUTED))
		return NEXT;
	candidate_key(wire, &a, &b);
	c = find_candidate(a, b);
	if (!c)
		return NEXT;
	number = c->peer;
	peer = bpf_map_lookup_elem(&peers, &number);
	if (!peer)
		return NEXT;
	peer_epoch = read_once(&peer->epoch);
	if (!peer_epoch || c->seal != digest(a, b, number, peer_epoch) || peer->ingress_ifindex != skb->ingress_ifindex)
		return NEXT;
	f = get_flow(&own, wire, &t);
	if (!f)
		return NEXT;
	if (f->pod != device || f->pod_epoch != pod_epoch || f->peer != number || f->peer_epoch != peer_epoch) {
		if (f->peer != number && f->seen_out == proof_of(&own.key, &wire->key, f->pod_epoch, f->peer, f->peer_epoch, now))
			return NEXT; /* replies come from another peer */
		reset_flow(&own.key, f);
		f->pod = device;
		f->pod_epoch = pod_epoch;
		f->peer = number;
		f->peer_epoch = peer_epoch;
	}
	was = f->epoch;
	f->used = tick;
	proof = proof_of(&own.key, &wire->key, pod_epoch, number, peer_epoch, now);
	f->seen_in = proof;
	promote(&own.key, f, proof, now, was);
	return NEXT;
}

#ifdef SHADOW
/* If the packet has a number, records what the network has made of it. */
static __always_inline int passed_on(struct __sk_buff *skb, enum direction dir);
#endif

/* The same for all kinds; to_peer differs. */
SEC("tc/to_pod")
int to_pod(struct __sk_buff *skb)
{
#ifdef SHADOW
	if (passed_on(skb, IN))
		return NEXT;
#endif
	return learn_in(skb);
}
