/* The programs of an overlay, for any encapsulation. The file that includes this says what is around
 * packets: OUTER_IP, INNER_IP, TUNNEL_IP, OVERHEAD, GROW and the functions that are called here. */
#pragma once
#include "carry.h"

#define SHRINK (BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_NO_CSUM_RESET)

SEC("tc/from_pod")
int from_pod(struct __sk_buff *skb)
{
	struct carried c;
	void *data;
	int why = lookup_out(skb, &c);

	if (why)
		return slow(skb, OUT, why);
	if (c.to->wire & SIBLING)
		return carry_sibling(skb, &c);
#ifdef SHADOW
	return shadow(skb, OUT, &c, ETH_HLEN, INNER_IP);
#endif
	if (bpf_skb_adjust_room(skb, OVERHEAD, BPF_ADJ_ROOM_MAC, GROW))
		return slow(skb, OUT, SLOW_ENCAPSULATED); /* nothing was changed */
	if (c.nat && translate_checksum(skb, INNER_IP, &c))
		return TC_SHOT; /* impossible: these bytes were made writable above */
	data = (void *)(long)skb->data;
	if (data + INNER_IP + IP_LEN + UDP_LEN > (void *)(long)skb->data_end)
		return TC_SHOT; /* impossible: these bytes were read above */
	write_out(data, &c);
	skb->priority = priority_of(c.p.tos);
	return carry(skb, OUT, OVERHEAD, bpf_redirect(c.to->wire, 0));
}

static __always_inline int outer_fragment(void *data)
{
	struct iphdr *ip = data + OUTER_IP;

	return ip->frag_off & bpf_htons((__u16)~DONT_FRAGMENT);
}

/* In front of the tunnel device, a packet still has its ingress device and conntrack entry. */
SEC("tc/to_tunnel")
int to_tunnel(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	__u32 now = epoch, of = tenant, device, pod_epoch;
	union flow_words own, wire;
	struct ct_state t;
	struct parsed p;
	struct pod *pod;

	if (!stamped(skb, now))
		return NEXT;
	skb->tc_index = 0;
	if (skb->protocol != bpf_htons(ETH_P_IP) || data + TUNNEL_IP > end || parse(data + TUNNEL_IP, end, OUT, &p) || p.flags)
		return NEXT;
	p.key.tenant_proto |= of << 8;
	wire = own = words_of(&p);
	if (!conntrack_allows(skb, &wire, OUT, &t) || is_invalid(&t, TRACKS_ROUTED))
		return NEXT;
	if (t.translated)
		own = t.before;
	pod = pod_of(own.key.local, of, &device, &pod_epoch);
	if (pod && pod->ingress_ifindex == skb->ingress_ifindex && get_flow(&own, &wire, &t))
		stamp_tunnel(skb, now);
	return NEXT;
}

/* Learns behind the tunnel device, where the rules for the outer packet have let it pass,
 * too. */
SEC("tc/to_peer")
int to_peer(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	__u32 now = epoch;
	struct hop_key via;

#ifdef SHADOW
	if (passed_on(skb, OUT))
		return NEXT;
#endif
	if (!tunnel_stamped(skb, now))
		return NEXT;
	skb->tc_index = 0;
	if (!is_overlay(skb, data, end) || outer_fragment(data) || not_plain(data))
		return NEXT;
	via = receiver(skb, data);
	return learn_out(skb, INNER_IP, &via, tenant_of(data), outer_port(data), now, 1);
}

/* The addresses around a packet are those of a peer and of this host. Where there are none any more,
 * from_wire has seen them. */
static __always_inline int known_sender(struct __sk_buff *skb, void *data, __u32 at, __u32 tenant)
{
	struct hop_key via;
	struct peer *peer;
	__u32 number;

	if (at == TUNNEL_IP)
		return 1;
	via = sender(skb, data);
	peer = peer_behind(&via, tenant, &number);
	return peer && source_matches(data, peer->header);
}

/* A packet of UDP is left to the tunnel's device, because it is to be cut into segments: who cuts it
 * asks whether they are in a tunnel, and a program cannot clear that (in kernels to come it can, with
 * BPF_F_ADJ_ROOM_DECAP_L4_UDP). The device has a queue, so for a while all other packets of the flow go the
 * same way: they would overtake this one. Those of other flows of the slot may, too: if it were another for each,
 * flows that take turns in it would make it forget. */
static __always_inline int for_device(const struct __sk_buff *skb, struct slot *s)
{
	if (skb->gso_size)
		s->segmented = SEGMENTED | s->tick;
	else if (s->segmented && ((s->tick - s->segmented) & (SEGMENTED - 1)) > 1)
		s->segmented = 0;
	return s->segmented;
}

/* Leaves a packet in a tunnel to the slow path. */
static __always_inline int slow_tunnelled(struct __sk_buff *skb, enum count why)
{
	count(skb, IN, why, OVERHEAD);
	return NEXT;
}

SEC("tc/from_wire")
int from_wire(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct hop_key via;
	struct carried c;
	int why;

	clear_stamp(skb);
	if (!is_overlay(skb, data, end))
		return NEXT; /* not of this overlay: not counted */
	if (!lease_valid())
		return slow_tunnelled(skb, SLOW_NO_DAEMON);
	if (outer_fragment(data))
		return slow_tunnelled(skb, SLOW_FRAGMENT);
	if (skb->pkt_type != PACKET_FOR_US || skb->vlan_present)
		return slow_tunnelled(skb, SLOW_NOT_IPV4);
	why = not_plain(data);
	if (why)
		return slow_tunnelled(skb, why);
	why = lookup_in(skb, data, end, INNER_IP, tenant_of(data), &c);
	if (!why)
		why = skb->ifindex == c.to->wire ? from_peer(data, c.to->header, &c.p, 0) : SLOW_SOURCE;
	if (skb->mark) /* as in lookup_out() */
		why = SLOW_ENCAPSULATED;
	if (why) {
		via = sender(skb, data);
		return slow_in(skb, data, &via, ((struct iphdr *)(data + INNER_IP))->daddr, tenant_of(data), &c, why, OVERHEAD);
	}
#ifdef SHADOW
	return shadow(skb, IN, &c, INNER_IP, ETH_HLEN);
#endif
	if ((c.p.key.tenant_proto & 0xff) == IPPROTO_UDP && for_device(skb, c.to)) {
		stamp_tunnel(skb, c.to->epoch);
		return NEXT; /* from_tunnel counts it */
	}
	if (bpf_skb_adjust_room(skb, -OVERHEAD, BPF_ADJ_ROOM_MAC, SHRINK))
		return slow_tunnelled(skb, SLOW_ENCAPSULATED);
	after_shrinking(skb);
	return carry_in(skb, &c);
}

/* At the tunnel's device, behind the rules for the outer packet: carries what from_wire has left to the
 * device, as long as all is as from_wire has seen it. */
SEC("tc/from_tunnel")
int from_tunnel(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	const struct iphdr *ip = data + TUNNEL_IP;
	__u32 is = skb->tc_index;
	struct carried c;
	int why;

#ifdef SHADOW
	return NEXT; /* the stamp has the number of a packet */
#endif
	if ((is & (OURS | CROSSED)) != (own_stamp() | CROSSED))
		return NEXT;
	skb->tc_index = 0;
	if (!lease_valid())
		return slow(skb, IN, SLOW_NO_DAEMON);
	if ((is ^ epoch) & EPOCH_BITS)
		return slow(skb, IN, SLOW_STALE);
	if (skb->protocol != bpf_htons(ETH_P_IP) || skb->pkt_type != PACKET_FOR_US || skb->vlan_present)
		return slow(skb, IN, SLOW_NOT_IPV4);
	if (skb->mark) /* that rules have given it when it was in the tunnel, and others may go by */
		return slow(skb, IN, SLOW_ENCAPSULATED);
	/* from_wire leaves nothing else to the device. Tc filters of others can give any stamp, and an RST
	 * with it would end a flow. */
	if ((void *)(ip + 1) > end || ip->protocol != IPPROTO_UDP)
		return slow(skb, IN, SLOW_SOURCE);
	why = lookup_in(skb, data, end, TUNNEL_IP, tenant, &c);
	if (!why && !inner_source_matches(data, c.to->header))
		why = SLOW_SOURCE;
	if (why)
		return slow(skb, IN, why);
	if (!TUNNEL_IP && bpf_skb_change_head(skb, ETH_HLEN, 0))
		return slow(skb, IN, SLOW_ENCAPSULATED); /* nothing was changed */
	return carry_in(skb, &c);
}
