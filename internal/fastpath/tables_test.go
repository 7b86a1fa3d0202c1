package fastpath_test

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/testenv"
)

// Pods and peers for whom there is no room go slow: they are no error.
func TestTablesFull(t *testing.T) {
	testenv.Root(t)
	fast, err := bpf.New(bpf.Routed, bpf.Options{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer fast.Close()
	mac := func(n int) net.HardwareAddr { return binary.BigEndian.AppendUint32([]byte{2, 0}, uint32(n)) }
	var topo topology.Topology
	for _, device := range []int{7, int(fast.Pods.MaxEntries()) - 1, int(fast.Pods.MaxEntries()), 1 << 30} {
		addr := netip.AddrFrom4([4]byte{10, 0, 0, byte(len(topo.Pods))})
		topo.Pods = append(topo.Pods, topology.LocalPod{Device: device, Addr: addr, MAC: mac(1), Gateway: mac(2)})
	}
	most := int(fast.Peers.MaxEntries())
	for n := range most + 3 {
		topo.NextHops = append(topo.NextHops, topology.NextHop{Device: 3, WireDevice: 3, MTU: 1500, MAC: mac(n), SrcMAC: mac(2), DstMAC: mac(n)})
	}
	pods, peers, err := fastpath.SyncTables(fast, topo)
	if err != nil {
		t.Fatal(err)
	}
	if pods != 2 || peers != most {
		t.Errorf("known are %d pods and %d peers, want 2 and %d", pods, peers, most)
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
