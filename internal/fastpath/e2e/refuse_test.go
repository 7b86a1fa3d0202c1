package e2e

import (
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	vnl "github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/internal/testenv/fastpathtest"
)

// obstacle is something that packets meet on the slow path alone.
type obstacle struct {
	name     string
	path     string                                                                // on such paths; empty: on all
	add, del string                                                                // commands; POD, TUNNEL, BRIDGE and WIRE stand for devices of the path
	device   string                                                                // whose device is refused: POD, TUNNEL or WIRE; empty: everything is off
	reason   string                                                                // part of the reason
	build    func(t *testing.T, m lab.Machine, pod, inside string) (remove func()) // instead of commands
	xdp      string                                                                // instead of commands: a device that gets an XDP program
}

const (
	someFilter = " protocol ip prio 7 u32 match u32 0 0 flowid 1:1"
	// Carried packets come from the pod's device, others from a bridge, or from none behind a tunnel.
	filterByDevice = " protocol ip prio 7 u32 match u32 0 0 indev lo flowid 1:1"
	marks          = "nft 'table ip obstacle { chain c { type filter hook forward priority 0; meta mark set 7; }; }'; "
	nftChain       = "; add chain netdev obstacle c { type filter hook "
)

var obstacles = []obstacle{
	{name: "rate limit", add: "tc qdisc add dev POD root tbf rate 10gbit burst 10mb latency 1s", del: "tc qdisc del dev POD root", device: "POD", reason: "discipline tbf"},
	{name: "filter in", add: "tc qdisc add dev POD clsact || true; tc filter add dev POD ingress" + someFilter, del: "tc filter del dev POD ingress prio 7", device: "POD", reason: "tc filters at its ingress"},
	{name: "filter out", add: "tc qdisc add dev POD clsact || true; tc filter add dev POD egress" + someFilter, del: "tc filter del dev POD egress prio 7", device: "POD", reason: "tc filters at its egress"},
	{name: "chain in", add: "nft 'add table netdev obstacle" + nftChain + "ingress device POD priority 0; }'", del: "nft 'delete table netdev obstacle'", device: "POD", reason: "chain at its ingress"},
	{name: "chain out", add: "nft 'add table netdev obstacle" + nftChain + "egress device POD priority 0; }'", del: "nft 'delete table netdev obstacle'", device: "POD", reason: "chain at its egress"},
	{name: "program out", build: program(ebpf.AttachTCXEgress), device: "POD", reason: "BPF program obstacle at its egress"},
	{name: "program of our name", build: programOfOurName, device: "POD", reason: "BPF program to_pod at its egress"},
	{name: "filter of our name", build: filterOfOurName, device: "POD", reason: "tc filters at its egress"},
	{name: "program in", path: "netkit+fast", build: program(ebpf.AttachTCXIngress), device: "POD", reason: "BPF program obstacle at its ingress"},
	{name: "program of the pair, out", path: "netkit+fast", build: program(ebpf.AttachNetkitPrimary), device: "POD", reason: "BPF program obstacle at its netkit primary hook"},
	{name: "XDP program", build: xdpProgram, device: "POD", reason: "XDP"},
	{name: "XDP program, of which the pod's link says nothing", build: silentXDP, device: "POD", reason: "XDP"},
	{name: "XDP program of a bridge", path: "vxlan+fast", xdp: "BRIDGE", device: "POD", reason: "BRIDGE has a BPF program obstacle at its XDP hook"},
	{name: "XDP program of a tunnel", path: "vxlan+fast", xdp: "TUNNEL", device: "TUNNEL", reason: "BPF program obstacle at its XDP hook"},
	{name: "VLANs", path: "vxlan+fast", add: "ip link set BRIDGE type bridge vlan_filtering 1", del: "ip link set BRIDGE type bridge vlan_filtering 0", device: "POD", reason: "BRIDGE filters VLANs"},
	{name: "filter of a bridge", path: "vxlan+fast", add: "tc qdisc add dev BRIDGE clsact; tc filter add dev BRIDGE ingress" + someFilter, del: "tc qdisc del dev BRIDGE clsact", device: "POD", reason: "BRIDGE has tc filters"},
	{name: "filter of the wire", add: "tc qdisc add dev WIRE clsact || true; tc filter add dev WIRE ingress" + someFilter, del: "tc filter del dev WIRE ingress prio 7", device: "WIRE", reason: "tc filters at its ingress"},
	{name: "chain of the wire, out", add: "nft 'add table netdev obstacle" + nftChain + "egress device WIRE priority 0; }'", del: "nft 'delete table netdev obstacle'", device: "WIRE", reason: "chain at its egress"},
	{name: "rate limit of a tunnel", path: "vxlan+fast", add: "tc qdisc add dev TUNNEL root tbf rate 10gbit burst 10mb latency 1s", del: "tc qdisc del dev TUNNEL root", device: "TUNNEL", reason: "discipline tbf"},
	{name: "rule that counts", add: "nft 'add table ip obstacle; add chain ip obstacle c { type filter hook forward priority 0; }; add rule ip obstacle c limit rate 1000000/second accept'", del: "nft 'delete table ip obstacle'", reason: "(ip obstacle c handle 2: limit)"},
	{name: "rule on flags of TCP", add: "nft 'add table ip obstacle; add chain ip obstacle c { type filter hook forward priority 0; }; add rule ip obstacle c tcp flags psh drop'", del: "nft 'delete table ip obstacle'", reason: "(ip obstacle c handle 2: tcp flags)"},
	{name: "set that counts", add: "nft 'table ip obstacle { set s { type ipv4_addr; limit rate 1000000/second; elements = { 203.0.113.1 }; }; chain c { type filter hook forward priority 0; ip saddr @s drop; }; }'", del: "nft 'delete table ip obstacle'", reason: "(ip obstacle c handle 3: set s: limit)"},
	{name: "set that rules for new connections fill", add: "nft 'table ip obstacle { set bad { type ipv4_addr; }; chain c { type filter hook forward priority 0; ip saddr @bad drop; }; }'; nft 'add rule ip obstacle c ct state new udp dport 9999 add @bad { ip saddr }'", del: "nft 'delete table ip obstacle'", reason: "(ip obstacle c handle 3: elements of set bad come and go by themselves)"},
	{name: "marks of connections that rules change", add: "nft 'table ip obstacle { chain c { type filter hook forward priority 0; ct mark 7 drop; ct mark set 5; }; }'", del: "nft 'delete table ip obstacle'", reason: "(ip obstacle c handle 2: ct mark, which ip obstacle c handle 3 writes)"},
	{name: "route that encapsulates", add: "ip route add 203.0.113.0/24 encap ip id 7 dst 203.0.113.1 dev WIRE", del: "ip route del 203.0.113.0/24 dev WIRE", device: "WIRE", reason: "the route to 203.0.113.0/24 in table 254 has an encapsulation"},
	{name: "route of several next hops", path: "vxlan+fast", add: "ip route add 203.0.113.0/24 nexthop dev TUNNEL nexthop dev WIRE", del: "ip route del 203.0.113.0/24", device: "TUNNEL", reason: "the route to 203.0.113.0/24 in table 254 has several next hops"},
	{name: "marks and classes of the wire", add: marks + "tc qdisc add dev WIRE root handle 7: htb default 1; tc filter add dev WIRE parent 7:" + someFilter, del: "tc qdisc del dev WIRE root; nft 'delete table ip obstacle'", device: "WIRE", reason: "has a queueing discipline htb with filters, which may depend on marks that rules set (ip obstacle c)"},
	{name: "filter of the wire by device", add: "tc qdisc add dev WIRE clsact || true; tc filter add dev WIRE egress" + filterByDevice, del: "tc filter del dev WIRE egress prio 7", device: "WIRE", reason: "with filters of kind u32 by indev, which may depend on more than the packet itself"},
	{name: "filter of a class of the wire", add: "tc qdisc add dev WIRE root handle 7: htb default 1; tc class add dev WIRE parent 7: classid 7:2 htb rate 10gbit quantum 60000; tc filter add dev WIRE parent 7:2" + filterByDevice, del: "tc qdisc del dev WIRE root", device: "WIRE", reason: "has a queueing discipline htb with filters of kind u32 by indev, which may depend on more than the packet itself"},
	{name: "program of the wire", build: egressProgram("wire0"), device: "WIRE", reason: "has a BPF program obstacle at its egress, which may depend on more than the packet itself"},
	{name: "rule by TOS", add: "ip rule add tos 0x08 blackhole pref 100", del: "ip rule del pref 100", reason: "(policy rule 100 depends on the TOS)"},
	{name: "route by TOS", add: "ip route add blackhole 203.0.113.1 tos 0x08", del: "ip route del blackhole 203.0.113.1 tos 0x08", reason: "(the route to 203.0.113.1/32 in table 254 depends on the TOS)"},
	{name: "connections that end soon", add: "sysctl -w net.netfilter.nf_conntrack_udp_timeout_stream=8", del: "sysctl -w net.netfilter.nf_conntrack_udp_timeout_stream=120", reason: "nf_conntrack_udp_timeout_stream is 8 s, "},
	{name: "forwarding that keeps priorities", add: "sysctl -w net.ipv4.ip_forward_update_priority=0", del: "sysctl -w net.ipv4.ip_forward_update_priority=1", reason: "ip_forward_update_priority is 0"},
	{name: "IPsec", add: "ip xfrm policy add src 203.0.113.0/24 dst 203.0.113.1 dir out action allow", del: "ip xfrm policy deleteall", reason: "IPsec"},
}

// What carried packets would not meet any more keeps them on the slow path, and the
// daemon says why; what does not concern them goes on being carried.
func TestFastPathRefuses(t *testing.T) {
	requireFastPath(t)
	checkObstacles(t, obstacles)
}

// So does a program at a hook of netfilter.
func TestNetfilterPrograms(t *testing.T) {
	requireFastPath(t)
	testenv.NeedsNobodyBeside(t)
	checkObstacles(t, []obstacle{{name: "program at a hook of netfilter", build: netfilterProgram, reason: "netfilter"}})
}

func checkObstacles(t *testing.T, obstacles []obstacle) {
	t.Helper()
	l := testenv.Lab(t, lab.Options{Paths: supportedFastPaths()})
	m := l.Machines[0]
	for n, arm := range l.Arms {
		config, err := fastpath.Load(filepath.Join(filepath.Dir(arm.Pins[0]), "fast.json"))
		testenv.Must(t, err)
		other := l.Arms[(n+1)%len(l.Arms)]
		fastpathtest.WithFlow(t, arm, func(exchange func(time.Duration) error) {
			fastpathtest.WaitCarried(t, arm, exchange)
			for k, o := range obstacles {
				if o.path != "" && o.path != arm.Path {
					continue
				}
				if !agenttest.InFull() && n >= len(basicFastPaths) && (n+k)%2 > 0 {
					continue // in short, those of other kinds have half of them each
				}
				t.Run(arm.Path+" "+o.name, func(t *testing.T) {
					o.check(t, m, arm, config.Devices, exchange, func() {
						if s := stateOf(t, other); o.device == "POD" && len(s.Refused) > 0 {
							t.Errorf("of a path that this is none of, %+v is refused", s.Refused)
						}
					})
				})
			}
		})
	}
}

// check lays an obstacle on the way of a flow that is carried: the daemon says so, and nothing is
// carried until it is gone. slow is called meanwhile.
func (o obstacle) check(t *testing.T, m lab.Machine, arm lab.Arm, devices topology.DeviceNames, exchange func(time.Duration) error, slow func()) {
	t.Helper()
	words := devicesOf(t, devices, m)
	where, why := words.Replace(o.device), words.Replace(o.reason)
	remove := o.put(t, words, m, devices.Pods[0], arm.Client().Namespace)
	if remove == nil {
		t.Skip("this kernel has no such thing")
	}
	untilState(t, arm, exchange, func(s *fastpath.State) bool {
		if o.device == "" {
			return strings.Contains(s.Off, why)
		}
		return s.Off == "" && len(s.Refused) == 1 && s.Refused[0].Device == where && strings.Contains(s.Refused[0].Reason, why)
	})
	waitSlow(t, arm, exchange)
	slow()
	remove()
	untilState(t, arm, exchange, func(s *fastpath.State) bool { return s.Off == "" && len(s.Refused) == 0 })
	fastpathtest.WaitCarried(t, arm, exchange)
}

// A program that comes behind the fast path's own on a pod's device, or on the wire,
// sees what is carried all the same: the fast path goes behind it.
func TestFastPathBehindProgram(t *testing.T) {
	requireFastPath(t)
	if !kernel.HasTCX() {
		t.Skip("this kernel has no tcx")
	}
	l := testenv.Lab(t, lab.Options{Paths: supportedFastPaths()[1:2]})
	arm, m := l.Arms[0], l.Machines[0]
	config, err := fastpath.Load(filepath.Join(filepath.Dir(arm.Pins[0]), "fast.json"))
	testenv.Must(t, err)
	for way, device := range []string{config.Devices.Pods[0], config.Devices.Wire} {
		fastpathtest.WithFlow(t, arm, func(exchange func(time.Duration) error) {
			fastpathtest.WaitCarried(t, arm, exchange)
			at := ebpf.AttachTCXIngress
			if device != config.Devices.Wire && arm.Path == "netkit+fast" {
				at = ebpf.AttachNetkitPeer
			}
			seen, detach := attach(t, m, device, at)
			defer detach()
			for end := time.Now().Add(testenv.Timeout); ; {
				before, saw := fastpathtest.CarriedPackets(t, arm)[way], seen()
				for range 100 {
					testenv.Must(t, exchange(testenv.Timeout))
				}
				now, sees := fastpathtest.CarriedPackets(t, arm)[way]-before, seen()-saw
				if now >= 100 && sees >= now {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("of %d packets that were carried, a program at %s saw %d; %+v", now, device, sees, stateOf(t, arm))
				}
			}
		})
	}
}

// put lays an obstacle on a machine; nil: the kernel has no such thing.
func (o obstacle) put(t *testing.T, words *strings.Replacer, m lab.Machine, pod, inside string) (remove func()) {
	t.Helper()
	if o.build != nil {
		return o.build(t, m, pod, inside)
	}
	if o.xdp != "" {
		return attachXDP(t, m.Namespace, func(l vnl.Link) bool { return l.Attrs().Name == words.Replace(o.xdp) })
	}
	lacks := false
	run := func(script string) {
		t.Helper()
		cmd := exec.Command("sh", "-e", "-c", words.Replace(script))
		testenv.InNetns(t, m.Namespace, func() error {
			out, err := cmd.CombinedOutput()
			t.Logf("%s\n%s", cmd.Args[3], out)
			if lacks = strings.Contains(string(out), "not supported"); lacks {
				return nil
			}
			return err
		})
	}
	if run(o.add); lacks {
		return nil
	}
	return func() { t.Helper(); run(o.del) }
}

// attach attaches a program that does nothing but count, behind all others.
func attach(t *testing.T, m lab.Machine, device string, at ebpf.AttachType) (seen func() uint64, detach func()) {
	t.Helper()
	count, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	testenv.Must(t, err)
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "obstacle", Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{
			asm.LoadMapValue(asm.R1, count.FD(), 0),
			asm.Mov.Imm(asm.R2, 1),
			asm.AddAtomic.Mem(asm.R1, asm.R2, asm.DWord, 0),
			asm.Mov.Imm(asm.R0, -1),
			asm.Return(),
		},
	})
	testenv.Must(t, err)
	defer p.Close()
	var l link.Link
	testenv.InNetns(t, m.Namespace, func() error {
		on, err := vnl.LinkByName(device)
		if err != nil {
			return err
		}
		if at == ebpf.AttachNetkitPeer || at == ebpf.AttachNetkitPrimary {
			l, err = link.AttachNetkit(link.NetkitOptions{Interface: on.Attrs().Index, Program: p, Attach: at})
			return err
		}
		l, err = link.AttachTCX(link.TCXOptions{Interface: on.Attrs().Index, Program: p, Attach: at})
		return err
	})
	seen = func() (n uint64) {
		testenv.Must(t, count.Lookup(uint32(0), &n))
		return n
	}
	return seen, func() {
		testenv.Detach(t, l)
		testenv.Must(t, count.Close())
	}
}

// program is an obstacle of attach on a pod's device.
func program(at ebpf.AttachType) func(t *testing.T, m lab.Machine, pod, inside string) func() {
	return func(t *testing.T, m lab.Machine, pod, _ string) func() {
		t.Helper()
		if !kernel.HasTCX() {
			return nil
		}
		_, detach := attach(t, m, pod, at)
		return detach
	}
}

// netfilterProgram attaches one that lets everything pass to netfilter's hook for what
// is forwarded.
func netfilterProgram(t *testing.T, m lab.Machine, _, _ string) (detach func()) {
	t.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "obstacle", Type: ebpf.Netfilter, AttachType: ebpf.AttachNetfilter, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 1 /* NF_ACCEPT */), asm.Return()},
	})
	if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(features.HaveProgramType(ebpf.Netfilter), ebpf.ErrNotSupported) {
		return nil
	}
	testenv.Must(t, err)
	defer p.Close()
	var l link.Link
	testenv.InNetns(t, m.Namespace, func() (err error) {
		l, err = link.AttachNetfilter(link.NetfilterOptions{Program: p, ProtocolFamily: link.NetfilterProtoIPv4, Hook: link.NetfilterInetForward, Priority: 7})
		return err
	})
	return func() { testenv.Detach(t, l) }
}

// xdpProgram attaches one that does nothing where it would be skipped: in the pod, to
// which a veth sends past it; of a netkit pair, at the machine's device.
func xdpProgram(t *testing.T, m lab.Machine, pod, inside string) (detach func()) {
	t.Helper()
	if detach = attachXDP(t, inside, func(l vnl.Link) bool { return l.Type() == "veth" }); detach == nil {
		detach = attachXDP(t, m.Namespace, func(l vnl.Link) bool { return l.Attrs().Name == pod })
	}
	return detach
}

// attachXDP attaches a program that passes everything to a device; nil: there is none.
func attachXDP(t *testing.T, namespace string, wanted func(vnl.Link) bool) (detach func()) {
	t.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "obstacle", Type: ebpf.XDP, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2 /* XDP_PASS */), asm.Return()},
	})
	testenv.Must(t, err)
	defer p.Close()
	testenv.InNetns(t, namespace, func() error {
		all, err := vnl.LinkList()
		if i := slices.IndexFunc(all, wanted); err == nil && i >= 0 {
			var l link.Link
			l, err = link.AttachXDP(link.XDPOptions{Program: p, Interface: all[i].Attrs().Index})
			detach = func() { testenv.Detach(t, l) }
		}
		return err
	})
	return detach
}

// silentXDP does so where a pod's device segments nothing anyway, so that the machine's
// end of its link does not change.
func silentXDP(t *testing.T, m lab.Machine, pod, inside string) (detach func()) {
	t.Helper()
	const features = " gso off tso off gro off tx-udp-segmentation off tx-sctp-segmentation off tx-gso-list off || true"
	for _, at := range []struct{ space, device string }{{m.Namespace, pod}, {inside, "eth0"}} {
		testenv.InNetns(t, at.space, func() error { return runScript("ethtool -K " + at.device + features) })
	}
	time.Sleep(200 * time.Millisecond) // of those changes there is news, and that is over then
	return xdpProgram(t, m, pod, inside)
}

// egressProgram is a program where a device of the machine sends.
func egressProgram(device string) func(t *testing.T, m lab.Machine, pod, inside string) (detach func()) {
	return func(t *testing.T, m lab.Machine, _, inside string) (detach func()) {
		t.Helper()
		return program(ebpf.AttachTCXEgress)(t, m, device, inside)
	}
}

// devicesOf gives the devices of a path their names.
func devicesOf(t *testing.T, d topology.DeviceNames, m lab.Machine) *strings.Replacer {
	t.Helper()
	names := []string{"POD", d.Pods[0], "WIRE", d.Wire}
	testenv.InNetns(t, m.Namespace, func() error {
		pod, err := vnl.LinkByName(d.Pods[0])
		if err != nil {
			return err
		}
		if bridge, err := vnl.LinkByIndex(pod.Attrs().MasterIndex); err == nil {
			names = append(names, "BRIDGE", bridge.Attrs().Name)
		}
		return nil
	})
	if len(d.Tunnels) > 0 {
		names = append(names, "TUNNEL", d.Tunnels[0])
	}
	return strings.NewReplacer(names...)
}

func stateOf(t *testing.T, arm lab.Arm) *fastpath.State {
	t.Helper()
	s, err := fastpath.ReadState(fastpath.StateFile(arm.Pins[0]))
	testenv.Must(t, err)
	return s
}

// untilState exchanges datagrams until the first machine's daemon says what is
// wanted.
func untilState(t *testing.T, arm lab.Arm, exchange func(time.Duration) error, wanted func(*fastpath.State) bool) {
	t.Helper()
	limit := host.ScaleTimeout(15 * time.Second) // later, news of something else may lead to it
	for end := time.Now().Add(limit); ; {
		s := stateOf(t, arm)
		if wanted(s) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %v the daemon says %+v", limit, s)
		}
		testenv.Must(t, exchange(testenv.Timeout))
	}
}
