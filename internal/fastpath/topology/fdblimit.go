package topology

import (
	"cmp"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/nlmsg"
)

// A pod with CAP_NET_RAW, which container runtimes grant by default, has its bridge learn as many MACs as it
// likes, and so has one behind a tunnel that learns. Unless somebody has set fdb_max_learned of the bridge,
// the kernel has no limit.
const (
	// maxFDB is how many forwarding entries a bridge or a tunnel may have: with more, it is refused.
	maxFDB = 1 << 16
	// quietFDB is with how many kept entries, or neighbours (of which there may be as many), it is no news that others come
	// and go. A list that is read while
	// others go may lack some that are there: this is so much more than maxFDB that it is refused by such a
	// list, too.
	quietFDB = maxFDB + 1<<12
	// keptFDB is how many are kept in memory. They go and others come: so there are more than quietFDB for
	// as long as the table is flooded.
	keptFDB = quietFDB + 1<<12
	// listedFDB is how many entries are read of a list, in which those of others are, too: a bridge lists those
	// that its ports have themselves, such as a tunnel, and a tunnel those that its bridge has behind it.
	listedFDB = 2 * keptFDB
)

// crowdedReason says that a bridge or a tunnel has too many neighbours or forwarding entries; "": it has not.
func (r *reader) crowdedReason(l netlink.Link) string {
	switch index := l.Attrs().Index; {
	case r.fdbSizes[index] > maxFDB:
		return fmt.Sprintf("has more than %d forwarding entries", maxFDB)
	default:
		return r.crowded[index]
	}
}

// fdbOwner is the ifindex of the bridge or the tunnel that the forwarding entry of a message belongs to; 0: it
// is of a neighbour.
func fdbOwner(message []byte) (owner int) {
	if len(message) < unix.SizeofNdMsg || message[0] != familyBridge {
		return 0
	}
	master := nlmsg.NativeUint32(nlmsg.FindIn(message[unix.SizeofNdMsg:], unix.NDA_MASTER))
	return int(cmp.Or(master, nlmsg.NativeUint32(message[ndmIndex:]))) // of a tunnel that is no port: its own
}

// dedupNeighbour is [dedup] of neighbours. It tells of which device so many are known that it is refused for them:
// then others are not kept.
func (f *rtnlFilter) dedupNeighbour(e *neighbourEntry, gone bool) (was string, again, crowded bool) {
	key, list, before := keyOfNeighbour(e), deviceKey{byte(e.Family), uint32(cmp.Or(e.owner, e.LinkIndex))}, len(f.neighbours)
	if _, known := f.neighbours[key]; !known && !gone && f.sizes[list] == keptFDB {
		return "", true, true
	}
	was, again = dedup(f.neighbours, key, neighbourFingerprint(e), gone)
	if f.sizes[list] += len(f.neighbours) - before; f.sizes[list] == 0 {
		delete(f.sizes, list)
	}
	return was, again, f.sizes[list] > quietFDB
}
