package fastpath_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/testenv"
)

// Pods and peers for whom there is no room are refused, each with the reason, and there is room for all others. Which
// peers these are does not depend on the order in which the kernel lists them.
func TestRefusesBeyondTables(t *testing.T) {
	testenv.Root(t)
	fast, err := bpf.New(bpf.Routed, bpf.Options{}, 0)
	must(t, err)
	defer fast.Close()
	const more = 3
	mac := func(n int) net.HardwareAddr { return binary.BigEndian.AppendUint32([]byte{2, 0}, uint32(n)) }
	all := topology.Topology{TC: map[int]topology.TCState{3: {Name: "wire"}}}
	for _, device := range []int{7, bpf.MaxPods - 1, bpf.MaxPods, 1 << 30} {
		addr := netip.AddrFrom4([4]byte{10, 0, 0, byte(len(all.Pods))})
		all.Pods = append(all.Pods, topology.LocalPod{Device: device, Addr: addr, MAC: mac(1), Gateway: mac(2)})
		all.TC[device] = topology.TCState{Name: fmt.Sprint("pod", device)}
	}
	for n := range bpf.MaxPeers + more {
		all.NextHops = append(all.NextHops, topology.NextHop{Device: 3, WireDevice: 3, MTU: 1500, MAC: mac(n), SrcMAC: mac(2), DstMAC: mac(n)})
	}
	all.NextHops = append(all.NextHops, all.NextHops[0]) // two with one key need room for one
	for range 2 {
		slices.Reverse(all.NextHops)
		topo := all
		topo.Pods, topo.NextHops = slices.Clone(all.Pods), slices.Clone(all.NextHops)
		fastpath.RefuseBeyond(&topo)
		pods, peers, err := fastpath.SyncTables(fast, topo)
		must(t, err)
		if pods != 2 || peers != bpf.MaxPeers || len(topo.Pods) != 2 {
			t.Errorf("known are %d of %d pods and %d peers, want 2 of 2 and %d", pods, len(topo.Pods), peers, bpf.MaxPeers)
		}
		if slices.ContainsFunc(topo.NextHops, func(p topology.NextHop) bool { return bytes.Compare(p.MAC, mac(bpf.MaxPeers)) >= 0 }) {
			t.Error("other peers are known than the first ones")
		}
		want := []topology.Refusal{
			{Device: "pod1073741824", Reason: "has the number 1073741824 (ifindex), and the tables end at 65535"},
			{Device: "pod65536", Reason: "has the number 65536 (ifindex), and the tables end at 65535"},
		}
		for range more {
			want = append(want, topology.Refusal{Device: "wire", Reason: "leads to peers for which the tables have no room: they hold 4096, and there are 4099"})
		}
		slices.SortFunc(topo.Refusals, func(a, b topology.Refusal) int { return cmp.Compare(a.Device, b.Device) })
		if !slices.Equal(topo.Refusals, want) {
			t.Errorf("refused are %v, want %v", topo.Refusals, want)
		}
	}
}

// New peers, which are written together, are in the tables like those that have changed or have the
// number of another that is gone; of two with one key, the last.
func TestPeersInTables(t *testing.T) {
	testenv.Root(t)
	fast, err := bpf.New(bpf.Routed, bpf.Options{}, 0)
	must(t, err)
	defer fast.Close()
	peer := func(n byte, mtu int) topology.NextHop {
		mac := net.HardwareAddr{2, 0, 0, 0, 0, n}
		return topology.NextHop{Device: 3, WireDevice: 3, MTU: mtu, MAC: mac, SrcMAC: net.HardwareAddr{2, 0, 0, 0, 1, 0}, DstMAC: mac}
	}
	tables := fastpath.NewTables(fast)
	for _, step := range []struct {
		name string
		hops []topology.NextHop
		gone []topology.NextHop
	}{
		{name: "new", hops: []topology.NextHop{peer(1, 1500), peer(2, 1500), peer(3, 1500)}},
		{name: "one of two is gone", hops: []topology.NextHop{peer(1, 1500), peer(3, 1500)}, gone: []topology.NextHop{peer(2, 1500)}},
		{name: "one has changed, one has an old number, one is new", hops: []topology.NextHop{peer(1, 1400), peer(3, 1500), peer(4, 1300), peer(5, 1200)}},
		{name: "two with one key", hops: []topology.NextHop{peer(6, 1500), peer(7, 1500), peer(6, 1400)}, gone: []topology.NextHop{peer(1, 1400)}},
	} {
		must(t, tables.Sync(topology.Topology{NextHops: step.hops}))
		want, numbers := map[string]int{}, map[uint32]string{}
		for _, next := range step.hops {
			want[next.MAC.String()] = next.MTU
		}
		for _, next := range step.hops {
			hop, got, err := tables.Hop(next)
			must(t, err)
			if got.Epoch == 0 || int(got.Size) != want[next.MAC.String()] {
				t.Errorf("%s: %v has epoch %d and size %d, want %d", step.name, next.MAC, got.Epoch, got.Size, want[next.MAC.String()])
			}
			if other := numbers[hop.Peer]; other != "" && other != next.MAC.String() {
				t.Errorf("%s: %v and %s have one number", step.name, next.MAC, other)
			}
			numbers[hop.Peer] = next.MAC.String()
		}
		for _, next := range step.gone {
			if _, _, err := tables.Hop(next); !errors.Is(err, ebpf.ErrKeyNotExist) {
				t.Errorf("%s: %v is still there, error %v", step.name, next.MAC, err)
			}
		}
	}
}
