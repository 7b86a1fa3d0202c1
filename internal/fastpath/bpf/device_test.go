package bpf_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/gopacket/gopacket/layers"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/testenv"
)

// tunnelKinds are the kinds of fast path with headers around packets.
var tunnelKinds = []string{bpf.VXLAN, bpf.Geneve, bpf.IPIP}

// leftToDevice is a program at a tunnel's device for a packet with a stamp (0: none) that the device hands
// to this host. In the kernel's test a packet without MACs would be one for another.
func leftToDevice(t *testing.T, then *ebpf.Program, stamp uint32) *ebpf.Program {
	t.Helper()
	if stamp != 0 {
		then = stamped(t, then, stamp)
	}
	return prefixed(t, then,
		asm.Mov.Imm(asm.R2, 0 /* PACKET_HOST */),
		asm.FnSkbChangeType.Call(),
		asm.Mov.Reg(asm.R1, asm.R6),
	)
}

// handedOn is a packet of the flow as the tunnel's device hands it on.
func (r *rig) handedOn(t *testing.T, kind string) []byte {
	t.Helper()
	p := r.received(kind)
	p.encapsulated = false
	return inFrontOf(kind, p.bytes(t))
}

// Datagrams that are to be cut are left to the tunnel's device, uncounted. So are others of their flow until
// there were none for a while, which would overtake them, but not those of another flow, nor TCP.
func TestLeavesToDevice(t *testing.T) {
	testenv.Root(t)
	const udp, tcp = layers.IPProtocolUDP, layers.IPProtocolTCP
	for _, kind := range tunnelKinds {
		for _, protocol := range []layers.IPProtocol{udp, tcp} {
			t.Run(fmt.Sprint(kind, ", ", protocol), func(t *testing.T) {
				onCore(t, 0)
				r := newRig(t, kind, protocol)
				r.objs = pool.get(t, "stamping "+kind, func() (*bpf.Objects, error) { return bpf.NewStamping(kind, port) })
				r.epoch = 5
				r.flow.Epoch, r.flow.SeenOut, r.flow.SeenIn = 5, 5, 5
				r.put(t)
				other := r.key
				other.LocalPort++
				check(t, r.objs.PutFlow(other, r.flow))
				beside := r.key
				for beside.LocalPort += 2; bpf.Slot(beside) != bpf.Slot(r.key); beside.LocalPort++ {
					if beside.LocalPort == r.key.LocalPort {
						t.Fatal("no other flow is in the slot")
					}
				}
				check(t, r.objs.PutFlow(beside, r.flow))
				step := func(tick uint32, what string, want uint32) {
					t.Helper()
					check(t, r.objs.Tick.Set(tick))
					p, before := r.received(kind), r.counted(t)[bpf.CarriedIn]
					switch what {
					case "another flow":
						p.udp.DstPort = layers.UDPPort(wirePort(other.LocalPort))
					case "a flow of the same slot":
						p.udp.DstPort = layers.UDPPort(wirePort(beside.LocalPort))
					}
					var stamp uint32
					if what == "segments" {
						p.payload = make([]byte, 3000)
						stamp = r.segments(t, r.objs.FromWire, r.wire, p.bytes(t), 1000, 3)
					} else {
						stamp, _ = r.run(t, r.objs.FromWire, r.wire, p.bytes(t))
					}
					carried := r.counted(t)[bpf.CarriedIn] - before
					if stamp != want || carried == 1 != (want == 0) {
						t.Errorf("tick %d, %s: stamp %#x, want %#x; carried %d", tick, what, stamp, want, carried)
					}
				}
				if protocol == tcp {
					step(1, "a packet", 0)
					return
				}
				left := stampOn(r.epoch) | crossed
				for begin := range uint32(2) { // ticks wrap
					begin = 1 + 0xff*begin
					step(begin, "a packet", 0)
					step(begin, "segments", left)
					step(begin, "a packet", left)
					step(begin, "another flow", 0)
					step(begin, "a flow of the same slot", left)
					step(begin, "a packet", left)
					step(begin+1, "a packet", left)
					step(begin+1, "segments", left)
					step(begin+2, "a packet", left)
					step(begin+3, "a packet", 0)
					step(begin+0x81, "a packet", 0)
				}
			})
		}
	}
}

// What from_wire has left to the tunnel's device is carried from there, whole or not.
func TestCarriesFromDevice(t *testing.T) {
	testenv.Root(t)
	for _, kind := range tunnelKinds {
		r := newRig(t, kind, layers.IPProtocolUDP)
		r.put(t)
		program := leftToDevice(t, r.objs.FromTunnel, crossed|r.epoch)
		verdict, out := r.run(t, program, r.wire, r.handedOn(t, kind))
		if want := hopped(r.received(kind), gatewayMAC, podMAC).bytes(t); verdict != redirect || !bytes.Equal(out, want) {
			t.Errorf("%s: verdict %d, counted %v, in comes\n% x, want\n% x", kind, int32(verdict), r.counted(t), out, want)
		}
		p := r.received(kind)
		p.encapsulated, p.payload = false, make([]byte, 3000)
		verdict = r.segments(t, program, r.wire, inFrontOf(kind, p.bytes(t)), 1000, 3)
		if got := r.counted(t); verdict != redirect || len(got) != 1 || got[bpf.CarriedIn] != 2 {
			t.Errorf("%s, segments: verdict %d, counted %v", kind, int32(verdict), got)
		}
	}
}

// At the tunnel's device all is asked again: a packet goes on as it came if anything is another than it was
// at the wire. One that was not left to it is not counted, and keeps its stamp.
func TestGoesSlowAtDevice(t *testing.T) {
	testenv.Root(t)
	const none = bpf.Counts
	for _, kind := range tunnelKinds {
		for _, c := range []struct {
			name    string
			stamp   uint32
			change  func(r *rig, p *packet)
			counted bpf.Count
		}{
			{"not left to it", 0, nil, none},
			{"to be learned from", 1, nil, none},
			{"another fast path's", crossed | 1<<11 | 1, nil, none},
			{"rules changed", crossed | 2, nil, bpf.SlowStale},
			{"rules changed, and the flow was learned again", crossed | 1, func(r *rig, _ *packet) { r.epoch, r.flow.Epoch, r.flow.SeenIn = 2, 2, 2 }, bpf.SlowStale},
			{"no daemon", crossed | 1, func(r *rig, _ *packet) { r.deadline = 1 }, bpf.SlowNoDaemon},
			{"other port", crossed | 1, func(_ *rig, p *packet) { p.udp.DstPort++ }, bpf.SlowUnknown},
			{"pod changed", crossed | 1, func(r *rig, _ *packet) { r.podEntry.Epoch++ }, bpf.SlowStale},
			{"peer changed", crossed | 1, func(r *rig, _ *packet) { r.peer.Epoch++ }, bpf.SlowStale},
			{"pod with another MAC", crossed | 1, func(r *rig, _ *packet) { r.podEntry.MacEpoch = 0 }, bpf.SlowUnproven},
			{"TTL ends", crossed | 1, func(_ *rig, p *packet) { p.ip.TTL = 1 }, bpf.SlowTTL},
			{"fragment", crossed | 1, func(_ *rig, p *packet) { p.ip.Flags = layers.IPv4MoreFragments }, bpf.SlowFragment},
			{"too large", crossed | 1, func(r *rig, _ *packet) { r.podEntry.Size = 50 }, bpf.SlowSize},
			{"from another tunnel device", crossed | 1, func(_ *rig, p *packet) { p.eth.SrcMAC = gatewayMAC }, bpf.SlowSource},
			{"from our own", crossed | 1, func(_ *rig, p *packet) { p.eth.SrcMAC, p.eth.DstMAC = tunnelMAC, farTunnelMAC }, bpf.SlowSource},
		} {
			if kind == bpf.IPIP && c.counted == bpf.SlowSource {
				continue // there are no MACs
			}
			t.Run(kind+", "+c.name, func(t *testing.T) {
				r := newRig(t, kind, layers.IPProtocolUDP)
				p := r.received(kind)
				if c.change != nil {
					c.change(r, p)
				}
				r.put(t)
				p.encapsulated = false
				packet := inFrontOf(kind, p.bytes(t))
				verdict, out := r.run(t, leftToDevice(t, r.objs.FromTunnel, c.stamp), r.wire, packet)
				want := map[bpf.Count]uint64{}
				if c.counted != none {
					want[bpf.PerDirection+c.counted] = 1
				}
				if got := r.counted(t); verdict != next || !bytes.Equal(out, packet) || fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("verdict %d, counted %v, want %v; it leaves as\n% x, came as\n% x", int32(verdict), got, want, out, packet)
				}
			})
		}
		t.Run(kind+", marked, or for another host", func(t *testing.T) {
			r := newRig(t, kind, layers.IPProtocolUDP)
			r.put(t)
			marked := struct {
				_       [2]uint32
				Mark    uint32
				_       [7]uint32
				Ifindex uint32
				_       [37]uint32
			}{Mark: 7, Ifindex: uint32(r.wire)}
			packet := r.handedOn(t, kind)
			for program, context := range map[*ebpf.Program]any{
				leftToDevice(t, r.objs.FromTunnel, crossed|r.epoch): marked,
				stamped(t, r.objs.FromTunnel, crossed|r.epoch):      skb{Ifindex: uint32(r.wire)},
			} {
				testenv.InNetns(t, r.netns, func() error {
					verdict, err := program.Run(&ebpf.RunOptions{Data: packet, DataOut: make([]byte, len(packet)+256), Context: context})
					if verdict != next {
						t.Errorf("verdict %d", int32(verdict))
					}
					return err
				})
			}
			got := r.counted(t)
			if len(got) != 2 || got[bpf.PerDirection+bpf.SlowEncapsulated] != 1 || got[bpf.PerDirection+bpf.SlowNotIPv4] != 1 {
				t.Errorf("counted %v", got)
			}
		})
	}
}

// A stamp that somebody has forged does nothing for TCP, which from_wire never leaves to the device: it is not
// carried, and ends no flow.
func TestLeavesTCPAtDevice(t *testing.T) {
	testenv.Root(t)
	for _, kind := range tunnelKinds {
		for _, reset := range []bool{false, true} {
			r := newRig(t, kind, layers.IPProtocolTCP)
			r.put(t)
			p := r.received(kind)
			p.encapsulated, p.tcp.RST = false, reset
			packet := inFrontOf(kind, p.bytes(t))
			verdict, out := r.run(t, leftToDevice(t, r.objs.FromTunnel, crossed|r.epoch), r.wire, packet)
			if got := r.counted(t); verdict != next || !bytes.Equal(out, packet) || len(got) != 1 || got[bpf.PerDirection+bpf.SlowSource] != 1 {
				t.Errorf("%s, RST %v: verdict %d, counted %v", kind, reset, int32(verdict), got)
			}
			var f bpf.Flow
			if check(t, r.objs.LookupFlow(r.key, &f)); f.Epoch != r.epoch {
				t.Errorf("%s, RST %v: the flow has ended: %+v", kind, reset, f)
			}
		}
	}
}
