package bpf_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"runtime"
	"sync"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/testenv"
)

// The replies of a flow come from another peer than it goes to, and two cores learn of both at once. Its entry never
// says that it was seen to go to the peer of the replies.
func TestLearnsAtOnce(t *testing.T) {
	testenv.Root(t)
	const rounds, replying = 300_000, peerNumber + 1
	r := newRig(t, bpf.Routed, layers.IPProtocolUDP)
	r.put(t)
	r.putHop(t, bpf.Routed)
	mac := net.HardwareAddr{2, 0, 0, 0, 7, 7}
	replier := bpf.RoutedPeer(8, uint32(r.wire), 1500, r.wireMAC, mac)
	check(t, r.objs.PutPeer(replying, replier))
	check(t, r.objs.Hops.Put(bpf.NewHopKey(r.wire, mac), bpf.Hop{Peer: replying}))
	check(t, r.objs.Flows.Delete(r.key))
	in := r.received(bpf.Routed)
	in.eth.SrcMAC = mac
	for range 9 { // by which the peer of the replies is known
		r.run(t, r.objs.FromWire, r.wire, in.bytes(t))
	}
	to, from := r.flow, r.flow
	from.Peer, from.PeerEpoch = replying, replier.Epoch
	seen, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: 1})
	check(t, err)
	t.Cleanup(func() { seen.Close() })
	arrives := prefixed(t, stamped(t, r.objs.ToPod, r.epoch), countAndDelete(r, seen, r.objs.Proof(r.key, to, r.epoch), r.objs.Proof(r.key, from, r.epoch))...)
	leaves := stamped(t, r.objs.ToPeer, r.epoch)
	arrived := hopped(r.received(bpf.Routed), gatewayMAC, podMAC).bytes(t)
	forwarded := r.forwarded(bpf.Routed).bytes(t)

	var both sync.WaitGroup
	var failed [2]error
	for core, o := range []struct {
		program *ebpf.Program
		device  int
		packet  []byte
	}{{arrives, r.pod, arrived}, {leaves, r.wire, forwarded}} {
		both.Go(func() {
			testenv.InNetns(t, r.netns, func() error {
				var set unix.CPUSet
				set.Set(core % runtime.NumCPU())
				if failed[core] = unix.SchedSetaffinity(0, &set); failed[core] == nil {
					_, failed[core] = o.program.Run(&ebpf.RunOptions{Data: o.packet, Repeat: rounds, Context: skb{Ifindex: uint32(o.device)}})
				}
				return nil
			})
		})
	}
	both.Wait()
	for _, err := range failed {
		check(t, err)
	}
	var counts [16]byte
	check(t, seen.Lookup(uint32(0), &counts))
	sound, wrong := binary.NativeEndian.Uint64(counts[:]), binary.NativeEndian.Uint64(counts[8:])
	t.Logf("in %d rounds, the flow was seen to go to its peer %d times", rounds, sound)
	if wrong > 0 {
		t.Errorf("%d times, the entry says that the flow goes to the peer of its replies", wrong)
	}
}

// countAndDelete counts, in two words, whether the entry of a flow has the one proof that it was sent, or the other,
// and deletes it.
func countAndDelete(r *rig, seen *ebpf.Map, proofs ...uint32) asm.Instructions {
	const seenOut = 4 // offset in struct flow
	key := [2]uint64{uint64(r.key.TenantProto) | uint64(r.key.Local)<<32, uint64(r.key.Remote) | uint64(r.key.LocalPort)<<32 | uint64(r.key.RemotePort)<<48}
	with := func(table *ebpf.Map, key int32, do asm.BuiltinFunc) asm.Instructions { // at an offset on the stack
		return asm.Instructions{asm.LoadMapPtr(asm.R1, table.FD()), asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, key), do.Call()}
	}
	code := asm.Instructions{
		asm.LoadImm(asm.R1, int64(key[0]), asm.DWord), asm.StoreMem(asm.RFP, -16, asm.R1, asm.DWord),
		asm.LoadImm(asm.R1, int64(key[1]), asm.DWord), asm.StoreMem(asm.RFP, -8, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R1, 0), asm.StoreMem(asm.RFP, -24, asm.R1, asm.DWord),
	}
	code = append(code, with(seen, -24, asm.FnMapLookupElem)...)
	code = append(code, asm.JEq.Imm(asm.R0, 0, "delete"), asm.Mov.Reg(asm.R7, asm.R0))
	code = append(code, with(r.objs.Flows, -16, asm.FnMapLookupElem)...)
	code = append(code, asm.JEq.Imm(asm.R0, 0, "delete"), asm.LoadMem(asm.R8, asm.R0, seenOut, asm.Word))
	for i, proof := range proofs {
		after := fmt.Sprint("proof ", i)
		code = append(code, asm.LoadImm(asm.R1, int64(proof), asm.DWord), asm.JNE.Reg(asm.R8, asm.R1, after),
			asm.LoadMem(asm.R1, asm.R7, int16(8*i), asm.DWord), asm.Add.Imm(asm.R1, 1), asm.StoreMem(asm.R7, int16(8*i), asm.R1, asm.DWord),
			asm.Mov.Imm(asm.R1, 0).WithSymbol(after))
	}
	remove := with(r.objs.Flows, -16, asm.FnMapDeleteElem)
	remove[0] = remove[0].WithSymbol("delete")
	return append(append(code, remove...), asm.Mov.Reg(asm.R1, asm.R6))
}
