package topology

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"testing"

	"github.com/mdlayher/netlink"
	vnl "github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

const flood = 200_000 // MACs

func floodMAC(n int) net.HardwareAddr { return binary.BigEndian.AppendUint32([]byte{2, 0}, uint32(n)) }

// fdbMessage is what the kernel says about the entry of a bridge, or of a tunnel (0), for one of many MACs.
func fdbMessage(bridge, port, n int) []byte {
	header := make([]byte, unix.SizeofNdMsg)
	header[0] = familyBridge
	binary.NativeEndian.PutUint32(header[ndmIndex:], uint32(port))
	binary.NativeEndian.PutUint16(header[ndmState:], unix.NUD_REACHABLE)
	message := append(header, nl.NewRtAttr(unix.NDA_LLADDR, floodMAC(n)).Serialize()...)
	if bridge != 0 {
		message = append(message, nl.NewRtAttr(unix.NDA_MASTER, nl.Uint32Attr(uint32(bridge))).Serialize()...)
	}
	return message
}

// fdbEntries are those that are kept of a bridge, or of a tunnel (0), with so many MACs.
func fdbEntries(t *testing.T, bridge, port, macs int) []neighbourEntry {
	t.Helper()
	list := newNeighbourList(familyBridge, cmp.Or(bridge, port), 0)
	for n := 0; n < macs && list.add(fdbMessage(bridge, port, n)); n++ {
	}
	if list.err != nil {
		t.Fatal(list.err)
	}
	return list.all
}

// A bridge with too many forwarding entries is refused with its pods, as is such a tunnel, and no more of them
// are kept. So is one whose list is cut by the entries of others. A bridge beside it that has just not too many keeps its own.
func TestCrowdedFDB(t *testing.T) {
	const crowded, port, full, fullPort, tunnel, cutShort, cutPort, portTunnel = 10, 11, 20, 21, 30, 40, 41, 42
	fdb := slices.Concat(fdbEntries(t, crowded, port, flood), fdbEntries(t, full, fullPort, maxFDB), fdbEntries(t, 0, tunnel, flood))
	if got, want := len(fdb), 2*keptFDB+maxFDB; got != want {
		t.Errorf("%d entries are kept, want %d", got, want)
	}
	// A bridge with one entry, which its list has after those of a tunnel that is its port.
	few, found, err := listFDB(map[int]bool{cutShort: true}, func(_ int, _ bool, do func([]byte) bool) error {
		more := true
		for n := 0; more && n < flood; n++ {
			more = do(fdbMessage(0, portTunnel, n))
		}
		if more {
			do(fdbMessage(cutShort, cutPort, 7))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	querier, err := openRtnlQuerier()
	if err != nil {
		t.Fatal(err)
	}
	defer querier.Close()
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 7}
	r := reader{
		Tables: &Tables{family: IPv4, fdb: append(fdb, few...), gaps: found}, querier: querier,
		byIndex: map[int]vnl.Link{}, byName: map[string]vnl.Link{},
	}
	for _, l := range []vnl.Link{
		&vnl.Bridge{LinkAttrs: vnl.LinkAttrs{Index: crowded, Name: "br0", HardwareAddr: mac, Flags: net.FlagUp}},
		&vnl.Bridge{LinkAttrs: vnl.LinkAttrs{Index: full, Name: "br1", HardwareAddr: mac, Flags: net.FlagUp}},
		&vnl.Bridge{LinkAttrs: vnl.LinkAttrs{Index: cutShort, Name: "br2", HardwareAddr: mac, Flags: net.FlagUp}},
		&vnl.Veth{LinkAttrs: vnl.LinkAttrs{Index: cutPort, Name: "p2", MasterIndex: cutShort, Flags: net.FlagUp}},
		&vnl.Veth{LinkAttrs: vnl.LinkAttrs{Index: port, Name: "p0", MasterIndex: crowded, Flags: net.FlagUp}},
		&vnl.Veth{LinkAttrs: vnl.LinkAttrs{Index: fullPort, Name: "p1", MasterIndex: full, Flags: net.FlagUp}},
		&vnl.Vxlan{LinkAttrs: vnl.LinkAttrs{Index: tunnel, Name: "v0", HardwareAddr: mac}},
	} {
		r.byIndex[l.Attrs().Index], r.byName[l.Attrs().Name] = l, l
	}
	for _, bridge := range []int{crowded, full, cutShort} {
		for _, missing := range []int{7, flood} { // the last has an entry nowhere
			r.arp = append(r.arp, neighbourEntry{Neigh: vnl.Neigh{
				LinkIndex: bridge, State: unix.NUD_REACHABLE, IP: net.IPv4(192, 0, 2, byte(missing)).To4(),
				HardwareAddr: floodMAC(missing),
			}})
		}
	}
	r.indexNeighbours()
	for i, want := range []bool{false, true, false} {
		name := fmt.Sprint("p", i)
		if pod, ok := r.pod(name); ok != want {
			t.Errorf("pod behind %s: %v, %+v", name, ok, pod)
		}
	}
	if ok, err := r.acceptTunnel(r.byName["v0"], "", nil); ok || err != nil {
		t.Errorf("the tunnel: %v, %v", ok, err)
	}
	want := []Refusal{{"p0", "br0 has more than 65536 forwarding entries"},
		{"p2", "br2 has 147456 or more forwarding entries, those of its ports or its bridge included"}, {"v0", "has more than 65536 forwarding entries"}}
	if !slices.Equal(r.refused, want) {
		t.Errorf("refused %v, want %v", r.refused, want)
	}
	if len(r.fdbOf[port]) > 0 {
		t.Errorf("%d entries are kept twice", len(r.fdbOf[port]))
	}
	if missing := r.missingFDB([]string{"p0", "p1", "p2"}); len(missing) != 1 || missing[0].Device != full {
		t.Errorf("without an entry: %v, want one on the bridge that is not crowded", missing)
	}
}

// A flood of neighbours is no news either once their device is refused; only what was learned of one that is known ends
// when it changes or goes. Those of another device are news.
func TestFloodOfNeighboursIsNoNews(t *testing.T) {
	n := newRtnlFilter(nil, IPv4)
	event := func(kind netlink.HeaderType, device, addr, mac int) Changes {
		header := neighbourMessage(device, 0)[:unix.SizeofNdMsg]
		to := binary.BigEndian.AppendUint32(nil, uint32(10<<24+addr))
		return n.event(netlink.Message{Header: netlink.Header{Type: kind}, Data: slices.Concat(header,
			nl.NewRtAttr(unix.NDA_DST, to).Serialize(), nl.NewRtAttr(unix.NDA_LLADDR, floodMAC(mac)).Serialize())}).Changes
	}
	news := 0
	for addr := range keptFDB + 1000 {
		if event(unix.RTM_NEWNEIGH, 10, addr, 1) != 0 {
			news++
		}
	}
	if news != quietFDB || len(n.neighbours) != keptFDB {
		t.Errorf("%d neighbours are news, and %d are kept, want %d and %d", news, len(n.neighbours), quietFDB, keptFDB)
	}
	for _, c := range []struct {
		what      string
		got, want Changes
	}{
		{"one that is not kept goes", event(unix.RTM_DELNEIGH, 10, keptFDB, 1), 0},
		{"one that is kept has another MAC", event(unix.RTM_NEWNEIGH, 10, 7, 2), RulesChanged},
		{"it goes", event(unix.RTM_DELNEIGH, 10, 7, 2), RulesChanged},
		{"one of another device", event(unix.RTM_NEWNEIGH, 11, 7, 1), TopologyChanged},
	} {
		if c.got != c.want {
			t.Errorf("%s: %b is told, want %b", c.what, c.got, c.want)
		}
	}
	if event(unix.RTM_DELNEIGH, 11, 7, 1); len(n.sizes) != 1 {
		t.Errorf("%v are counted, want one device", n.sizes)
	}
}

// A flood of MACs is news until its bridge is refused. Then it is neither news nor kept, except that a known MAC
// has moved, until there are fewer again.
func TestFloodIsNoNews(t *testing.T) {
	n := newRtnlFilter(nil, IPv4)
	event := func(kind netlink.HeaderType, port, mac int) bool {
		return n.event(netlink.Message{Header: netlink.Header{Type: kind}, Data: fdbMessage(10, port, mac)}).Changes != 0
	}
	news := 0
	count := func(is bool) {
		if is {
			news++
		}
	}
	for mac := range flood {
		count(event(unix.RTM_NEWNEIGH, 11, mac))
	}
	if news != quietFDB || len(n.neighbours) != keptFDB {
		t.Errorf("%d MACs are news, and %d are kept, want %d and %d", news, len(n.neighbours), quietFDB, keptFDB)
	}
	if event(unix.RTM_DELNEIGH, 11, flood-1) || !event(unix.RTM_NEWNEIGH, 12, 7) {
		t.Error("one that is not kept is gone, which is no news; and one that is has moved, which is")
	}
	const spare = keptFDB - quietFDB
	news = 0
	for mac := range spare {
		count(event(unix.RTM_DELNEIGH, 11, mac))
	}
	if news != 1 || !event(unix.RTM_DELNEIGH, 11, flood-2) {
		t.Errorf("of those that are gone %d are news, want the last, and any other after it", news)
	}

	n.load(&Tables{fdb: fdbEntries(t, 10, 11, flood)}, filterTables{})
	if len(n.neighbours) != keptFDB || event(unix.RTM_NEWNEIGH, 11, flood) {
		t.Errorf("read anew, %d are kept, want %d, and another one is no news", len(n.neighbours), keptFDB)
	}
}
