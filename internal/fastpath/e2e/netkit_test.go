package e2e

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath/topology"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	vnl "github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/fastpathtest"
)

func needsNetkit(t *testing.T) {
	t.Helper()
	requireFastPath(t)
	if answer, err := feature.Netkit.Ask(); answer != feature.Yes {
		t.Skipf("this kernel has no netkit devices: %v", err)
	}
}

// What the pod behind a netkit pair sends is carried in its own transmission.
func TestNetkitHooks(t *testing.T) {
	needsNetkit(t)
	l := testenv.Lab(t, lab.Options{Paths: []string{"netkit+fast", "netkit+fast:mode=l2", "vxlan+fast:pods=netkit"}})
	for _, arm := range l.Arms {
		fastpathtest.WithFlow(t, arm, func(exchange func(time.Duration) error) {
			fastpathtest.WaitCarried(t, arm, exchange)
			at := programsAt(t, l.Machines[0], netkitOf(t, arm))
			if at[ebpf.AttachNetkitPeer] != 1 || at[ebpf.AttachTCXEgress] != 1 || len(at) != 2 {
				t.Errorf("%s: programs at its pod's device are %v", arm.Name, at)
			}
		})
	}
}

// netkitOf names the machines' device of a path.
func netkitOf(t *testing.T, arm lab.Arm) string {
	t.Helper()
	config, err := fastpath.Load(filepath.Join(filepath.Dir(arm.Pins[0]), "fast.json"))
	testenv.Must(t, err)
	return config.Devices.Pods[0]
}

// programsAt counts programs at a netkit device, where there are any.
func programsAt(t *testing.T, m lab.Machine, device string) map[ebpf.AttachType]int {
	t.Helper()
	at := map[ebpf.AttachType]int{}
	testenv.InNetns(t, m.Namespace, func() error {
		on, err := vnl.LinkByName(device)
		if err != nil {
			return err
		}
		for _, a := range []ebpf.AttachType{ebpf.AttachNetkitPeer, ebpf.AttachNetkitPrimary, ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
			list, err := link.QueryPrograms(link.QueryOptions{Target: on.Attrs().Index, Attach: a})
			if err != nil {
				return err
			}
			if n := len(list.Programs); n > 0 {
				at[a] = n
			}
		}
		return nil
	})
	return at
}

// A pair that drops what no program lets through still does, though the fast path
// lets everything through that it does not carry.
func TestNetkitDrops(t *testing.T) {
	needsNetkit(t)
	l := testenv.Lab(t, lab.Options{Paths: []string{"netkit+fast"}})
	arm, m := l.Arms[0], l.Machines[0]
	device := netkitOf(t, arm)
	fastpathtest.WithFlow(t, arm, func(exchange func(time.Duration) error) {
		for _, policy := range []int{nl.IFLA_NETKIT_POLICY, nl.IFLA_NETKIT_PEER_POLICY} {
			fastpathtest.WaitCarried(t, arm, exchange)
			setPolicy(t, m, device, policy, vnl.NETKIT_POLICY_BLACKHOLE)
			fastpathtest.WaitAnswered(t, exchange, false)
			if s := stateOf(t, arm); len(s.Refused) != 1 || !strings.Contains(s.Refused[0].Reason, "drops what no program lets through") {
				t.Errorf("of a pair that drops everything the daemon says %+v", s)
			}
			setPolicy(t, m, device, policy, vnl.NETKIT_POLICY_FORWARD)
			fastpathtest.WaitAnswered(t, exchange, true)
		}
		fastpathtest.WaitCarried(t, arm, exchange)
	})
}

// setPolicy says what a netkit pair does with packets that no program has judged.
func setPolicy(t *testing.T, m lab.Machine, device string, which int, policy vnl.NetkitPolicy) {
	t.Helper()
	testenv.InNetns(t, m.Namespace, func() error {
		l, err := vnl.LinkByName(device)
		if err != nil {
			return err
		}
		req := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_ACK)
		message := nl.NewIfInfomsg(unix.AF_UNSPEC)
		message.Index = int32(l.Attrs().Index)
		req.AddData(message)
		info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
		info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated("netkit"))
		info.AddRtAttr(nl.IFLA_INFO_DATA, nil).AddRtAttr(which, nl.Uint32Attr(uint32(policy)))
		req.AddData(info)
		_, err = req.Execute(unix.NETLINK_ROUTE, 0)
		return err
	})
}

// The pod behind a netkit device is found by the route to it where there are no
// neighbours, and where nothing speaks against carrying its packets.
func TestNetkitTopology(t *testing.T) {
	needsNetkit(t)
	addr := netip.MustParsePrefix("10.9.0.2/32")
	other := netip.MustParsePrefix("10.9.0.3/32")
	const device = "nk0"
	peerMAC := []byte{2, 0, 0, 0, 0, 2}
	l3 := vnl.Netkit{Mode: vnl.NETKIT_MODE_L3, Scrub: vnl.NETKIT_SCRUB_DEFAULT, PeerScrub: vnl.NETKIT_SCRUB_DEFAULT}
	l2 := l3
	l2.Mode = vnl.NETKIT_MODE_L2
	with := func(nk vnl.Netkit, set func(*vnl.Netkit)) vnl.Netkit { set(&nk); return nk }
	route := func(to netip.Prefix) func(*netcfg.Namespace) error {
		return func(n *netcfg.Namespace) error { return n.AddRoute(netcfg.Route{Dst: to, Device: device}) }
	}
	neighbour := func(n *netcfg.Namespace) error { return n.AddNeighbour(device, addr.Addr(), peerMAC) }
	multipath := func(n *netcfg.Namespace) error {
		testenv.Shell(t, n.Path(), "ip route append 10.9.0.2 nexthop dev nk0 nexthop dev lo")
		return nil
	}
	for _, c := range []struct {
		name    string
		is      vnl.Netkit
		swapped bool // the primary device is the pod's
		steps   []func(*netcfg.Namespace) error
		mac     string // of the pod; empty: it is none
		refused string
	}{
		{name: "l3", is: l3, steps: []func(*netcfg.Namespace) error{route(addr)}, mac: "00:00:00:00:00:00"},
		{name: "l3, no route", is: l3},
		{name: "l3, two routes", is: l3, steps: []func(*netcfg.Namespace) error{route(addr), route(other)}},
		{name: "l3, more than an address", is: l3, steps: []func(*netcfg.Namespace) error{route(netip.MustParsePrefix("10.9.0.0/24"))}},
		{name: "l3, a neighbour", is: l3, steps: []func(*netcfg.Namespace) error{route(addr), neighbour}},
		{name: "l3, several next hops", is: l3, steps: []func(*netcfg.Namespace) error{route(addr), multipath}, refused: "the route to 10.9.0.2/32 in table 254 has several next hops"},
		{name: "l2", is: l2, steps: []func(*netcfg.Namespace) error{route(addr), neighbour}, mac: "02:00:00:00:00:02"},
		{name: "l2, no neighbour", is: l2, steps: []func(*netcfg.Namespace) error{route(addr)}},
		{name: "drops what it sends", is: with(l3, func(nk *vnl.Netkit) { nk.Policy = vnl.NETKIT_POLICY_BLACKHOLE }),
			steps: []func(*netcfg.Namespace) error{route(addr)}, refused: "drops what no program lets through"},
		{name: "drops what the pod sends", is: with(l3, func(nk *vnl.Netkit) { nk.PeerPolicy = vnl.NETKIT_POLICY_BLACKHOLE }),
			steps: []func(*netcfg.Namespace) error{route(addr)}, refused: "drops what no program lets through"},
		{name: "leaves marks", is: with(l3, func(nk *vnl.Netkit) { nk.PeerScrub = vnl.NETKIT_SCRUB_NONE }),
			steps: []func(*netcfg.Namespace) error{route(addr)}, refused: "leaves marks on packets that pass it"},
		{name: "not the primary device", is: l3, swapped: true, steps: []func(*netcfg.Namespace) error{route(addr)}, refused: "is not the primary device of its pair"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := netcfg.Owned(testenv.Claim(t))
			testenv.Must(t, err)
			m, err := w.Create(w.Name("m1"))
			testenv.Must(t, err)
			defer m.Close()
			pod, err := w.Create(w.Name("p1"))
			testenv.Must(t, err)
			defer pod.Close()
			here, there := m, pod
			c.is.Name = device
			inside := vnl.NewLinkAttrs()
			inside.Name = "eth0"
			if c.swapped {
				here, there = pod, m
				c.is.Name, inside.Name = inside.Name, device
			}
			testenv.InNetns(t, here.Path(), func() error {
				space, err := os.Open(there.Path())
				if err != nil {
					return err
				}
				defer space.Close()
				inside.Namespace = vnl.NsFd(int(space.Fd()))
				c.is.SetPeerAttrs(&inside)
				return vnl.LinkAdd(&c.is)
			})
			testenv.Must(t, m.Up(device))
			testenv.Must(t, pod.Up("eth0"))
			for _, step := range c.steps {
				testenv.Must(t, step(m))
			}
			var topo topology.Topology
			testenv.InNetns(t, m.Path(), func() (err error) {
				topo, err = topology.Read(topology.DeviceNames{Wire: "none", Pods: []string{device}}, func(uint32) bool { return false })
				return err
			})
			mac, refused := "", ""
			for _, p := range topo.Pods {
				if mac = p.MAC.String(); p.Addr != addr.Addr() || !topo.TC[p.Device].Netkit {
					t.Errorf("the pod is %+v", p)
				}
			}
			for _, r := range topo.Refusals {
				refused += r.Reason
			}
			if mac != c.mac || refused != c.refused {
				t.Errorf("pod %q, refused %q; want %q and %q", mac, refused, c.mac, c.refused)
			}
		})
	}
}
