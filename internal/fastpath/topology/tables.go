package topology

import (
	"fmt"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/nlmsg"
)

// Tables are the largest of the kernel's tables that say where packets go, as read at one time. With
// a thousand pods, the kernel takes tens of milliseconds to list them.
type Tables struct {
	family   audit.Family     // of neighbours
	links    [][]byte         // messages about devices
	arp, fdb []neighbourEntry // arp: of IP
	cutFDB   map[int]bool     // by ifindex of a bridge or a tunnel: its list in fdb may not be whole
	err      error            // why they are incomplete
	settle   func()           // of the watch that has read them
}

// Settle has the [Watch] that has read the tables take of them what it needs, so that they can go. It
// does so by itself when it hears of something.
func (t *Tables) Settle() { t.settle() }

// readTables reads the tables of the calling thread's namespace.
func readTables(family audit.Family) *Tables {
	t := &Tables{family: family}
	if t.links, t.err = dumpLinks(); t.err != nil {
		t.err = fmt.Errorf("list devices: %w", t.err)
		return t
	}
	if t.arp, t.err = dumpNeighbours(int(family.Number())); t.err != nil {
		t.err = fmt.Errorf("list neighbours: %w", t.err)
		return t
	}
	t.fdb, t.cutFDB, t.err = listFDB(fdbOwners(t.links), dumpFDB)
	return t
}

// dumpLinks lists the devices.
func dumpLinks() ([][]byte, error) {
	return nlmsg.Dump(func() ([][]byte, error) {
		req := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
		req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
		req.AddData(nl.NewRtAttr(unix.IFLA_EXT_MASK, nl.Uint32Attr(withoutCounters)))
		return req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
	})
}
