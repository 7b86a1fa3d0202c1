package topology

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/nlmsg"
)

// fdbOwners finds the devices whose forwarding entries count among the kernel's messages about devices, by ifindex:
// whether each is a bridge, or a tunnel.
func fdbOwners(links [][]byte) map[int]bool {
	owners := map[int]bool{}
	for _, m := range links {
		if l, err := netlink.LinkDeserialize(nil, m); err == nil && (l.Type() == "bridge" || l.Type() == "vxlan") {
			owners[l.Attrs().Index] = l.Type() == "bridge"
		}
	}
	return owners
}

// fdbDump calls do with the messages about the forwarding entries of a bridge or a tunnel, as long as that wants more.
type fdbDump func(index int, isBridge bool, do func(message []byte) (more bool)) error

// listFDB lists the forwarding entries of bridges and tunnels in the calling thread's namespace, of each keptFDB at
// most. For each part of a list, the kernel goes through the entries of a bridge from the first one: to list all of
// 600,000 takes half a minute, in which the lease would expire. So each has a request of its own, which is broken off.
func listFDB(owners map[int]bool, dump fdbDump) (all []neighbourEntry, found gaps, err error) {
	found = newGaps()
	for _, index := range slices.Sorted(maps.Keys(owners)) {
		of, err := nlmsg.Dump(func() ([]neighbourEntry, error) {
			list := newNeighbourList(familyBridge, index, 0)
			err := dump(index, owners[index], list.add)
			if list.length == listedFDB {
				list.gaps.crowded[index] = fmt.Sprintf("has %d or more forwarding entries, those of its ports or its bridge included", listedFDB)
			}
			found.add(list.gaps)
			return list.all, cmp.Or(list.err, err)
		})
		if err != nil {
			return nil, found, fmt.Errorf("list forwarding entries: %w", err)
		}
		all = append(all, of...)
	}
	return all, found, nil
}

// dumpFDB lists those of one. If that is gone, it has none.
func dumpFDB(index int, isBridge bool, do func(message []byte) (more bool)) error {
	q, err := nlmsg.OpenQuerier(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer q.Close()
	of := nl.NewIfInfomsg(familyBridge)
	if !isBridge {
		of.Index = int32(index)
	}
	request := of.Serialize()
	if isBridge {
		request = append(request, nl.NewRtAttr(unix.IFLA_MASTER, nl.Uint32Attr(uint32(index))).Serialize()...)
	}
	keep := func(message []byte) (more bool) { return do(bytes.Clone(message)) } // what is parsed refers to it
	if err := q.Dump(unix.RTM_GETNEIGH, request, keep); err != nil && !errors.Is(err, unix.ENODEV) {
		return err
	}
	return nil
}

// ListFDB lists the forwarding entries of the calling thread's namespace that belong to bridges and vxlan devices, of
// each as many as the daemon looks at.
func ListFDB() (found []netlink.Neigh, err error) {
	links, err := dumpLinks(maxDevices)
	if err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	all, _, err := listFDB(fdbOwners(links), dumpFDB)
	for i := range all {
		found = append(found, all[i].Neigh)
	}
	return found, err
}
