package doctor_test

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/doctor"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

// overlay is two machines with a pod each, joined by a wire and a vxlan device
// that is a port of each machine's bridge.
type overlay struct{ m1, m2, p1, p2 *netcfg.Namespace }

func raise(t *testing.T) overlay {
	t.Helper()
	testenv.Root(t)
	w, err := netcfg.Owned(testenv.Claim(t))
	testenv.Must(t, err)
	var made []*netcfg.Namespace
	for _, name := range []string{"m1", "m2", "p1", "p2"} {
		n, err := w.Create(w.Name(name))
		testenv.Must(t, err)
		t.Cleanup(n.Close)
		made = append(made, n)
		// Whatever the machine has, all namespaces have the same.
		testenv.Must(t, n.Sysctl(netcfg.Sysctl{Name: "net.ipv4.tcp_congestion_control", Value: "reno"}, netcfg.Sysctl{Name: "net.ipv4.ip_forward", Value: "1"}))
	}
	o := overlay{made[0], made[1], made[2], made[3]}
	testenv.Must(t, netcfg.AddVeth(netcfg.VethEnd{In: o.m1, Name: "wire"}, netcfg.VethEnd{In: o.m2, Name: "wire"}, 1500))
	for i, m := range []*netcfg.Namespace{o.m1, o.m2} {
		outer := netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)})
		testenv.Must(t, m.AddAddr("wire", netip.PrefixFrom(outer, 24)))
		testenv.Must(t, m.AddVXLAN(netcfg.VXLAN{Name: "vx", MAC: []byte{2, 0, 0, 0, 1, byte(i)}, MTU: 1450, VNI: 7, Port: 4789, Local: outer, Device: "wire"}))
		testenv.Must(t, m.AddBridge("cni0", []byte{2, 0, 0, 0, 2, byte(i)}, 1450))
		pod := []*netcfg.Namespace{o.p1, o.p2}[i]
		testenv.Must(t, netcfg.AddVeth(netcfg.VethEnd{In: m, Name: "pod"}, netcfg.VethEnd{In: pod, Name: "eth0"}, 1450))
		testenv.Must(t, m.Enslave("vx", "cni0", false))
		testenv.Must(t, m.Enslave("pod", "cni0", false))
	}
	return o
}

func (o overlay) all() []*netcfg.Namespace { return []*netcfg.Namespace{o.m1, o.m2, o.p1, o.p2} }

// examine looks at the lab alone: what is of the machine as a whole is of
// whoever else uses it.
func (o overlay) examine(t *testing.T, more doctor.Options) []doctor.Finding {
	t.Helper()
	if more.Netns == nil {
		for _, n := range o.all() {
			more.Netns = append(more.Netns, n.Path())
		}
	}
	r, err := doctor.Examine(t.Context(), more)
	testenv.Must(t, err)
	return slices.DeleteFunc(r.Findings, func(f doctor.Finding) bool { return f.Netns == "" })
}

func TestHealthyLab(t *testing.T) {
	o := raise(t)
	for _, f := range o.examine(t, doctor.Options{Interval: 10 * time.Millisecond}) {
		if f.Severity != doctor.Note {
			t.Errorf("a lab that is well: %+v", f)
		}
	}
}

// longChain is a chain of n rules of which none fits, behind others.
func longChain(n int, before ...netcfg.Rule) netcfg.Table {
	c := netcfg.Chain{Name: "long", Hook: netcfg.FilterForward, Rules: before}
	for i := range n {
		c.Rules = append(c.Rules, netcfg.Rule{netcfg.Src(netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 51, byte(i >> 8), byte(i)}), 32)), netcfg.Drop()})
	}
	return netcfg.Table{Name: "planted", Chains: []netcfg.Chain{c}}
}

// Each fault is planted in a lab of its own, and named at its place; nothing
// else above a note is.
func TestPlantedFaults(t *testing.T) {
	off := func(features ...string) map[string]bool {
		want := map[string]bool{}
		for _, f := range features {
			want[f] = false
		}
		return want
	}
	for name, c := range map[string]struct {
		plant func(o overlay) error
		want  []string // code, namespace, device
	}{
		"checksum offload off on the tunnel": {func(o overlay) error { return o.m1.Features("vx", off("tx-checksum-ip-generic")) }, []string{"tunnel-checksum-off m1 vx"}},
		"checksum offload off in a pod":      {func(o overlay) error { return o.p2.Features("eth0", off("tx-checksum-ip-generic")) }, []string{"virtual-checksum-off p2 eth0"}},
		"GRO off on the tunnel":              {func(o overlay) error { return o.m2.Features("vx", off("rx-gro")) }, []string{"gro-off m2 vx"}},
		"segmentation off in a pod": {func(o overlay) error {
			return o.p1.Features("eth0", off("tx-tcp-segmentation", "tx-generic-segmentation"))
		}, []string{"segmentation-off p1 eth0"}},
		"tunnel segmentation off on the wire": {func(o overlay) error {
			return o.m1.Features("wire", off("tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation"))
		}, []string{"tunnel-segmentation-off m1 wire"}},
		"bbr in a pod": {func(o overlay) error {
			return o.p1.Sysctl(netcfg.Sysctl{Name: "net.ipv4.tcp_congestion_control", Value: "bbr"})
		}, []string{"bbr-without-fq p1 "}},
		"all of RPS on one CPU":     {func(o overlay) error { return o.m2.SteerReceive("wire", []int{0}) }, []string{"rps-one-cpu m2 wire"}},
		"a larger MTU in a pod":     {func(o overlay) error { return o.p1.SetMTU("eth0", 1500) }, []string{"mtu-pair p1 eth0"}},
		"a larger MTU of both ends": {func(o overlay) error { return anyError(o.p1.SetMTU("eth0", 1500), o.m1.SetMTU("pod", 1500)) }, []string{"mtu-bridge m1 pod"}},
		"a smaller MTU of the wire": {func(o overlay) error { return anyError(o.m1.SetMTU("wire", 1480), o.m2.SetMTU("wire", 1480)) }, []string{"mtu-tunnel m1 vx", "mtu-tunnel m2 vx"}},
		"2,000 rules":               {func(o overlay) error { return o.m1.AddTables(longChain(2000)) }, []string{"filter-long-chain m1 ", "bridge-nf-long-chain m1 "}},
		"2,000 rules behind one that accepts known connections": {func(o overlay) error {
			return o.m1.AddTables(longChain(2000, netcfg.Rule{netcfg.InState(netcfg.Established | netcfg.Related), netcfg.Accept()}))
		}, nil},
		"2,000 rules behind one for new connections": {func(o overlay) error {
			return o.m1.AddTables(longChain(2000, netcfg.Rule{netcfg.NotInState(netcfg.Established), netcfg.Drop()}))
		}, []string{"filter-long-chain m1 ", "bridge-nf-long-chain m1 "}},
	} {
		t.Run(name, func(t *testing.T) {
			o := raise(t)
			if strings.Contains(name, "bbr") && !allowedIn(t, o.p1, "bbr") {
				t.Skip("namespaces may not use bbr on this kernel")
			}
			testenv.Must(t, c.plant(o))
			var got []string
			for _, f := range o.examine(t, doctor.Options{}) {
				if f.Severity != doctor.Note {
					got = append(got, fmt.Sprintf("%s %s %s", f.Code, f.Netns[strings.LastIndex(f.Netns, ".")+1:], f.Device))
				}
			}
			got = slices.DeleteFunc(got, func(s string) bool { return strings.HasPrefix(s, "bridge-nf") && !bridgeFilter(t, o.m1) })
			want := slices.DeleteFunc(slices.Clone(c.want), func(s string) bool { return strings.HasPrefix(s, "bridge-nf") && !bridgeFilter(t, o.m1) })
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("found %q, want %q", got, want)
			}
		})
	}
}

func anyError(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

func allowedIn(t *testing.T, n *netcfg.Namespace, cc string) (ok bool) {
	testenv.InNetns(t, n.Path(), func() error {
		text, err := host.Reader{}.Sysctl("net.ipv4.tcp_allowed_congestion_control")
		ok = slices.Contains(strings.Fields(text), cc)
		return err
	})
	return ok
}

// bridgeFilter tells whether the kernel lets a bridge's packets through iptables.
func bridgeFilter(t *testing.T, n *netcfg.Namespace) (on bool) {
	testenv.InNetns(t, n.Path(), func() error {
		value, _ := host.Reader{}.Sysctl("net.bridge.bridge-nf-call-iptables")
		on = value == "1"
		return nil
	})
	return on
}

// With a device named, only what is of that device is told, and the peer's way.
func TestScope(t *testing.T) {
	o := raise(t)
	testenv.Must(t, o.m1.Features("vx", map[string]bool{"rx-gro": false}))
	testenv.Must(t, o.p1.SetMTU("eth0", 1500))
	for _, c := range []struct {
		options doctor.Options
		want    []string
	}{
		{doctor.Options{Netns: []string{o.m1.Path()}}, []string{"gro-off"}},
		{doctor.Options{Netns: []string{o.p1.Path()}}, []string{"mtu-pair"}},
		{doctor.Options{Netns: []string{o.p1.Path(), o.m1.Path()}, Devices: []string{"vx"}}, []string{"gro-off"}},
		{doctor.Options{Netns: []string{o.p2.Path()}}, nil},
	} {
		var got []string
		for _, f := range o.examine(t, c.options) {
			if f.Severity != doctor.Note {
				got = append(got, f.Code)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: found %q, want %q", c.options, got, c.want)
		}
	}
	for _, wrong := range []doctor.Options{
		{Devices: []string{"no-such-device"}},
		{Netns: []string{o.p2.Path()}, Devices: []string{"vx"}},
		{Netns: []string{"/no/such/file"}},
	} {
		if _, err := doctor.Examine(t.Context(), wrong); err == nil {
			t.Errorf("%+v: nothing was refused", wrong)
		}
	}
}

// A route that carries less than its device is told of when the peer is named.
func TestPeer(t *testing.T) {
	o := raise(t)
	_, err := o.m1.Run(t.Context(), netcfg.Command{Args: []string{"ip", "route", "add", "198.51.100.0/24", "via", "192.0.2.2", "mtu", "1400"}, Env: os.Environ()}, "")
	testenv.Must(t, err)
	for peer, want := range map[string]bool{"198.51.100.7": true, "192.0.2.2": false} {
		found := o.examine(t, doctor.Options{Netns: []string{o.m1.Path()}, Peers: []netip.Addr{netip.MustParseAddr(peer)}})
		if got := slices.ContainsFunc(found, func(f doctor.Finding) bool { return f.Code == "mtu-peer" }); got != want {
			t.Errorf("way to %s: found a smaller MTU: %v, want %v", peer, got, want)
		}
	}
}

// Full packets that vanish on the path are told of; where they arrive, or nobody answers,
// nothing is.
func TestPathMTU(t *testing.T) {
	o := raise(t)
	vanish := func(peer string) bool {
		found := o.examine(t, doctor.Options{Netns: []string{o.m1.Path()}, Peers: []netip.Addr{netip.MustParseAddr(peer)}})
		return slices.ContainsFunc(found, func(f doctor.Finding) bool { return f.Code == "mtu-path" })
	}
	if vanish("192.0.2.2") {
		t.Error("a path that carries full packets is taken for one that does not")
	}
	testenv.Shell(t, o.m2.Path(), "ip link set dev wire mtu 1400")
	if !vanish("192.0.2.2") {
		t.Error("full packets vanish, and nobody is told")
	}
	if vanish("192.0.2.99") {
		t.Error("a peer that is not there is taken for one that full packets do not reach")
	}
}
