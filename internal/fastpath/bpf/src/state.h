/* What the programs of a fast path and its daemon share. The daemon writes pods,
 * peers and the globals; the programs write flows and counts. Go reads the same
 * layouts from the object's BTF: see ../fast.go. */
#pragma once
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define NEXT -1    /* TCX_NEXT, TC_ACT_UNSPEC: the network and other programs go on */
#define PACKET_FOR_US 0 /* PACKET_HOST */
#define TC_SHOT 2  /* TC_ACT_SHOT */
#define MAC_LEN 6
#define MAX_PODS 65536  /* indices of devices up to this can be pods' */
#define MAX_PEERS 4096
#define MAX_FLOWS (1 << 20)
#define HEADER_LEN 64 /* room for what is put in front of a packet's IP header */

/* A flow as its pod sees it: the same key whichever way a packet goes. */
struct flow_key {
	__u32 tenant_proto; /* tenant << 8 | IP protocol; the tenant is a VNI, or 0 */
	__be32 local, remote;
	__be16 local_port, remote_port;
};

struct flow {
	__u32 epoch; /* of policy, in which it may be carried, at least one way; 0: in none */
	__u32 seen_out, seen_in; /* policy epochs in which the network last forwarded it: so it is
	                          * carried that way in the epoch above, and no other */
	__u32 pod, pod_epoch; /* index of the pod's device on the machine */
	__u32 peer, peer_epoch;
	__u32 used;  /* tick in which it was last carried */
	__u32 pinned; /* the entry of conntrack that the daemon has made fit for it */
	__u32 asked;  /* tick in which it was asked to */
	__be16 port;  /* outer source, UDP */
	__u16 unreplied; /* it was learned while connection tracking had seen no reply */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC); /* memory follows the flows there are */
	__uint(max_entries, MAX_FLOWS);
	__type(key, struct flow_key);
	__type(value, struct flow);
} flows SEC(".maps");

struct pod {
	__u32 epoch; /* 0: the device is no pod's */
	__u32 tenant;
	__u16 header[7]; /* of Ethernet, in front of what it is sent */
	__u16 size;      /* greatest IP packet that it is sent whole, bytes */
	__be32 addr;
	__u32 receiver; /* index of the device by which the machine's network gets what it sends */
	__u32 heard; /* its epoch, once it has sent something by its MAC; 0: it goes by another */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_PODS);
	__type(key, __u32); /* index of the device on the machine */
	__type(value, struct pod);
} pods SEC(".maps");

struct pod_key {
	__u32 tenant;
	__be32 addr;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_PODS);
	__type(key, struct pod_key);
	__type(value, __u32); /* index of the device on the machine */
} pod_at SEC(".maps");

/* Addresses in pod_at by a hash of each, a bit for it: told without a call. Bits of
 * pods that are gone may stay. */
#define HOME_BITS 15
volatile __u32 home[1 << (HOME_BITS - 5)] = {1};

/* The address may be that of a pod of this machine, whatever its tenant. */
static __always_inline int maybe_home(__be32 addr)
{
	__u32 bit = addr * 0x9e3779b1 >> (32 - HOME_BITS);

	return home[bit >> 5] >> (bit & 31) & 1;
}

/* What is behind a next hop, and the headers that lead there. */
struct peer {
	__u32 epoch;   /* 0: there is none */
	__u32 ifindex; /* of the device on the wire */
	__u32 size;    /* greatest IP packet that goes there whole, bytes, to 65535 */
	__u32 sum;     /* of the outer IP header without what differs by packet, 16 bits */
	__u32 receiver; /* index of the device by which the machine's network gets what it sends */
	__u32 pad;
	__u64 header[HEADER_LEN / 8];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_PEERS);
	__type(key, __u32);
	__type(value, struct peer);
} peers SEC(".maps");

/* How the network itself leads to a peer: out of which device on the wire, to which
 * MAC; in a tunnel, to that within. */
struct hop_key {
	__u32 ifindex;
	__u8 mac[MAC_LEN];
	__u16 pad;
};

struct hop {
	__u32 peer;
	__u32 tenant;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_PEERS);
	__type(key, struct hop_key);
	__type(value, struct hop);
} hops SEC(".maps");

/* Set by the daemon, without a call. */
volatile __u32 epoch = 1;   /* of policy, never 0 */
volatile __u32 tick = 1;        /* about once a second */
volatile __u32 version = 1;     /* of pods and peers: raised when any has changed */
volatile __u32 unreplied = 2;   /* UDP of which no reply was seen: 1: it may be carried; 2: it may not */
volatile __u32 tenant = 1;      /* of all pods */
volatile __u64 deadline = 1;    /* jiffies until which the daemon's word holds */
volatile __u64 jiffies = 1;     /* set by clock */

/* Set before the programs are loaded. */
const volatile __u32 learn_after = 8; /* packets that a flow sends the slow way first */

/* Which of two ends of a packet is the pod of this machine. */
enum way { OUT, IN };

/* What became of a packet, and why: the order is that of ../counts.go. */
enum count {
	CARRIED,
	SLOW_NO_DAEMON,
	SLOW_NOT_IPV4,
	SLOW_OPTIONS,
	SLOW_FRAGMENT,
	SLOW_PROTOCOL,
	SLOW_TTL,
	SLOW_FLAGS,
	SLOW_UNKNOWN,
	SLOW_FULL,
	SLOW_STALE,
	SLOW_SIZE,
	SLOW_ENCAPSULATED,
	SLOW_CHECKSUM,
	SLOW_ECN,
	SLOW_SOURCE,
	SLOW_UNPROVEN,
	EACH_WAY, /* how many there are: OUT comes first, then IN */
};

struct counter {
	__u64 packets, bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2 * EACH_WAY);
	__type(key, __u32);
	__type(value, struct counter);
} counts SEC(".maps");

static __always_inline void count(struct __sk_buff *skb, enum way way, enum count what)
{
	__u32 which = way * EACH_WAY + what;
	struct counter *c = bpf_map_lookup_elem(&counts, &which);

	if (c) {
		c->packets++;
		c->bytes += skb->len;
	}
}

/* Leave a packet to the network, and to programs behind us. */
static __always_inline int slow(struct __sk_buff *skb, enum way way, enum count why)
{
	count(skb, way, why);
	return NEXT;
}

/* The daemon is there, or has been a moment ago. */
static __always_inline int alive(void)
{
	return (__s64)(deadline - bpf_jiffies64()) > 0;
}

/* Run by the daemon, never by a packet: reads the clock of the deadline. */
SEC("tc/clock")
int clock(struct __sk_buff *skb)
{
	jiffies = bpf_jiffies64();
	return 0;
}
