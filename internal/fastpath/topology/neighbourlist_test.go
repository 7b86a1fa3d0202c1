package topology

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/mdlayher/netlink"
	vnl "github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/nlmsg"
)

// neighbourMessage is what the kernel says about the neighbour 192.0.2.n of a device.
func neighbourMessage(device, n int) []byte {
	header := make([]byte, unix.SizeofNdMsg)
	header[0] = unix.AF_INET
	binary.NativeEndian.PutUint32(header[ndmIndex:], uint32(device))
	binary.NativeEndian.PutUint16(header[ndmState:], unix.NUD_REACHABLE)
	return slices.Concat(header, nl.NewRtAttr(unix.NDA_DST, []byte{192, 0, 2, byte(n)}).Serialize(), nl.NewRtAttr(unix.NDA_LLADDR, floodMAC(n)).Serialize())
}

// unparsed is one of which the kernel says the same, in fewer bytes than that takes.
func unparsed(device int) []byte { return neighbourMessage(device, 1)[:unix.SizeofNdMsg+7] }

// A list of neighbours that is not whole has its device refused where all of them count: a second one may be of
// the same pod. A next hop stands for itself: the others are carried.
func TestIncompleteNeighbours(t *testing.T) {
	const pod, wire, bridge, port = 2, 3, 4, 5
	const whyUnparsed, whyCrowded = "has a neighbour that cannot be parsed (attribute of 8 bytes, of which 7 are there: invalid argument)", "has more than 2 neighbours"
	for name, c := range map[string]struct {
		more    [][]byte // beside one neighbour of each device
		pods    int
		hops    int
		refused []Refusal
	}{
		"whole":                                {nil, 2, 1, nil},
		"one of another device is not parsed":  {[][]byte{unparsed(7)}, 2, 1, nil},
		"another device has too many":          {[][]byte{neighbourMessage(7, 1), neighbourMessage(7, 2), neighbourMessage(7, 3)}, 2, 1, nil},
		"one of a pod's device is not parsed":  {[][]byte{unparsed(pod)}, 1, 1, []Refusal{{"p0", whyUnparsed}}},
		"a pod's device has too many":          {[][]byte{neighbourMessage(pod, 2), neighbourMessage(pod, 3)}, 1, 1, []Refusal{{"p0", whyCrowded}}},
		"one of a bridge is not parsed":        {[][]byte{unparsed(bridge)}, 1, 1, []Refusal{{"p1", "br0 " + whyUnparsed}}},
		"a bridge has too many":                {[][]byte{neighbourMessage(bridge, 2), neighbourMessage(bridge, 3)}, 1, 1, []Refusal{{"p1", "br0 " + whyCrowded}}},
		"one of a bridge's port is not parsed": {[][]byte{unparsed(port)}, 1, 1, []Refusal{{"p1", whyUnparsed}}},
		"one of the wire is not parsed":        {[][]byte{unparsed(wire)}, 2, 1, []Refusal{{"w0", whyUnparsed}}},
		"the wire has too many":                {[][]byte{neighbourMessage(wire, 2), neighbourMessage(wire, 3)}, 2, 0, []Refusal{{"w0", whyCrowded}}},
	} {
		list := newNeighbourList(unix.AF_INET, 0, 2)
		for _, m := range slices.Concat([][]byte{neighbourMessage(pod, 1), neighbourMessage(wire, 1), neighbourMessage(bridge, 1)}, c.more) {
			if !list.add(m) {
				t.Fatal(list.err)
			}
		}
		querier, err := openRtnlQuerier()
		if err != nil {
			t.Fatal(err)
		}
		r := reader{
			Tables: &Tables{family: IPv4, arp: list.all, gaps: list.gaps, fdb: fdbEntries(t, bridge, port, 2)}, querier: querier,
			byIndex: map[int]vnl.Link{}, byName: map[string]vnl.Link{}, wireReasons: map[int]string{},
			routeIndex: routeIndex{hostRoutes: map[Neighbour]bool{{pod, netip.AddrFrom4([4]byte{192, 0, 2, 1})}: true}},
		}
		mac := net.HardwareAddr{2, 0, 0, 0, 0, 7}
		for _, l := range []vnl.Link{
			&vnl.Veth{LinkAttrs: vnl.LinkAttrs{Index: pod, Name: "p0", HardwareAddr: mac, Flags: net.FlagUp}},
			&vnl.Veth{LinkAttrs: vnl.LinkAttrs{Index: wire, Name: "w0", HardwareAddr: mac, Flags: net.FlagUp}},
			&vnl.Bridge{LinkAttrs: vnl.LinkAttrs{Index: bridge, Name: "br0", HardwareAddr: mac, Flags: net.FlagUp}},
			&vnl.Veth{LinkAttrs: vnl.LinkAttrs{Index: port, Name: "p1", MasterIndex: bridge, Flags: net.FlagUp}},
		} {
			r.byIndex[l.Attrs().Index], r.byName[l.Attrs().Name] = l, l
		}
		r.indexNeighbours()
		pods := 0
		for _, device := range []string{"p0", "p1"} {
			if _, ok := r.pod(device); ok {
				pods++
			}
		}
		if hops := r.wireNextHops("w0"); pods != c.pods || len(hops) != c.hops || !slices.Equal(r.refused, c.refused) {
			t.Errorf("%s: %d pods, %d next hops, refused %q; want %d, %d, %q", name, pods, len(hops), r.refused, c.pods, c.hops, c.refused)
		}
		querier.Close()
	}
}

// A next hop on the wire of a tunnel that may be among what is not known of the wire is refused by that, and what is
// not known of the tunnel itself is named, too.
func TestIncompleteUnderlay(t *testing.T) {
	const tunnel, wire = 2, 3
	route := slices.Concat((&nl.RtMsg{}).Serialize(), nl.NewRtAttr(unix.RTA_OIF, nl.Uint32Attr(wire)).Serialize())
	list := newNeighbourList(unix.AF_INET, 0, 2)
	list.add(unparsed(wire))
	list.add(unparsed(tunnel))
	r := reader{
		Tables: &Tables{family: IPv4, gaps: list.gaps}, querier: answered(t, unix.RTM_NEWROUTE, route), wireReasons: map[int]string{},
		byIndex: map[int]vnl.Link{wire: &vnl.Veth{LinkAttrs: vnl.LinkAttrs{Index: wire, Name: "w0", HardwareAddr: floodMAC(1), Flags: net.FlagUp}}},
	}
	defer r.querier.Close()
	r.indexNeighbours()
	hop := NextHop{Device: tunnel, Encap: &Encap{Remote: netip.AddrFrom4([4]byte{192, 0, 2, 1})}}
	if r.resolveUnderlay(&hop) || len(r.refused) != 1 || r.refused[0].Device != "w0" || !strings.Contains(r.refused[0].Reason, "cannot be parsed") {
		t.Errorf("refused %v, want w0", r.refused)
	}
	if ok, err := r.acceptTunnel(&vnl.Vxlan{LinkAttrs: vnl.LinkAttrs{Index: tunnel, Name: "v0"}}, "", nil); !ok || err != nil || len(r.refused) != 2 || r.refused[1].Device != "v0" {
		t.Errorf("the tunnel: %v, %v, refused %v", ok, err, r.refused)
	}
}

// What was not listed, where not all was, may be what changes, and is not taken for new.
func TestUnlistedMayChange(t *testing.T) {
	const device, both = 5, RulesChanged | TopologyChanged
	of := func(device int) map[int]string { return map[int]string{device: "x"} }
	for name, c := range map[string]struct {
		tables          Tables
		neighbour, link Changes
	}{
		"all is listed":               {Tables{}, TopologyChanged, TopologyChanged},
		"lists are broken off":        {Tables{err: nlmsg.ErrInterrupted}, both, both},
		"the device has too many":     {Tables{gaps: gaps{crowded: of(device)}}, both, TopologyChanged},
		"the device has one unparsed": {Tables{gaps: gaps{unparsed: of(device)}}, both, TopologyChanged},
		"another has too many":        {Tables{gaps: gaps{crowded: of(device + 1)}}, TopologyChanged, TopologyChanged},
	} {
		n := newRtnlFilter(nil, IPv4)
		n.load(&c.tables, filterTables{})
		event := func(kind netlink.HeaderType, data []byte) Changes {
			return n.event(netlink.Message{Header: netlink.Header{Type: kind}, Data: data}).Changes
		}
		link := nl.NewIfInfomsg(unix.AF_UNSPEC)
		link.Index = device
		for _, step := range []struct {
			what      string
			got, want Changes
		}{
			{"a neighbour", event(unix.RTM_NEWNEIGH, neighbourMessage(device, 1)), c.neighbour},
			{"it once more", event(unix.RTM_NEWNEIGH, neighbourMessage(device, 1)), 0},
			{"one that goes", event(unix.RTM_DELNEIGH, neighbourMessage(device, 2)), c.neighbour},
			{"a device", event(unix.RTM_NEWLINK, link.Serialize()), c.link},
			{"it once more", event(unix.RTM_NEWLINK, link.Serialize()), 0},
		} {
			if step.got != step.want {
				t.Errorf("%s: %s is told as %b, want %b", name, step.what, step.got, step.want)
			}
		}
	}
}

// answered is a querier that is answered once, by a message that is there before it asks.
func answered(t *testing.T, kind uint16, body []byte) *rtnlQuerier {
	t.Helper()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(ends[1]) })
	message := nl.NetlinkRequest{NlMsghdr: unix.NlMsghdr{Type: kind, Seq: 1}, RawData: body}
	if _, err := unix.Write(ends[1], message.Serialize()); err != nil {
		t.Fatal(err)
	}
	return &rtnlQuerier{nlmsg.NewQuerier(ends[0])}
}

// A pod whose end cannot be read is refused, as that may have an XDP program; and looked at again if it was known. One
// whose end is gone is not refused: that is announced.
func TestUnreadPodEnd(t *testing.T) {
	const device = 2
	veth := &vnl.Veth{LinkAttrs: vnl.LinkAttrs{Index: device, Name: "p0", HardwareAddr: floodMAC(7), Flags: net.FlagUp}}
	for _, c := range []struct {
		errno   unix.Errno
		refused []Refusal
	}{
		{unix.ENODEV, nil},
		{unix.EINVAL, nil}, // its namespace is gone
		{unix.ENOBUFS, []Refusal{{"p0", "its end in the pod cannot be read (ask the kernel: no buffer space available)"}}},
	} {
		failure := binary.NativeEndian.AppendUint32(nil, -uint32(c.errno))
		list := newNeighbourList(unix.AF_INET, 0, 2)
		list.add(neighbourMessage(device, 1))
		r := reader{
			Tables: &Tables{family: IPv4, arp: list.all}, querier: answered(t, unix.NLMSG_ERROR, failure), byName: map[string]vnl.Link{"p0": veth},
			routeIndex: routeIndex{hostRoutes: map[Neighbour]bool{{device, netip.AddrFrom4([4]byte{192, 0, 2, 1})}: true}},
		}
		r.indexNeighbours()
		if pod, ok := r.pod("p0"); ok != (c.refused == nil) || !slices.Equal(r.refused, c.refused) {
			t.Errorf("%v: %v, %+v, refused %q, want %q", c.errno, ok, pod, r.refused, c.refused)
		}
		r.querier.Close()
		poller := Poller{querier: answered(t, unix.NLMSG_ERROR, failure)}
		if !poller.PodsChanged([]LocalPod{{PodEnd: PodEnd{MTU: 1500}}}) {
			t.Errorf("%v: an end that was known is as it was", c.errno)
		}
		poller.querier.Close()
	}
}

// Of all devices, so many neighbours are read at most: with more, an error names the device that has most. A message
// that does not even say which device it is about is an error, too.
func TestTooManyNeighbours(t *testing.T) {
	list := newNeighbourList(unix.AF_INET, 0, 2)
	read := 0
	list.add(neighbourMessage(1000, 1))
	for list.add(neighbourMessage(1001, read)) && read < 20 {
		read++
	}
	var many TooManyError
	if !errors.As(list.err, &many) || read != 7 || !strings.Contains(many.Error(), "more than 8 neighbours, 8 or more of them on device 1001") {
		t.Errorf("after %d neighbours: %v", read, list.err)
	}
	list = newNeighbourList(unix.AF_INET, 0, 2)
	if list.add(neighbourMessage(1, 1)[:unix.SizeofNdMsg-1]) || list.err == nil {
		t.Error("a message without a device is no error")
	}
}

// Where the tables are too long, no topology but that is read; any other error stays one.
func TestTooManyIsTopology(t *testing.T) {
	for _, err := range []error{TooManyError("too many"), unix.EPERM} {
		r, failed := OpenTableReader(&Tables{family: IPv4, err: fmt.Errorf("list: %w", err)}, DeviceNames{}, nil)
		if err == unix.EPERM {
			if !errors.Is(failed, err) {
				t.Errorf("%v is %v", err, failed)
			}
			continue
		}
		if failed != nil {
			t.Fatal(failed)
		}
		if found, err := r.Read(AllPods); err != nil || found.TooMany != "too many" {
			t.Errorf("%v: %+v", err, found)
		}
		r.Close()
	}
}
