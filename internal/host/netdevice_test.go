package host_test

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

// Devices are read with what joins them, across namespaces.
func TestNetDevices(t *testing.T) {
	w, err := netcfg.Owned(testenv.Claim(t))
	testenv.Must(t, err)
	n, err := w.Create(w.Name("m1"))
	testenv.Must(t, err)
	defer n.Close()
	pod, err := w.Create(w.Name("p1"))
	testenv.Must(t, err)
	defer pod.Close()
	testenv.Must(t, netcfg.AddVeth(netcfg.VethEnd{In: n, Name: "cali0"}, netcfg.VethEnd{In: pod, Name: "eth0"}, 1400))
	testenv.Must(t, netcfg.AddVeth(netcfg.VethEnd{In: n, Name: "wire"}, netcfg.VethEnd{In: n, Name: "far"}, 1500))
	outer := netip.MustParseAddr("192.0.2.1")
	testenv.Must(t, n.AddAddr("wire", netip.PrefixFrom(outer, 24)))
	testenv.Must(t, n.AddVXLAN(netcfg.VXLAN{Name: "vx", MAC: []byte{2, 0, 0, 0, 0, 1}, MTU: 1450, VNI: 7, Port: 4789, Local: outer, Device: "wire"}))
	testenv.Must(t, n.AddBridge("cni0", []byte{2, 0, 0, 0, 0, 2}, 1400))
	testenv.Must(t, n.Enslave("cali0", "cni0", false))
	testenv.Must(t, n.Features("vx", map[string]bool{"tx-checksum-ip-generic": false}))
	testenv.Must(t, n.AddRoute(netcfg.Route{Dst: netip.MustParsePrefix("198.51.100.0/24"), Via: netip.MustParseAddr("192.0.2.9"), Device: "wire"}))
	testenv.InNetns(t, n.Path(), func() error {
		var list []host.NetDevice
		err := host.Sysfs(func(root string) (err error) {
			list, err = host.NetDevices(root)
			return err
		})
		if err != nil {
			return err
		}
		find := func(name string) host.NetDevice {
			i := slices.IndexFunc(list, func(d host.NetDevice) bool { return d.Name == name })
			if i < 0 {
				t.Fatalf("there is no %s in %+v", name, list)
			}
			return list[i]
		}
		cali, vx, wire, bridge := find("cali0"), find("vx"), find("wire"), find("cni0")
		if cali.Kind != "veth" || cali.MTU != 1400 || !cali.Up || cali.Master != bridge.Index || cali.Card || len(cali.RPS) == 0 || cali.Queues != len(cali.RPS) {
			t.Errorf("the pod's device is read as %+v", cali)
		}
		wanted := map[int]bool{cali.LowerNSID: true}
		if files := host.NetnsByNSID(wanted, []string{n.Path(), pod.Path()}); cali.LowerNSID < 0 || files[cali.LowerNSID] != pod.Path() {
			t.Errorf("the other end of the pod's device is in number %d, which is %v", cali.LowerNSID, files)
		}
		for but, want := range map[string]bool{"wire": true, "cali0": false} {
			if is, err := host.IsPaired(pod.Path(), but); is != want || err != nil {
				t.Errorf("a pair joins the pod's namespace, not counting %s: %v, %v", but, is, err)
			}
		}
		if is, err := host.IsPaired(n.Path(), ""); is || err != nil {
			t.Errorf("a pair of the namespace's own joins it to another: %v, %v", is, err)
		}
		if wire.LowerNSID != -1 || wire.Lower != find("far").Index || wire.Gateways != 1 || wire.Qdisc != "noqueue" {
			t.Errorf("the wire is read as %+v", wire)
		}
		if vx.Tunnel == nil || vx.Tunnel.Port != 4789 || vx.Tunnel.Device != wire.Index || vx.Tunnel.Local != outer || vx.Tunnel.Shared {
			t.Errorf("the tunnel is read as %+v", vx.Tunnel)
		}
		if csum, tso := vx.Features["tx-checksum-ip-generic"], vx.Features["tx-tcp-segmentation"]; csum.On || csum.Wanted || !csum.Settable || tso.On || !tso.Wanted {
			t.Errorf("offloads of the tunnel: %+v, and for want of it %+v", csum, tso)
		}
		return nil
	})
}

// A tunnel over IPv6 adds a longer header.
func TestTunnelOverhead(t *testing.T) {
	v4, v6 := net.ParseIP("192.0.2.1"), net.ParseIP("2001:db8::1")
	for want, links := range map[int][]netlink.Link{
		50: {&netlink.Vxlan{SrcAddr: v4}, &netlink.Vxlan{FlowBased: true}, &netlink.Geneve{Remote: v4}},
		70: {&netlink.Vxlan{SrcAddr: v6}, &netlink.Vxlan{Group: v6}, &netlink.Geneve{Remote: v6}},
		20: {&netlink.Iptun{Local: v4}},
		38: {&netlink.Gretap{Local: v4, Remote: v4}},
		44: {&netlink.Gretun{Local: v6, Remote: v6}},
	} {
		for _, l := range links {
			if got := host.TunnelOf(l).Overhead; got != want {
				t.Errorf("%s %+v adds %d bytes, want %d", l.Type(), l, got, want)
			}
		}
	}
}

func TestFind(t *testing.T) {
	n := testenv.Netns(t)
	id, err := host.ID(n.Path())
	testenv.Must(t, err)
	found, _, err := host.Reader{}.FindNetns()
	testenv.Must(t, err)
	if len(found) == 0 || found[0].Path != "" || found[0].Name != "" {
		t.Errorf("the first is not the process's own: %+v", found)
	}
	if !slices.Contains(found, host.Netns{ID: id, Path: n.Path(), Name: n.Name()}) {
		t.Errorf("%s is not among %+v", n.Name(), found)
	}
}
