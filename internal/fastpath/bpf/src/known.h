/* Flows that a core has carried a moment ago, with all that carrying them takes:
 * found without a call, in two lines of its cache.
 *
 * A slot is a copy of what the tables say. It holds for one tick, in which the entry
 * of the flow says that it is used, and ends before that with the rules it was
 * learned under, when any pod or peer changes, and when an entry of its group of
 * flows does: each of that is a number, read before the tables are. Who changes a
 * table, raises the number afterwards. Slots are each core's own, so nobody reads
 * one that is half written. */
#pragma once
#include "packet.h"

#define SLOTS 2048 /* of each core */
#define GROUPS 256 /* of flows */

struct slot {
	__u64 a, b; /* the key, as struct parsed has it */
	__u64 ended; /* these four: the numbers that it was copied under */
	__u32 tick, epoch, version;
	__u32 pod;  /* index of its device on the machine */
	__u32 wire; /* and of that on the wire */
	__u16 size[2]; /* greatest IP packet that goes whole, each way: of the peer, and of the pod; 0: none goes that way */
	__be16 port;
	__u16 sum;
	__u16 macs[6];
	__u64 header[HEADER_LEN / 8];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE); /* which begins with a page */
	__uint(max_entries, SLOTS); /* by the number of cores, see ../known.go */
	__type(key, __u32);
	__type(value, struct slot);
} slots SEC(".maps");

/* How often entries of a group were changed: by programs in the lower half, and by
 * the daemon in the upper. Each writes only its own. */
volatile __u64 ended[GROUPS] = {1};

#define NO_TENANT 0xffffffff000000ff /* what a pod sends is looked up without */

static __always_inline __u64 mix(__u64 a, __u64 b)
{
	return (a & NO_TENANT) * 0x9e3779b97f4a7c15 + b * 0xc2b2ae3d27d4eb4f;
}

/* The group of a flow, by the mix of its key; ../known.go reckons the same. */
static __always_inline __u32 group(__u64 mixed)
{
	return mixed >> 40 & (GROUPS - 1);
}

/* The entry of a flow was changed or deleted: copies end. */
static __always_inline void changed(const struct flow_key *k)
{
	const __u64 *words = (const void *)k;

	__sync_fetch_and_add((volatile __u32 *)&ended[group(mix(words[0], words[1]))], 1);
}

/* The slot that a flow has on this core, whatever is in it. */
static __always_inline struct slot *slot_of(__u64 mixed)
{
	__u32 at = bpf_get_smp_processor_id() * SLOTS + (mixed >> 53);

	return bpf_map_lookup_elem(&slots, &at);
}

/* What is in a slot still holds. */
static __always_inline int fresh(const struct slot *s, __u64 mixed)
{
	return s->epoch == epoch && s->tick == tick && s->version == version && s->ended == ended[group(mixed)];
}

/* Fills a slot from the tables. 0: the flow can be carried, at least one way. */
static __always_inline int fill(struct slot *s, const struct parsed *p, __u64 mixed)
{
	__u32 now = epoch, n = version, t = tick;
	/* A full barrier: the tables are read after the numbers. */
	__u64 number = __sync_fetch_and_add(&ended[group(mixed)], 0);
	struct flow *f = bpf_map_lookup_elem(&flows, &p->key);
	struct peer *peer;
	struct pod *pod;
	int i;

	if (!f)
		return SLOW_UNKNOWN;
	if (f->epoch != now)
		return f->epoch ? SLOW_STALE : SLOW_UNPROVEN;
	pod = bpf_map_lookup_elem(&pods, &f->pod);
	peer = bpf_map_lookup_elem(&peers, &f->peer);
	if (!pod || !peer || f->pod_epoch != pod->epoch || f->peer_epoch != peer->epoch)
		return SLOW_STALE;
	if (f->used != t)
		f->used = t;
	s->a = p->a;
	s->b = p->b;
	s->ended = number;
	s->tick = t;
	s->epoch = now;
	s->version = n;
	s->pod = f->pod;
	s->wire = peer->ifindex;
	s->size[OUT] = f->seen_out == now ? peer->size : 0;
	/* What is carried into a pod gets there whatever its MAC is: the network asks. */
	s->size[IN] = f->seen_in == now && pod->heard == pod->epoch ? pod->size : 0;
	s->port = f->port;
	s->sum = peer->sum;
	for (i = 0; i < MAC_LEN; i++)
		s->macs[i] = pod->header[i];
	for (i = 0; i < HEADER_LEN / 8; i++)
		s->header[i] = peer->header[i];
	return 0;
}
