package bpf_test

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/gopacket/gopacket/layers"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/testenv"
)

// stamped gives a program that stamps a packet as one that set out in an epoch, and
// goes on as another one: the kernel's test does not let the stamp be said.
func stamped(t *testing.T, then *ebpf.Program, epoch uint32) *ebpf.Program {
	t.Helper()
	const (
		tcIndex = 44 // offset in struct __sk_buff
		mark    = 0x8000
	)
	return prefixed(t, then,
		asm.Mov.Imm(asm.R2, int32(mark|epoch)),
		asm.StoreMem(asm.R1, tcIndex, asm.R2, asm.Word), // before 6.3 no other store into it
	)
}

// prefixed gives a program that does something with a packet, and goes on as another one. R1 and R6 are the
// packet's.
func prefixed(t *testing.T, then *ebpf.Program, do ...asm.Instruction) *ebpf.Program {
	t.Helper()
	next, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.ProgramArray, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	check(t, err)
	t.Cleanup(func() { next.Close() })
	check(t, next.Put(uint32(0), then))
	code := append(asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)}, do...)
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: append(code,
		asm.LoadMapPtr(asm.R2, next.FD()),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnTailCall.Call(),
		asm.Mov.Imm(asm.R0, 2 /* TC_ACT_SHOT: it did not go on */),
		asm.Return(),
	)})
	check(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

// crossed is what the stamp of a packet has beside its epoch that has gone into a tunnel.
const crossed = 0x400

const forwardedPort = 0x9abc // outer source that the network gives a packet

// forwarded is a packet of the flow as the network sends it to the peer.
func (r *rig) forwarded(kind string) *packet {
	if kind == "routed" {
		return hopped(r.podPacket(), r.wireMAC, farMAC)
	}
	p := hopped(r.podPacket(), tunnelMAC, farTunnelMAC)
	p.encapsulated = true
	p.outerEth = layers.Ethernet{SrcMAC: r.wireMAC, DstMAC: farMAC, EthernetType: layers.EthernetTypeIPv4}
	p.outerIP = layers.IPv4{Version: 4, IHL: 5, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: localVTEP.AsSlice(), DstIP: remoteVTEP.AsSlice()}
	p.outerUDP = layers.UDP{SrcPort: forwardedPort, DstPort: port}
	p.encapsulateFor(kind)
	if kind == bpf.IPIP { // its TTL and DF are the pod's
		p.outerIP.TTL, p.outerIP.Flags = p.ip.TTL, p.ip.Flags
	}
	return p
}

// What would be carried if the table of flows had room for it is told apart from what
// is not known, from the first packet on that found none; soon after that, it is not
// said any more, and when there is room the flow is learned.
func TestTableFull(t *testing.T) {
	testenv.Root(t)
	onCore(t, 0)
	const learnAfter = 8
	r := newRig(t, "vxlan", layers.IPProtocolUDP)
	small, err := bpf.NewSmall(bpf.VXLAN, port, 1, "flows")
	check(t, err)
	t.Cleanup(small.Close)
	r.objs = small
	other, key := r.key, r.key
	other.LocalPort++
	r.key = other // which takes all the room
	r.put(t)
	check(t, small.Tenant.Set(uint32(vni)))
	r.putHop(t, bpf.VXLAN)

	out := func(counted bpf.Count) {
		t.Helper()
		r.way(t, "out", "vxlan", counted)
	}
	learn := func() {
		t.Helper()
		inner := r.forwarded("vxlan")
		inner.encapsulated = false
		r.run(t, stamped(t, r.objs.ToTunnel, r.epoch), r.wire, inner.bytes(t))
		if verdict, _ := r.run(t, stamped(t, r.objs.ToPeer, crossed|r.epoch), r.wire, r.forwarded("vxlan").bytes(t)); verdict != next {
			t.Fatalf("verdict %d", int32(verdict))
		}
	}
	for range learnAfter {
		out(bpf.SlowUnknown)
	}
	learn()
	out(bpf.SlowFull)
	r.way(t, "in", "vxlan", bpf.SlowFull)
	check(t, r.objs.Tick.Set(uint32(4)))
	out(bpf.SlowUnknown)
	learn()
	out(bpf.SlowFull)
	check(t, r.objs.Flows.Delete(other))
	learn()
	out(bpf.Counts)
	r.way(t, "in", "vxlan", bpf.SlowUnproven) // it was seen one way
	var f bpf.Flow
	if err := r.objs.LookupFlow(key, &f); err != nil || f.SeenOut != r.epoch {
		t.Errorf("%v, the flow is %+v", err, f)
	}
	if f.Port != wirePort(forwardedPort) {
		t.Errorf("its packets will leave the machine from another port than before: % x", swapped(f.Port))
	}
}
