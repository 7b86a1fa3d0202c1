package host

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/venturi-net/venturi/internal/sanitize"
)

// NetDevice is a network device as it is set, with its counters.
type NetDevice struct {
	Name, Kind string // kind as `ip -d link` names it; "device": has none, as network cards
	Index, MTU int
	Up         bool
	Card       bool // real or virtual hardware is behind it
	Driver     string
	Master     int // index of the bridge, bond or switch it is a port of; 0: none
	Lower      int // index of the device below it, or of the other end of a pair; 0: none
	LowerNSID  int // number, in this namespace, of the namespace that Lower is in; -1: this one
	Qdisc      string
	Leaves     []string // queueing disciplines below the root, without repetition
	Tunnel     *Tunnel  // nil: it is none
	Features   map[string]Feature
	Rings      Rings
	Queues     int      // received by
	MaxQueues  int      // that the card could have; 0: not told
	RPS        []string // masks of CPUs, one a receive queue; nil: not read
	UDPHash    []string // what queues are chosen by for UDP on IPv4: "src", "dst", "sport", "dport"; nil: not told
	Gateways   int      // IPv4 routes with a next hop that lead to it, but for the default; only counted where there are tunnels
	Counters   map[string]uint64
}

// Feature is an offload of a device.
type Feature struct {
	Settable bool // it could be switched on
	Wanted   bool // nobody switched it off; it may be off for want of another one
	On       bool
}

// Rings are a card's numbers of descriptors; 0: it has none, or does not tell.
type Rings struct{ RX, RXMax, TX, TXMax int }

// Tunnel is what a device wraps packets into.
type Tunnel struct {
	Port          int // UDP, that it receives on; 0: it does not use UDP
	Overhead      int // bytes a packet, with the outer IP header
	Device        int // index of the device that it is bound to; 0: none
	Local, Remote netip.Addr
	Shared        bool // a switch says for each packet where it goes
}

// NetDevices lists the network devices of the calling thread's namespace but
// loopback. Masks of RPS are read below sys, which shows the namespace's sysfs;
// empty: they are not.
func NetDevices(sys string) ([]NetDevice, error) {
	h, links, err := openLinks()
	if err != nil {
		return nil, err
	}
	defer h.Close()
	tool, err := ethtool.NewEthtool()
	if err != nil {
		return nil, fmt.Errorf("open ethtool: %w", err)
	}
	defer tool.Close()
	roots, leaves := qdiscs(h)
	var list []NetDevice
	for _, link := range links {
		a := link.Attrs()
		if a.Flags&net.FlagLoopback != 0 {
			continue
		}
		d := NetDevice{
			Name: a.Name, Kind: link.Type(), Index: a.Index, MTU: a.MTU, Up: a.Flags&net.FlagUp != 0,
			Master: a.MasterIndex, Lower: a.ParentIndex, LowerNSID: a.NetNsID,
			Qdisc: roots[a.Index], Leaves: leaves[a.Index],
			Tunnel: tunnelOf(link), Features: map[string]Feature{}, Counters: linkCounters(a.Statistics),
		}
		d.askDriver(tool)
		if sys != "" {
			d.readQueues(sys)
		}
		list = append(list, d)
	}
	if slices.ContainsFunc(list, func(d NetDevice) bool { return d.Tunnel != nil && d.Up }) {
		count := gateways(h)
		for i := range list {
			list[i].Gateways = count[list[i].Index]
		}
	}
	return list, nil
}

// askDriver fills in what ethtool tells. What a driver does not tell stays empty.
func (d *NetDevice) askDriver(tool *ethtool.Ethtool) {
	if info, err := AskEthtool(tool.DriverInfo, d.Name); err == nil {
		d.Driver = info.Driver
		d.Card = d.Kind == "device" && info.BusInfo != "" && info.BusInfo != "N/A" && info.Driver != "tun"
	}
	if all, err := AskEthtool(tool.FeaturesWithState, d.Name); err == nil {
		for name, s := range all {
			d.Features[name] = Feature{Settable: s.Available && !s.NeverChanged, Wanted: s.Requested, On: s.Active}
		}
	}
	if !d.Card {
		return
	}
	if r, err := AskEthtool(tool.GetRing, d.Name); err == nil {
		d.Rings = Rings{RX: int(r.RxPending), RXMax: int(r.RxMaxPending), TX: int(r.TxPending), TXMax: int(r.TxMaxPending)}
	}
	if c, err := AskEthtool(tool.GetChannels, d.Name); err == nil {
		d.MaxQueues = int(max(c.MaxCombined, c.MaxRx))
		d.Queues = int(c.CombinedCount + c.RxCount)
	}
	d.UDPHash = udpHash(d.Name)
	if all, err := AskEthtool(tool.Stats, d.Name); err == nil {
		for name, n := range all {
			if lacksRoom(name) {
				d.Counters[name] = n
			}
		}
	}
}

// lacksRoom tells whether a counter of a driver counts packets that it had no
// descriptor for.
func lacksRoom(name string) bool {
	for _, part := range []string{"rx_missed", "rx_no_buffer", "rx_out_of_buffer", "rx_no_dma", "rx_fifo", "rx_over_err"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// readQueues counts the receive queues, and reads their masks.
func (d *NetDevice) readQueues(sys string) {
	files, _ := sanitize.Files(filepath.Join(sys, "class/net", d.Name), "queues/rx-*/rps_cpus")
	slices.Sort(files)
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil {
			d.RPS = append(d.RPS, strings.TrimSpace(string(text)))
		}
	}
	if d.Queues == 0 {
		d.Queues = len(d.RPS)
	}
}

// qdiscs gives the root queueing discipline of every device of the namespace,
// and what is below it, in one question for all.
func qdiscs(h *netlink.Handle) (roots map[int]string, leaves map[int][]string) {
	roots, leaves = map[int]string{}, map[int][]string{}
	list, err := h.QdiscList(nil)
	if err != nil {
		return roots, leaves
	}
	for _, q := range list {
		a := q.Attrs()
		switch {
		case a.Parent == netlink.HANDLE_ROOT:
			roots[a.LinkIndex] = q.Type()
		case a.Parent != netlink.HANDLE_CLSACT:
			if known := leaves[a.LinkIndex]; len(known) == 0 || known[len(known)-1] != q.Type() {
				leaves[a.LinkIndex] = append(known, q.Type())
			}
		}
	}
	return roots, leaves
}

// What tunnels add to a packet, with an outer IPv4 header: Geneve has options
// besides, which only who sends knows of.
const (
	overheadVXLAN = 20 + 8 + 8 + 14
	overheadIPIP  = 20
	overheadGRE   = 20 + 4

	moreIPv6 = 20 // that its header is longer
)

// tunnelOf reads what a device wraps packets into; nil: it is no tunnel.
func tunnelOf(link netlink.Link) *Tunnel {
	t := overIPv4(link)
	if t != nil && (t.Local.Is6() || t.Remote.Is6()) {
		t.Overhead += moreIPv6
	}
	return t
}

// overIPv4 is tunnelOf with the overhead of an outer IPv4 header.
func overIPv4(link netlink.Link) *Tunnel {
	switch t := link.(type) {
	case *netlink.Vxlan:
		return &Tunnel{Port: t.Port, Overhead: overheadVXLAN, Device: t.VtepDevIndex, Local: nlmsg.ToAddr(t.SrcAddr), Remote: nlmsg.ToAddr(t.Group), Shared: t.FlowBased}
	case *netlink.Geneve:
		return &Tunnel{Port: int(t.Dport), Overhead: overheadVXLAN, Device: int(t.Link), Remote: nlmsg.ToAddr(t.Remote), Shared: t.FlowBased}
	case *netlink.Iptun:
		return &Tunnel{Overhead: overheadIPIP, Device: int(t.Link), Local: nlmsg.ToAddr(t.Local), Remote: nlmsg.ToAddr(t.Remote), Shared: t.FlowBased}
	case *netlink.Gretap:
		return &Tunnel{Overhead: overheadGRE + 14, Device: int(t.Link), Local: nlmsg.ToAddr(t.Local), Remote: nlmsg.ToAddr(t.Remote), Shared: t.FlowBased}
	case *netlink.Gretun:
		return &Tunnel{Overhead: overheadGRE, Device: int(t.Link), Local: nlmsg.ToAddr(t.Local), Remote: nlmsg.ToAddr(t.Remote), Shared: t.FlowBased}
	}
	return nil
}

// gateways counts the IPv4 routes with a next hop, but for the default, by the
// index of the device that they lead to.
func gateways(h *netlink.Handle) map[int]int {
	count := map[int]int{}
	routes, err := nlmsg.Dump(func() ([]netlink.Route, error) { return h.RouteList(nil, netlink.FAMILY_V4) })
	if err != nil {
		return count
	}
	for _, r := range routes {
		if len(r.Gw) > 0 && nlmsg.ToPrefix(r.Dst).Bits() > 0 {
			count[r.LinkIndex]++
		}
	}
	return count
}

// linkCounters are those of every device, by the names in its sysfs folder.
func linkCounters(s *netlink.LinkStatistics) map[string]uint64 {
	if s == nil {
		return map[string]uint64{}
	}
	return map[string]uint64{
		"rx_packets": s.RxPackets, "tx_packets": s.TxPackets, "rx_dropped": s.RxDropped, "tx_dropped": s.TxDropped,
		"rx_missed_errors": s.RxMissedErrors, "rx_fifo_errors": s.RxFifoErrors, "rx_over_errors": s.RxOverErrors,
	}
}

// NetnsByNSID tells what the numbers of other namespaces (nsids) mean in the calling
// thread's: it tries the files of namespaces in order, until all that are wanted
// are found.
func NetnsByNSID(wanted map[int]bool, files []string) map[int]string {
	found := map[int]string{}
	h, err := netlink.NewHandle(netlinkRoute)
	if err != nil {
		return found
	}
	defer h.Close()
	for _, path := range files {
		if len(found) == len(wanted) {
			break
		}
		if n := nsidOf(h, path); wanted[n] {
			found[n] = path
		}
	}
	return found
}

// IsPaired tells whether a pair of devices, veths or netkits, joins the calling thread's
// namespace and another one, whose file is given. One device does not count.
func IsPaired(namespace, but string) (bool, error) {
	h, links, err := openLinks() // first: the kernel numbers namespaces as it lists what leads there
	if err != nil {
		return false, err
	}
	defer h.Close()
	there := nsidOf(h, namespace)
	return there >= 0 && slices.ContainsFunc(links, func(l netlink.Link) bool {
		a := l.Attrs()
		return IsPair(l.Type()) && a.NetNsID == there && a.Name != but
	}), nil
}

// IsPair tells whether devices of a kind come in pairs, whose ends may be in two namespaces.
func IsPair(kind string) bool { return kind == "veth" || kind == "netkit" }

// nsidOf gives the number of a namespace; -1: it has none here.
func nsidOf(h *netlink.Handle, path string) int {
	file, err := os.Open(path)
	if err != nil {
		return -1
	}
	defer file.Close()
	n, err := h.GetNetNsIdByFd(int(file.Fd()))
	if err != nil {
		return -1
	}
	return n
}
