package doctor

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/nft"
)

// The spaces and devices of the healthy machine: a card eth0 by which a tunnel vx
// sends, both of the machine; the tunnel and the pod's end pod1 are ports of the
// bridge cni0; eth0 of the pod is the other end. wire carries a tunnel that is
// routed into, wg, and its other end is in a namespace of its own.
type rig struct {
	*View
	home, pod, remote            *Netns
	card, vx, bridge, port, wire *host.NetDevice
	eth0, peer, ipip             *host.NetDevice
}

func allOn() map[string]host.Feature {
	all := map[string]host.Feature{}
	for _, name := range []string{txChecksum, rxChecksum, gatherFeature, tsoFeature, tso6Feature, gsoFeature, tunnelFeature, tunnelCsumFeature, groFeature} {
		all[name] = host.Feature{Settable: true, Wanted: true, On: true}
	}
	all[lroFeature] = host.Feature{Settable: true}
	return all
}

// switchOff plays ethtool -K.
func switchOff(d *host.NetDevice, features ...string) {
	for _, name := range features {
		d.Features[name] = host.Feature{Settable: true}
	}
}

func device(index int, name, kind string, mtu int) host.NetDevice {
	return host.NetDevice{Index: index, Name: name, Kind: kind, MTU: mtu, Up: true, LowerNSID: -1, Features: allOn(), Qdisc: "noqueue", RPS: []string{"0"}, Queues: 1, Counters: map[string]uint64{"rx_packets": 1e6}}
}

func healthy() rig {
	v := &View{CPUs: 4, Governors: map[string]int{"performance": 4}, Modules: map[string]bool{"openvswitch": false, "vxlan": false}, Owners: map[string]int{}, IRQs: map[string][]host.IRQ{}}
	space := func(ino uint64, path, name string) *Netns {
		s := &Netns{Netns: host.Netns{ID: host.NamespaceID{Ino: ino}, Path: path, Name: name}, Tracked: -1, Carrier: map[int]int{}, ByNSID: map[int]host.NamespaceID{},
			Sysctls: map[string]string{congestion: "cubic", allowed: "reno cubic bbr", maxBacklog: "1000", "net.core.netdev_budget": "300", "net.core.netdev_budget_usecs": "2000", "net.ipv4.ip_forward": "1", "net.core.bpf_jit_enable": "1",
				"net.bridge.bridge-nf-call-iptables": "1", conntrackCount: "100", conntrackMax: "262144"}}
		v.Netns = append(v.Netns, s)
		return s
	}
	r := rig{View: v, home: space(1, "", ""), pod: space(2, "/run/netns/shop", "shop"), remote: space(3, "/proc/77/ns/net", "pid 77 (far)")}
	r.home.Home = true
	v.Sysctls = r.home.Sysctls
	r.home.Devices = []host.NetDevice{device(2, "eth0", "device", 1500), device(3, "vx", "vxlan", 1450), device(4, "cni0", "bridge", 1450), device(5, "pod1", "veth", 1450), device(6, "wire", "veth", 1500), device(7, "tunl0", "ipip", 1450)}
	r.pod.Devices = []host.NetDevice{device(2, "eth0", "veth", 1450)}
	r.remote.Devices = []host.NetDevice{device(9, "uplink", "veth", 1500)}
	h := r.home.Devices
	r.card, r.vx, r.bridge, r.port, r.wire, r.ipip = &h[0], &h[1], &h[2], &h[3], &h[4], &h[5]
	r.eth0, r.peer = &r.pod.Devices[0], &r.remote.Devices[0]
	r.card.Card, r.card.Driver, r.card.Queues, r.card.Qdisc = true, "ixgbe", 8, "mq"
	r.card.Rings, r.card.UDPHash = host.Rings{RX: 512, RXMax: 4096}, []string{"src", "dst", "sport", "dport"}
	r.ipip.Gateways = 3
	r.vx.Tunnel, r.vx.Master = &host.Tunnel{Port: 4789, Overhead: 50}, 4
	r.ipip.Tunnel = &host.Tunnel{Overhead: 20}
	r.port.Master, r.port.Lower, r.port.LowerNSID = 4, 2, 0
	r.wire.Lower, r.wire.LowerNSID = 9, 1
	r.eth0.Lower, r.eth0.LowerNSID = 5, 0
	r.peer.Lower, r.peer.LowerNSID = 6, 0
	r.home.Carrier[3], r.home.Carrier[7] = 2, 6
	r.home.ByNSID = map[int]host.NamespaceID{0: r.pod.ID, 1: r.remote.ID}
	r.pod.ByNSID[0], r.remote.ByNSID[0] = r.home.ID, r.home.ID
	r.count()
	return r
}

// count makes two readings, 2 s apart, between which little happened.
func (r rig) count() {
	read := func(at time.Time) Counters {
		c := Counters{Time: at, CPUs: map[int]host.CPUCounters{}, Devices: map[deviceKey]map[string]uint64{}, Protocols: map[host.NamespaceID]map[string]uint64{}}
		for n := range r.CPUs {
			c.CPUs[n] = host.CPUCounters{Total: 1000, Softirq: 10, Packets: 1 << 31, Dropped: 5, Squeezed: 7, NetRX: 100}
		}
		for _, s := range r.Netns {
			c.Protocols[s.ID] = map[string]uint64{"Tcp/InCsumErrors": 3, "Udp/InCsumErrors": 1, "Tcp/RetransSegs": 50, "Tcp/OutSegs": 1000}
			for _, d := range s.Devices {
				c.Devices[deviceKey{s.ID, d.Index}] = map[string]uint64{"rx_packets": 1e6, "rx_missed_errors": 0, "rx_dropped": 400}
			}
		}
		return c
	}
	r.First, r.Second = read(time.Unix(100, 0)), read(time.Unix(102, 0))
	for n, c := range r.Second.CPUs {
		c.Total, c.Softirq, c.Packets = c.Total+200, c.Softirq+10, c.Packets+500
		r.Second.CPUs[n] = c
	}
}

func (r rig) cpu(n int, change func(*host.CPUCounters)) {
	c := r.Second.CPUs[n]
	change(&c)
	r.Second.CPUs[n] = c
}

// rules makes a chain of n rules that look at something.
func rules(n int, first ...nft.RuleSummary) []nft.RuleSummary {
	return append(first, slices.Repeat([]nft.RuleSummary{{Verdict: "drop"}}, n)...)
}

func base(kind, hook string, rules []nft.RuleSummary) nft.ChainSummary {
	return nft.ChainSummary{Family: "ip", Table: "filter", Name: "BASE", Hook: hook, Type: kind, Rules: rules}
}

// faults is one for every rule: what is planted, how much it matters, where, and the command.
var faults = []struct {
	code     string
	severity Severity
	where    string // device, or namespace, as arguments
	mend     string
	plant    func(rig)
}{
	{"mtu-pair", Error, "eth0 shop", "venturi knob set nic.mtu 1450 --dev eth0 --netns shop", func(r rig) { r.eth0.MTU = 1500 }},
	{"mtu-bridge", Error, "pod1 ", "venturi knob set nic.mtu 1400 --dev pod1", func(r rig) { r.vx.MTU = 1400 }},
	{"mtu-bridge", Note, "pod1 ", "venturi knob set nic.mtu 1400 --dev pod1", func(r rig) {
		r.home.Devices = append(r.home.Devices, device(8, "pod2", "veth", 1400))
		r.home.Devices[len(r.home.Devices)-1].Master = 4
	}},
	{"mtu-tunnel", Error, "vx ", "venturi knob set nic.mtu 1430 --dev vx", func(r rig) { r.card.MTU = 1480 }},
	{"mtu-tunnel", Error, "pod1 ", "venturi knob set nic.mtu 1430 --dev pod1", func(r rig) {
		r.card.MTU, r.bridge.Kind, r.vx.Tunnel.Shared, r.vx.MTU = 1480, "openvswitch", true, 65000
	}},
	{"mtu-pod-above-tunnel", Warning, "eth0 shop", "venturi knob set nic.mtu 1400 --dev eth0 --netns shop", func(r rig) { r.ipip.MTU = 1400 }},
	{"mtu-pod-above-tunnel", Note, "eth0 shop", "venturi knob set nic.mtu 1400 --dev eth0 --netns shop", func(r rig) { r.ipip.MTU, r.card.Gateways = 1400, 2 }},
	{"mtu-pod-below-tunnel", Warning, "eth0 shop", "venturi knob set nic.mtu 8950 --dev eth0 --netns shop", func(r rig) { r.ipip.MTU, r.wire.MTU, r.peer.MTU = 8950, 9000, 9000 }},
	{"mtu-peer", Note, " ", "", func(r rig) {
		r.Routes = append(r.Routes, PeerRoute{Netns: r.home, Peer: "10.0.0.7", ResolvedRoute: host.ResolvedRoute{Device: "eth0", MTU: 1400}, DeviceMTU: 1500})
	}},
	{"mtu-path", Error, " ", "", func(r rig) {
		r.Routes = append(r.Routes, PeerRoute{Netns: r.home, Peer: "10.0.0.7", ResolvedRoute: host.ResolvedRoute{Device: "eth0", MTU: 1500}, DeviceMTU: 1500, Probe: host.ProbeVanishes})
	}},
	{"lro-forwarding", Error, "eth0 ", "venturi knob set nic.lro off --dev eth0", func(r rig) { r.card.Features[lroFeature] = host.Feature{Settable: true, Wanted: true, On: true} }},
	{"lro-forwarding", Error, "eth0 ", "venturi knob set nic.lro off --dev eth0", func(r rig) { lroBelowBond(r, 4, 0) }},
	{"lro-forwarding", Error, "eth0 ", "venturi knob set nic.lro off --dev eth0", func(r rig) { lroBelowBond(r, 0, 4) }},
	{"conntrack-full", Warning, " shop", "venturi knob set ct.size max=524288", func(r rig) { r.pod.Sysctls[conntrackCount] = "220000" }},
	{"conntrack-full", Error, " shop", "venturi knob set ct.size max=524288", func(r rig) { r.pod.Sysctls[conntrackCount] = "262000" }},
	{"tunnel-checksum-errors", Warning, "tunl0 ", "venturi knob set nic.csum tx=off --dev tunl0", func(r rig) { r.Second.Protocols[r.pod.ID]["Tcp/InCsumErrors"]++ }},
	{"tunnel-checksum-errors", Warning, "vx ", "venturi knob set virt.tx_csum off --dev vx", func(r rig) {
		r.Second.Protocols[r.pod.ID]["Tcp/RetransSegs"] += 30
		r.Second.Protocols[r.pod.ID]["Tcp/OutSegs"] += 900
		r.ipip.Features = nil
	}},
	{"tunnel-checksum-off", Warning, "vx ", "venturi knob set virt.tx_csum on --dev vx", func(r rig) { switchOff(r.vx, txChecksum) }},
	{"virtual-checksum-off", Warning, "eth0 shop", "venturi knob set nic.csum tx=on --dev eth0 --netns shop", func(r rig) { switchOff(r.eth0, txChecksum) }},
	{"tunnel-checksum-off", Warning, "tunl0 ", "venturi knob set nic.csum tx=on --dev tunl0", func(r rig) { switchOff(r.ipip, txChecksum) }},
	{"nic-checksum-off", Warning, "eth0 ", "venturi knob set nic.csum on --dev eth0", func(r rig) { switchOff(r.card, rxChecksum) }},
	{"segmentation-off", Warning, "uplink 77", "venturi knob set nic.seg tso=on --dev uplink --netns 77", func(r rig) { switchOff(r.peer, tsoFeature) }},
	{"segmentation-off", Note, "eth0 ", "", func(r rig) { r.card.Driver = "r8169"; switchOff(r.card, gatherFeature, tsoFeature) }},
	{"tunnel-segmentation-off", Warning, "eth0 ", "venturi knob set nic.tnl_seg seg=on --dev eth0", func(r rig) { switchOff(r.card, tunnelFeature) }},
	{"gro-off", Warning, "vx ", "venturi knob set nic.gro on --dev vx", func(r rig) { switchOff(r.vx, groFeature) }},
	{"gro-off", Warning, "eth0 ", "venturi knob set nic.gro on --dev eth0", func(r rig) { switchOff(r.card, groFeature) }},
	{"gro-off", Warning, "wire ", "venturi knob set nic.gro on --dev wire", func(r rig) { switchOff(r.wire, groFeature) }},
	{"rss-ignores-ports", Warning, "eth0 ", "venturi knob set nic.rss_udp sdfn --dev eth0", func(r rig) { r.card.UDPHash = []string{"src", "dst"} }},
	{"rss-ignores-ports", Note, "eth0 ", "venturi knob set nic.rss_udp sdfn --dev eth0", func(r rig) { r.card.UDPHash = nil }},
	{"rps-one-cpu", Warning, "wire ", "venturi knob set net.rps off --dev wire", func(r rig) { r.wire.RPS = []string{"00000001,00000000", "00000001,00000000"} }},
	{"softirq-hot-core", Warning, "eth0 ", "", func(r rig) {
		r.Second.Devices[deviceKey{r.home.ID, 2}]["rx_packets"] += 50000
		r.cpu(2, func(c *host.CPUCounters) { c.Softirq, c.Packets = c.Softirq+150, c.Packets+1<<31+20000 })
	}},
	{"ring-drops", Warning, "eth0 ", "venturi knob set nic.ring rx=max --dev eth0", func(r rig) { r.Second.Devices[deviceKey{r.home.ID, 2}]["rx_missed_errors"] = 9 }},
	{"ring-drops", Warning, "eth0 ", "venturi knob set nic.channels max --dev eth0", func(r rig) {
		r.card.Rings.RX, r.card.MaxQueues = 4096, 16
		r.Second.Devices[deviceKey{r.home.ID, 2}]["rx_missed_errors"] = 9
	}},
	{"ring-drops", Warning, "eth0 ", "venturi knob set nic.channels max --dev eth0", func(r rig) { // a driver that does not tell
		r.card.Rings, r.card.MaxQueues = host.Rings{}, 16
		r.Second.Devices[deviceKey{r.home.ID, 2}]["rx_missed_errors"] = 9
	}},
	{"ring-drops", Warning, "eth0 ", "", func(r rig) { // all queues are in use
		r.card.Rings.RX, r.card.MaxQueues = 4096, 8
		r.Second.Devices[deviceKey{r.home.ID, 2}]["rx_missed_errors"] = 9
	}},
	{"ring-drops", Warning, "eth0 ", "", func(r rig) { // a driver that tells of neither
		r.card.Rings, r.card.MaxQueues = host.Rings{}, 0
		r.Second.Devices[deviceKey{r.home.ID, 2}]["rx_missed_errors"] = 9
	}},
	{"ring-drops", Note, "eth0 ", "venturi knob set nic.ring rx=max --dev eth0", func(r rig) {
		r.First.Devices[deviceKey{r.home.ID, 2}]["rx_missed_errors"] = 9000
		r.Second.Devices[deviceKey{r.home.ID, 2}]["rx_missed_errors"] = 9000
	}},
	{"backlog-drops", Warning, " ", "venturi knob set net.backlog 2000", func(r rig) { r.cpu(0, func(c *host.CPUCounters) { c.Dropped++ }) }},
	{"backlog-small", Warning, " ", "venturi knob set net.backlog 1000", func(r rig) { r.Sysctls[maxBacklog] = "8" }},
	{"time-squeeze", Warning, " ", "", func(r rig) { r.cpu(0, func(c *host.CPUCounters) { c.Squeezed += 100; c.NetRX += 900 }) }},
	{"irqbalance-pinned", Warning, "eth0 ", "", func(r rig) {
		r.Owners["irqbalance"], r.Balancer = 7, "/usr/sbin/irqbalance --foreground"
		r.IRQs["eth0"] = []host.IRQ{{CPUs: "0-3"}, {CPUs: "0"}, {CPUs: "1"}, {CPUs: "2"}, {CPUs: "3"}}
	}},
	{"filter-long-chain", Warning, " shop", "", func(r rig) {
		r.pod.Chains = []nft.ChainSummary{base("filter", "input", []nft.RuleSummary{{MatchesAll: true, Verdict: "jump", TargetChain: "LONG"}}), {Family: "ip", Table: "filter", Name: "LONG", Rules: rules(2000)}}
	}},
	{"filter-long-chain", Warning, " shop", "", func(r rig) { r.pod.Legacy = []nft.LegacyTable{{Name: "filter", Entries: 2000}} }},
	{"filter-long-nat", Note, " shop", "", func(r rig) { r.pod.Chains = []nft.ChainSummary{base("nat", "prerouting", rules(2000))} }},
	{"bridge-nf-long-chain", Warning, " ", "", func(r rig) { r.home.Chains = []nft.ChainSummary{base("filter", "forward", rules(2000))} }},
	{"tunnel-conntracked", Note, " ", "", func(r rig) { r.home.Tracked = 30 }},
	{"tunnel-conntracked", Warning, " ", "", func(r rig) { r.home.Tracked = 90000 }},
	{"congestion-odd", Warning, " shop", "venturi knob set tcp.cc cubic --netns shop", func(r rig) { r.pod.Sysctls[congestion] = "vegas" }},
	{"congestion-odd", Note, " shop", "venturi knob set tcp.cc cubic --netns shop", func(r rig) { r.pod.Sysctls[congestion] = "reno" }},
	{"congestion-differs", Note, " shop", "", func(r rig) { r.pod.Sysctls[congestion] = "dctcp" }},
	{"bbr-without-fq", Warning, " shop", "venturi knob set tcp.cc cubic --netns shop", func(r rig) { r.pod.Sysctls[congestion] = "bbr" }},
	{"bbr-without-fq", Note, " shop", "venturi knob set tcp.cc cubic --netns shop", func(r rig) {
		for _, s := range r.Netns {
			s.Sysctls[congestion] = "bbr"
		}
		r.card.Leaves, r.peer.Qdisc = []string{"fq"}, "fq"
	}},
	{"bpf-jit-off", Warning, " ", "venturi knob set bpf.jit enable=1", func(r rig) { r.Sysctls["net.core.bpf_jit_enable"] = "0" }},
	{"steal", Note, " ", "", func(r rig) { r.cpu(1, func(c *host.CPUCounters) { c.Steal += 20 }) }},
	{"steal", Warning, " ", "", func(r rig) { r.cpu(1, func(c *host.CPUCounters) { c.Steal += 90 }) }},
	{"governor", Note, " ", "venturi knob set cpu.governor performance", func(r rig) { r.Governors["powersave"] = 2 }},
	{"obsolete-fastpath", Warning, " ", "", func(r rig) { r.Modules["kube_ovn_fastpath"] = true }},
	{"obsolete-ovs-module", Warning, " ", "", func(r rig) { r.Modules["openvswitch"] = true }},
	{"obsolete-stt", Warning, " ", "", func(r rig) { r.Modules["vport_stt"] = true }},
	{"other-owner", Note, " ", "", func(r rig) { r.Owners["tuned"] = 12 }},
	{"not-seen", Note, " ", "", func(r rig) { r.Unread = []Unread{{"something", "not permitted"}} }},
	{"not-seen", Note, " ", "", func(r rig) { r.Second = r.First }},
}

// alsoFound are findings that a fault of another code rightly has besides.
var alsoFound = map[string][]string{
	"backlog-drops":        nil,
	"irqbalance-pinned":    {"other-owner"},
	"bridge-nf-long-chain": {"filter-long-chain"},
	"congestion-odd":       {"congestion-differs"},
	"bbr-without-fq":       {"congestion-differs"},
	"rss-ignores-ports":    nil,
	"mtu-pair":             {"mtu-pod-above-tunnel"},
}

func TestHealthy(t *testing.T) {
	if r := Judge(healthy().View, Options{}); len(r.Findings) > 0 || r.Coverage.Namespaces != 3 || r.Coverage.Devices != 8 || r.Worst() != "" {
		t.Errorf("on a machine that is well: %+v", r)
	}
}

// healthyVariants are machines that look odd and are not: no rule may say more than a note.
var healthyVariants = map[string]func(rig){
	"a veth that receives packets uncut needs no GRO": func(r rig) { switchOff(r.wire, groFeature); switchOff(r.peer, groFeature) },
	"nor does one that carries no tunnel": func(r rig) {
		switchOff(r.port, groFeature)
		switchOff(r.eth0, groFeature, tsoFeature)
		r.eth0.Features[tsoFeature] = r.port.Features[tsoFeature]
	},
	"segmentation that is off for want of checksums": func(r rig) { r.card.Features[tsoFeature] = host.Feature{Settable: true, Wanted: true} },
	"an offload that the device cannot have":         func(r rig) { r.card.Features[tsoFeature] = host.Feature{} },
	"a tap of a virtual machine whose card takes no offloads": func(r rig) {
		switchOff(r.port, txChecksum, tsoFeature, tso6Feature)
		r.port.Kind = "tuntap"
	},
	"LRO below a bond": func(r rig) { lroBelowBond(r, 0, 0) },
	"a device that is down": func(r rig) {
		switchOff(r.vx, txChecksum, groFeature)
		r.vx.Up = false
		r.eth0.Up = false
		r.eth0.MTU = 9000
	},
	"a veth that only seems to be the other end": func(r rig) { r.eth0.Lower, r.eth0.MTU = 6, 9000 },
	"a switch in a process": func(r rig) {
		switchOff(r.eth0, txChecksum)
		r.home.Devices = append(r.home.Devices, device(8, "ovs-netdev", "tuntap", 1500))
	},
	"a tunnel that a program gives each packet to": func(r rig) { r.vx.Tunnel.Shared, r.vx.MTU, r.vx.Master = true, 1500, 0 },
	"a switch that has a card too": func(r rig) {
		r.bridge.Kind, r.vx.Tunnel.Shared, r.vx.MTU, r.port.MTU, r.eth0.MTU = "openvswitch", true, 65000, 1500, 1500
		r.card.Master, r.ipip.Gateways = 4, 0
	},
	"RPS over two CPUs": func(r rig) { r.wire.RPS = []string{"3"} },
	"RPS on one of two": func(r rig) { r.wire.RPS = []string{"1", "0"} },
	"one CPU, and RPS":  func(r rig) { r.View.CPUs, r.wire.RPS = 1, []string{"1"} },
	"a busy machine": func(r rig) {
		for n := range r.Second.CPUs {
			r.cpu(n, func(c *host.CPUCounters) { c.Softirq, c.Packets = c.Softirq+150, c.Packets+50000 })
		}
	},
	"counters that began anew": func(r rig) {
		r.Second.Protocols[r.pod.ID] = map[string]uint64{"Tcp/InCsumErrors": 0}
		r.Second.Devices[deviceKey{r.home.ID, 2}] = map[string]uint64{}
	},
	"a few segments sent again": func(r rig) {
		r.Second.Protocols[r.pod.ID]["Tcp/RetransSegs"] += 30
		r.Second.Protocols[r.pod.ID]["Tcp/OutSegs"] += 90000
	},
	"irqbalance that was told": func(r rig) {
		r.Owners["irqbalance"], r.Balancer = 7, "irqbalance --banirq=30"
		r.IRQs["eth0"] = []host.IRQ{{CPUs: "0"}, {CPUs: "1"}, {CPUs: "2"}, {CPUs: "3"}}
	},
	"irqbalance that spread them": func(r rig) {
		r.Owners["irqbalance"] = 7
		r.IRQs["eth0"] = []host.IRQ{{CPUs: "0"}, {CPUs: "2"}, {CPUs: "1"}, {CPUs: "3"}}
	},
	"known connections are accepted first": func(r rig) {
		r.pod.Chains = []nft.ChainSummary{base("filter", "forward", rules(2000, nft.RuleSummary{Established: true, Verdict: "accept"}))}
	},
	"known connections go round it": func(r rig) {
		r.pod.Chains = []nft.ChainSummary{base("filter", "forward", rules(2000, nft.RuleSummary{Verdict: "offload"}))}
	},
	"a long chain for new connections": func(r rig) {
		r.pod.Chains = []nft.ChainSummary{base("filter", "forward", []nft.RuleSummary{{NewOnly: true, Verdict: "jump", TargetChain: "LONG"}}), {Family: "ip", Table: "filter", Name: "LONG", Rules: rules(2000)}}
	},
	"a long chain that nothing leads to": func(r rig) {
		r.pod.Chains = []nft.ChainSummary{{Family: "ip", Table: "filter", Name: "LONG", Rules: rules(2000)}}
	},
	"chains that jump in a circle": func(r rig) {
		r.pod.Chains = []nft.ChainSummary{base("filter", "forward", []nft.RuleSummary{{MatchesAll: true, Verdict: "jump", TargetChain: "BASE"}})}
	},
	"a long chain without a bridge": func(r rig) {
		r.vx.Master = 0
		r.home.Chains = []nft.ChainSummary{base("nat", "prerouting", rules(2000))}
	},
	"bbr with fq":                     func(r rig) { r.home.Sysctls[congestion] = "bbr"; r.card.Leaves = []string{"fq"} },
	"reno where cubic is not allowed": func(r rig) { r.pod.Sysctls[congestion], r.pod.Sysctls[allowed] = "reno", "reno bbr" },
	"a virtual machine's governor":    func(r rig) { r.Hypervisor, r.Governors = "KVM", map[string]int{"powersave": 4} },
	"the way to a peer": func(r rig) {
		r.Routes = []PeerRoute{{Netns: r.home, Peer: "10.0.0.7", ResolvedRoute: host.ResolvedRoute{Device: "eth0", MTU: 1500}, DeviceMTU: 1500}}
	},
	"a table of connections that cannot be read": func(r rig) { delete(r.home.Sysctls, conntrackMax); delete(r.home.Sysctls, conntrackCount) },
}

func TestWell(t *testing.T) {
	for what, change := range healthyVariants {
		r := healthy()
		change(r)
		for _, f := range Judge(r.View, Options{}).Findings {
			if f.Severity != Note {
				t.Errorf("%s: %+v", what, f)
			}
		}
	}
}

func TestFaults(t *testing.T) {
	tested := map[string]bool{}
	for _, c := range faults {
		tested[c.code] = true
		r := healthy()
		// The view is behind a pointer: what plants a fault sees this one.
		c.plant(r)
		found := map[string]Finding{}
		for _, f := range Judge(r.View, Options{}).Findings {
			if _, twice := found[f.Code]; !twice || f.location.netns != nil {
				found[f.Code] = f
			}
			if f.Code != c.code && !slices.Contains(alsoFound[c.code], f.Code) {
				t.Errorf("%s planted: %s is found too: %+v", c.code, f.Code, f)
			}
		}
		f, there := found[c.code]
		if !there {
			t.Errorf("%s planted, and not found: %v", c.code, slices.Collect(maps.Keys(found)))
			continue
		}
		if got := f.Device + " " + f.Netns; got != c.where {
			t.Errorf("%s: found at %q, want %q", c.code, got, c.where)
		}
		if f.Severity != c.severity {
			t.Errorf("%s: severity %s, want %s", c.code, f.Severity, c.severity)
		}
		if f.Fix != c.mend {
			t.Errorf("%s: mend %q, want %q", c.code, f.Fix, c.mend)
		}
		if len(f.Evidence) == 0 || slices.ContainsFunc(f.Evidence, func(e Evidence) bool { return e.Read == "" || strings.TrimSpace(e.Value) == "" }) {
			t.Errorf("%s: evidence %+v", c.code, f.Evidence)
		}
	}
	for _, r := range Table {
		if !tested[r.Code] {
			t.Errorf("no fault is planted for rule %s", r.Code)
		}
	}
}
