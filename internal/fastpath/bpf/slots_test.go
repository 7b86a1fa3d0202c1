package bpf_test

import (
	"bytes"
	"net/netip"
	"runtime"
	"testing"

	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/testenv"
)

// onCore has the rest of the test run on one core: what a core knows of a flow, it
// has from the packets that it saw itself.
func onCore(t *testing.T, n int) {
	t.Helper()
	runtime.LockOSThread() // the thread is not used again
	var set unix.CPUSet
	set.Set(n)
	check(t, unix.SchedSetaffinity(0, &set))
}

// What a core has copied of a flow ends with whatever it was copied from.
func TestKnownEnds(t *testing.T) {
	testenv.Root(t)
	for _, c := range []struct {
		name    string
		change  func(t *testing.T, r *rig)
		counted bpf.Count
	}{
		{"nothing", func(*testing.T, *rig) {}, bpf.Counts},
		{"rules", func(t *testing.T, r *rig) { check(t, r.objs.Epoch.Set(r.epoch+1)) }, bpf.SlowStale},
		{"pod", func(t *testing.T, r *rig) {
			r.podEntry.Epoch++
			check(t, r.objs.PutPod(uint32(r.pod), r.podEntry))
		}, bpf.SlowStale},
		{"peer", func(t *testing.T, r *rig) {
			r.peer.Epoch++
			check(t, r.objs.PutPeer(peerNumber, r.peer))
		}, bpf.SlowStale},
		{"daemon", func(t *testing.T, r *rig) { check(t, r.objs.Deadline.Set(uint64(1))) }, bpf.SlowNoDaemon},
		{"flow deleted", func(t *testing.T, r *rig) {
			check(t, r.objs.Flows.Delete(r.key))
			check(t, r.objs.InvalidateSlots(r.key))
		}, bpf.SlowUnknown},
		{"flow deleted, and a second gone by", func(t *testing.T, r *rig) {
			check(t, r.objs.Flows.Delete(r.key))
			check(t, r.objs.Tick.Set(uint32(2)))
		}, bpf.SlowUnknown},
		{"flow deleted, and another in its place", func(t *testing.T, r *rig) {
			check(t, r.objs.Flows.Delete(r.key))
			check(t, r.objs.InvalidateSlots(r.key))
			r.flow.Epoch = 0
			check(t, r.objs.PutFlow(r.key, r.flow))
		}, bpf.SlowUnproven},
		{"connection ended on another core", func(t *testing.T, r *rig) {
			if runtime.NumCPU() < 2 {
				t.Skip("there is no other core")
			}
			fin := r.podPacket()
			fin.tcp.FIN = true
			onCore(t, 1)
			r.run(t, r.objs.FromPod, r.pod, fin.bytes(t))
			onCore(t, 0)
		}, bpf.SlowUnknown},
	} {
		for _, kind := range kinds {
			t.Run(kind+", "+c.name, func(t *testing.T) {
				onCore(t, 0)
				r := newRig(t, kind, layers.IPProtocolTCP)
				r.put(t)
				r.sendEachWay(t, kind, bpf.Counts)
				c.change(t, r)
				r.sendEachWay(t, kind, c.counted)
			})
		}
	}
}

// sendEachWay sends a packet each way, and wants it carried, or slow for a reason.
func (r *rig) sendEachWay(t *testing.T, kind string, slow bpf.Count) {
	t.Helper()
	r.way(t, "out", kind, slow)
	r.way(t, "in", kind, slow)
}

func (r *rig) way(t *testing.T, way, kind string, slow bpf.Count) {
	t.Helper()
	packet, program, device, carried := r.podPacket(), r.objs.FromPod, r.pod, bpf.CarriedOut
	if way == "in" {
		packet, program, device, carried = r.received(kind), r.objs.FromWire, r.wire, bpf.CarriedIn
	}
	before := r.counted(t)
	verdict, _ := r.run(t, program, device, packet.bytes(t))
	after := r.counted(t)
	if slow == bpf.Counts {
		if verdict != redirect || after[carried] != before[carried]+1 {
			t.Fatalf("%s: verdict %d, counted %v, before %v", way, int32(verdict), after, before)
		}
		return
	}
	if way == "in" {
		slow += bpf.PerDirection
	}
	if verdict != next || after[slow] != before[slow]+1 {
		t.Errorf("%s: verdict %d, counted %v, before %v; want one that is %s", way, int32(verdict), after, before, slow)
	}
}

// A flow that is carried is noted as used, once in a second.
func TestKnownIsUsed(t *testing.T) {
	testenv.Root(t)
	onCore(t, 0)
	r := newRig(t, "vxlan", layers.IPProtocolUDP)
	r.put(t)
	for _, now := range []uint32{2, 3} {
		check(t, r.objs.Tick.Set(now))
		r.sendEachWay(t, "vxlan", bpf.Counts)
		var f bpf.Flow
		check(t, r.objs.LookupFlow(r.key, &f))
		if f.Used != now {
			t.Errorf("used in tick %d, want %d", f.Used, now)
		}
	}
}

// Flows that a core keeps in the same place are not taken for each other, nor is a
// flow for that of another pod or tenant with the same addresses.
func TestKnownApart(t *testing.T) {
	testenv.Root(t)
	onCore(t, 0)
	r := newRig(t, "vxlan", layers.IPProtocolUDP)
	r.put(t)
	other, port := r.key, uint16(4000)
	for bpf.Slot(other) != bpf.Slot(r.key) || port == 4000 {
		port++
		other = bpf.NewFlowKey(vni, 17, netip.AddrPortFrom(podAddr, port), netip.AddrPortFrom(remoteAddr, 5000))
	}
	second := r.flow
	second.Port++
	check(t, r.objs.PutFlow(other, second))
	const outerPort = 14 + 20 // offset of the source port
	for range 2 {
		for from, want := range map[uint16]uint16{4000: r.flow.Port, port: second.Port} {
			p := r.podPacket()
			p.udp.SrcPort = layers.UDPPort(from)
			verdict, out := r.run(t, r.objs.FromPod, r.pod, p.bytes(t))
			if verdict != redirect {
				t.Fatalf("verdict %d, counted %v", int32(verdict), r.counted(t))
			}
			if got := swapped(want); !bytes.Equal(out[outerPort:outerPort+2], got) {
				t.Errorf("from port %d: outer source % x, want % x", from, out[outerPort:outerPort+2], got)
			}
		}
	}
	r.sendEachWay(t, "vxlan", bpf.Counts)
	if verdict, _ := r.run(t, r.objs.FromPod, r.wire, r.podPacket().bytes(t)); verdict != next {
		t.Errorf("another pod's packet: verdict %d", int32(verdict))
	}
	r.sendEachWay(t, "vxlan", bpf.Counts)
	p := r.received("vxlan")
	p.vxlan.VNI++
	if verdict, _ := r.run(t, r.objs.FromWire, r.wire, p.bytes(t)); verdict != next {
		t.Errorf("another tenant's packet: verdict %d", int32(verdict))
	}
}

// swapped are the bytes of a port as an entry has it.
func swapped(port uint16) []byte { return []byte{byte(port), byte(port >> 8)} }
