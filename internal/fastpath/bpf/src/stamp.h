/* The stamp of a packet, see learn.h. */
#pragma once
#include "state.h"

#define STAMPED 0x8000
#define OURS 0xf800       /* the bits that say which fast path has stamped it */
#define CROSSED 0x0400    /* to_tunnel has checked it; on the way in: from_wire has, for from_tunnel */
#ifndef SHADOW
#define EPOCH_BITS 0x03ff /* the epoch does not wrap while a packet is under way */
#else
#define EPOCH_BITS 0x01ff
#define NUMBERED 0x0200   /* the stamp has the number of a packet, see shadow.h */
#endif

/* Distinguishes the stamps of several fast paths on one host, 0 to 15. */
const volatile __u32 stamp_id;

static __always_inline __u32 own_stamp(void)
{
	return STAMPED | stamp_id << 11;
}

static __always_inline void stamp(struct __sk_buff *skb)
{
	skb->tc_index = own_stamp() | (epoch & EPOCH_BITS);
}

/* The packet was stamped in the current epoch. */
static __always_inline int stamped(struct __sk_buff *skb, __u32 now)
{
	return skb->tc_index == (own_stamp() | (now & EPOCH_BITS));
}

/* Marks the stamp: the packet was checked in front of the tunnel, too. */
static __always_inline void stamp_tunnel(struct __sk_buff *skb, __u32 now)
{
	skb->tc_index = own_stamp() | CROSSED | (now & EPOCH_BITS);
}

static __always_inline int tunnel_stamped(struct __sk_buff *skb, __u32 now)
{
	return skb->tc_index == (own_stamp() | CROSSED | (now & EPOCH_BITS));
}

/* Clears a stamp of this fast path, which a packet has from before. */
static __always_inline void clear_stamp(struct __sk_buff *skb)
{
	__u32 is = skb->tc_index;

	if (is && (is & OURS) == own_stamp())
		skb->tc_index = 0;
}
