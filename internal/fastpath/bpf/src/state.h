/* Tables and globals that the programs of a fast path and its daemon share. The daemon writes
 * pods, peers and the globals; the programs write flows and counts. Go gets the layouts from
 * the object's BTF: see ../objects.go. */
#pragma once
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define NEXT -1    /* TCX_NEXT, TC_ACT_UNSPEC: continue with other programs and the network */
#define PACKET_FOR_US 0 /* PACKET_HOST */
#define TC_SHOT 2  /* TC_ACT_SHOT */
#define MAC_LEN 6
#define MAX_PODS 65536  /* limit of the ifindex of a pod */
#define MAX_PEERS 4096
#define MAX_FLOWS (1 << 20)
#define HEADER_LEN 64 /* room for the headers in front of the inner IP header */

/* A flow as its pod sees it: the same key for both directions. */
struct flow_key {
	__u32 tenant_proto; /* tenant << 8 | IP protocol; the tenant is a VNI, or 0 */
	__be32 local, remote;
	__be16 local_port, remote_port;
};

/* In a key's tenant_proto: the flow as the wire sees it, of one whose addresses or ports
 * connection tracking translates between its pod and the wire. */
#define WIRE_VIEW 0x80

/* An address as packets have it. */
#ifdef INET6
typedef struct addr6 {
	__u64 a, b;
} ip_addr;
#else
typedef __be32 ip_addr;
#endif

/* The ends of a flow. */
struct ends {
	__be32 local, remote;
	__be16 local_port, remote_port;
};

/* A translated flow has two entries: by the key that its pod sees, and by the one that the
 * wire sees. The second only says where the first is, for packets that come back: it counts
 * only if the first names it. Packets of the pod take the first alone. */
struct flow {
	__u32 epoch; /* policy epoch in which it is carried, in at least one direction; 0: none */
	__u32 seen_out, seen_in; /* proofs that the network has forwarded it, see proof_of(); or 0 */
	__u32 pod, pod_epoch; /* index of the pod's device on the machine */
	__u32 peer, peer_epoch; /* or SIBLING and another pod of this host, with the epoch of that */
	__u32 used;  /* tick in which it was last carried */
	__u32 ct_entry; /* the conntrack entry that the daemon has prepared */
	__u32 requested;  /* tick of the last request to */
	__be16 port;  /* outer source, UDP */
	__u8 unreplied; /* learned while connection tracking had seen no reply */
	__u8 translated; /* other says to what */
	struct ends other; /* the flow as the other side sees it; never changed in place */
};

/* In a flow's peer, with the index of a device: what its pod sends goes to another pod of this host.
 * That pod has an entry of its own for what it sends back. */
#define SIBLING 0x80000000
#define BRIDGED 0x40000000 /* with SIBLING: by their bridge, which is no router */
#define DEVICE_OF_SIBLING 0xffff

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC); /* memory grows with the flows */
	__uint(max_entries, MAX_FLOWS);
	__type(key, struct flow_key);
	__type(value, struct flow);
} flows SEC(".maps");

struct pod {
	__u32 epoch; /* 0: no pod */
	__u32 tenant;
	__u16 header[7]; /* Ethernet header of packets to it */
	__u16 size;      /* largest IP packet that it accepts, bytes */
	__be32 addr;
	__u32 ingress_ifindex; /* device through which the host's network receives from it */
	__u32 mac_epoch; /* its epoch, once it has sent from its known MAC; 0: it uses another */
	__u32 sibling; /* 1: packets are carried between it and other pods of this host that have a 1 */
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

/* A bitmap of the hashes of addresses in pod_at, and of those of the host that take the place of a
 * pod's on the wire. It is read without a call. Bits of addresses that are gone may stay set. */
#define HOME_BITS 15
volatile __u32 home[1 << (HOME_BITS - 5)] = {1};

/* Packets to an address of the host may be for a pod. */
static __always_inline void note_translated(__be32 addr)
{
	__u32 bit = addr * 0x9e3779b1 >> (32 - HOME_BITS);

	__sync_fetch_and_or(&home[bit >> 5], 1U << (bit & 31));
}

/* The address may be that of a pod of this host, of whatever tenant. */
static __always_inline int maybe_local_pod(__be32 addr)
{
	__u32 bit = addr * 0x9e3779b1 >> (32 - HOME_BITS);

	return home[bit >> 5] >> (bit & 31) & 1;
}

/* A next hop, with the headers that lead there. */
struct peer {
	__u32 epoch;   /* 0: none */
	__u32 ifindex; /* of the device on the wire */
	__u32 size;    /* largest IP packet that fits, bytes, up to 65535 */
	__u32 sum;     /* of the outer IP header without the fields that differ by packet, 16 bits */
	__u32 ingress_ifindex; /* device through which the host's network receives from it */
	__u32 pad;
	__u64 header[HEADER_LEN / 8];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_PEERS);
	__type(key, __u32);
	__type(value, struct peer);
} peers SEC(".maps");

/* How the network addresses a peer: the device on the wire and the MAC, which is the inner one
 * in a tunnel. In a tunnel without inner MACs it is the address on the wire, and two zeros. */
struct hop_key {
	__u32 ifindex;
	__u8 mac[MAC_LEN];
	__u16 pad;
};

static __always_inline struct hop_key hop_by_mac(const struct __sk_buff *skb, const void *mac)
{
	struct hop_key via = {.ifindex = skb->ifindex};

	__builtin_memcpy(via.mac, mac, MAC_LEN);
	return via;
}

static __always_inline struct hop_key hop_by_addr(const struct __sk_buff *skb, __be32 addr)
{
	struct hop_key via = {.ifindex = skb->ifindex};

	__builtin_memcpy(via.mac, &addr, sizeof(addr));
	return via;
}

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

/* Which packets meet rules that go by connection tracking: those that the host routes, and those that a bridge forwards. */
#define TRACKS_ROUTED 1
#define TRACKS_BRIDGED 2

/* Written by the daemon without a system call. */
volatile __u32 epoch = 1;   /* the policy epoch, never 0 */
volatile __u32 tick = 1;        /* advances about once a second */
volatile __u32 version = 1;     /* of pods and peers: incremented when any has changed */
volatile __u32 unreplied = 2;   /* UDP without a reply: 1: may be carried; 2: may not; 3: may if NAT_DONE */
volatile __u32 tracking = 3;    /* TRACKS_ROUTED | TRACKS_BRIDGED; both until the daemon has looked */
volatile __u32 tenant = 1;      /* of all pods */
volatile __u64 deadline = 1;    /* end of the lease, jiffies */
volatile __u64 jiffies = 1;     /* set by clock */

/* Set before the programs are loaded. */
const volatile __u32 carry_translated = 1; /* 0: translated flows stay slow */
const volatile __u32 learn_after = 8; /* slow packets of a flow before it is learned */

/* The direction of a packet: out of or into a pod of this host. */
enum direction { OUT, IN };

/* Outcomes of packets. The order is that of ../counts.go. */
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
	PER_DIRECTION, /* the number of outcomes; those of OUT come first, then those of IN */
};

struct counter {
	__u64 packets, bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2 * PER_DIRECTION);
	__type(key, __u32);
	__type(value, struct counter);
} counts SEC(".maps");

/* Counts a packet, without so many bytes that are around it. */
static __always_inline void count(struct __sk_buff *skb, enum direction dir, enum count what, __u32 around)
{
	__u32 which = dir * PER_DIRECTION + what;
	struct counter *c = bpf_map_lookup_elem(&counts, &which);

	if (c) {
		c->packets++;
		c->bytes += skb->len - around;
	}
}

/* A word that other cores may change, read at one time. */
static __always_inline __u32 read_once(const __u32 *word)
{
	return *(const volatile __u32 *)word;
}

/* Leaves a packet to the slow path, and to later programs. */
static __always_inline int slow(struct __sk_buff *skb, enum direction dir, enum count why)
{
	count(skb, dir, why, 0);
	return NEXT;
}

/* The lease has not expired. */
static __always_inline int lease_valid(void)
{
	return (__s64)(deadline - bpf_jiffies64()) > 0;
}

/* Run by the daemon only: reads the clock of the deadline. */
SEC("tc/clock")
int clock(struct __sk_buff *skb)
{
	jiffies = bpf_jiffies64();
	return 0;
}
