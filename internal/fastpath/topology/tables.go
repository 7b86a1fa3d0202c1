package topology

import (
	"cmp"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/nlmsg"
)

// Tables are the largest of the kernel's tables that say where packets go, as read at one time. With
// a thousand pods, the kernel takes tens of milliseconds to list them.
type Tables struct {
	family   Family           // of neighbours
	links    [][]byte         // messages about devices
	arp, fdb []neighbourEntry // arp: of IP
	gaps                      // in them
	err      error            // why they are incomplete
}

// readTables reads the tables of the calling thread's namespace.
func readTables(family Family) *Tables {
	t := &Tables{family: family}
	if t.links, t.err = dumpLinks(maxDevices); t.err != nil {
		t.err = fmt.Errorf("list devices: %w", t.err)
		return t
	}
	if t.arp, t.gaps, t.err = dumpNeighbours(int(family.Number()), maxNeighbours); t.err != nil {
		t.err = fmt.Errorf("list neighbours: %w", t.err)
		return t
	}
	fdb, found, err := listFDB(fdbOwners(t.links), dumpFDB)
	t.fdb, t.err = fdb, err
	t.gaps.add(found)
	return t
}

// dumpLinks lists the devices, if there are so many at most.
func dumpLinks(most int) ([][]byte, error) {
	return nlmsg.Dump(func() (all [][]byte, err error) {
		req := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
		req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
		req.AddData(nl.NewRtAttr(unix.IFLA_EXT_MASK, nl.Uint32Attr(withoutCounters)))
		failed := req.ExecuteIter(unix.NETLINK_ROUTE, unix.RTM_NEWLINK, func(message []byte) (more bool) {
			if len(all) == most {
				err = TooManyError(fmt.Sprintf("this network namespace has more than %d devices", most))
				return false
			}
			all = append(all, message)
			return true
		})
		return all, cmp.Or(err, failed)
	})
}

// ListLinks lists the devices of the calling thread's namespace. If there are too many, it returns a [TooManyError].
func ListLinks() (found []netlink.Link, err error) {
	all, err := dumpLinks(maxDevices)
	if err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	for _, message := range all {
		l, err := netlink.LinkDeserialize(nil, message)
		if err != nil {
			return nil, fmt.Errorf("list devices: %w", err)
		}
		found = append(found, l)
	}
	return found, nil
}
