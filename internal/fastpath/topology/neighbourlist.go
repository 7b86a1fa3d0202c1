package topology

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/nlmsg"
)

const (
	// maxNeighbours is how many neighbours of a version of IP a device may have: with more, it is refused. The kernel
	// keeps 1,024 of all devices unless somebody lets it keep more.
	maxNeighbours = 1 << 16
	// allDevices is how many times as many all of them may have: with more, nothing is carried.
	allDevices = 4
	// maxDevices is how many devices there may be.
	maxDevices = 1 << 16
)

// TooManyError says of which objects the kernel has so many that they are not all read.
type TooManyError string

func (e TooManyError) Error() string { return string(e) }

// neighbourList collects neighbours of a family, or forwarding entries of one owner: keptFDB at most.
type neighbourList struct {
	family int
	owner  int // see [fdbOwner]
	limit  int // neighbours of each device, see [allDevices]
	all    []neighbourEntry
	length int         // in messages, see [listedFDB]
	sizes  map[int]int // messages by ifindex
	gaps   gaps
	err    error // why it is incomplete
}

// gaps say by ifindex which lists of neighbours or forwarding entries are not whole.
type gaps struct {
	crowded  map[int]string // not all are read
	unparsed map[int]string // one cannot be parsed
}

func newGaps() gaps { return gaps{map[int]string{}, map[int]string{}} }

// reason says why a list is not whole; "": it is.
func (g gaps) reason(device int) string { return cmp.Or(g.crowded[device], g.unparsed[device]) }

func (g gaps) add(other gaps) {
	maps.Copy(g.crowded, other.crowded)
	maps.Copy(g.unparsed, other.unparsed)
}

func newNeighbourList(family, owner, limit int) *neighbourList {
	return &neighbourList{family: family, owner: owner, limit: limit, sizes: map[int]int{}, gaps: newGaps()}
}

// add adds the neighbour of a message, and tells whether more are wanted.
func (l *neighbourList) add(message []byte) (more bool) {
	if len(message) < unix.SizeofNdMsg {
		l.err = fmt.Errorf("parse a neighbour: message of %d bytes is too short", len(message))
		return false
	}
	l.length++
	device := int(int32(nlmsg.NativeUint32(message[ndmIndex:])))
	l.sizes[device]++
	switch e, err := readNeighbour(message); {
	case err != nil:
		l.gaps.unparsed[device] = fmt.Sprintf("has a neighbour that cannot be parsed (%v)", err)
	case e.Family != l.family || e.owner != l.owner:
	case l.owner == 0 && l.sizes[device] > l.limit:
		l.gaps.crowded[device] = fmt.Sprintf("has more than %d neighbours", l.limit)
	default:
		l.all = append(l.all, e)
	}
	if l.owner != 0 {
		return len(l.all) < keptFDB && l.length < listedFDB
	}
	if l.length > allDevices*l.limit {
		l.err = l.tooMany()
	}
	return l.err == nil
}

// tooMany names the device that has the most neighbours.
func (l *neighbourList) tooMany() error {
	device := slices.MaxFunc(slices.Sorted(maps.Keys(l.sizes)), func(a, b int) int {
		return cmp.Compare(l.sizes[a], l.sizes[b])
	})
	name := fmt.Sprint("device ", device)
	if found, err := net.InterfaceByIndex(device); err == nil {
		name = found.Name
	}
	return TooManyError(fmt.Sprintf("this network namespace has more than %d neighbours, %d or more of them on %s", allDevices*l.limit, l.sizes[device], name))
}

// dumpNeighbours lists the neighbours of a family, of each device so many at most.
func dumpNeighbours(family, limit int) (all []neighbourEntry, found gaps, err error) {
	all, err = nlmsg.Dump(func() ([]neighbourEntry, error) {
		req := nl.NewNetlinkRequest(unix.RTM_GETNEIGH, unix.NLM_F_DUMP)
		req.AddData(&netlink.Ndmsg{Family: uint8(family)})
		list := newNeighbourList(family, 0, limit)
		err := req.ExecuteIter(unix.NETLINK_ROUTE, unix.RTM_NEWNEIGH, list.add)
		found = list.gaps
		return list.all, cmp.Or(list.err, err)
	})
	return all, found, err
}

// ListNeighbours lists the neighbours of a version of IP in the calling thread's namespace, but for those that cannot
// be parsed, and those of a device that has too many: that is refused by [Read]. If there are too many of all devices,
// it returns a [TooManyError].
func ListNeighbours(family Family) (found []netlink.Neigh, err error) {
	all, _, err := dumpNeighbours(int(family.Number()), maxNeighbours)
	if err != nil {
		return nil, fmt.Errorf("list neighbours: %w", err)
	}
	for i := range all {
		found = append(found, all[i].Neigh)
	}
	return found, nil
}
