package fastpath_test

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/testenv"
)

// Pods and peers for whom there is no room go slow: they are no error.
func TestTablesFull(t *testing.T) {
	testenv.Root(t)
	fast, err := bpf.NewRouted(bpf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer fast.Close()
	mac := func(n int) net.HardwareAddr { return binary.BigEndian.AppendUint32([]byte{2, 0}, uint32(n)) }
	var w topology.Topology
	for _, device := range []int{7, int(fast.Pods.MaxEntries()) - 1, int(fast.Pods.MaxEntries()), 1 << 30} {
		addr := netip.AddrFrom4([4]byte{10, 0, 0, byte(len(w.Pods))})
		w.Pods = append(w.Pods, topology.LocalPod{Device: device, Addr: addr, MAC: mac(1), Gateway: mac(2)})
	}
	most := int(fast.Peers.MaxEntries())
	for n := range most + 3 {
		w.NextHops = append(w.NextHops, topology.NextHop{Device: 3, WireDevice: 3, MTU: 1500, MAC: mac(n), SrcMAC: mac(2), DstMAC: mac(n)})
	}
	pods, peers, err := fastpath.SyncTables(fast, w)
	if err != nil {
		t.Fatal(err)
	}
	if pods != 2 || peers != most {
		t.Errorf("known are %d pods and %d peers, want 2 and %d", pods, peers, most)
	}
}
