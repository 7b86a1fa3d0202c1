package bpf_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/testenv"
)

// The same packets through the programs that learn: they leave all packets as they are, and write
// the entries that the reference says, and no others.
func TestFuzzLearn(t *testing.T) {
	testenv.Root(t)
	onCore(t, 0)
	seed, packets := testenv.Generated(t, fuzzEnv, fewFuzzed)
	t.Logf("%s=%d:%d", fuzzEnv, seed, packets)
	for _, kind := range kinds {
		for _, program := range []string{"to_tunnel", "to_peer", "to_pod"} {
			if kind == "routed" && program == "to_tunnel" {
				continue // it is attached nowhere
			}
			t.Run(kind+", "+program, func(t *testing.T) {
				f := newFuzzing(t, kind, seed)
				if n := f.learnAll(t, program, packets); n < packets/10 {
					t.Errorf("of %d packets, only %d taught anything: the grammar is no good", packets, n)
				}
			})
		}
	}
}

// scanEvery is how often the whole table is read, which takes milliseconds.
const scanEvery = 1000

// learnAll runs so many packets through a program, and gives how many have taught something.
func (f *fuzzing) learnAll(t *testing.T, name string, packets int) (learned int) {
	program, device, into, encapsulated, reference, stamp := f.objs.ToTunnel, f.wire, false, false, f.ref.toTunnel, f.epoch
	f.macs = append(bytes.Clone(farMAC), f.wireMAC...)
	before := map[bpf.FlowKey]bpf.Flow{}
	switch name {
	case "to_peer":
		program, reference, encapsulated = f.objs.ToPeer, f.ref.toPeer, f.kind != bpf.Routed
		if encapsulated {
			f.macs, stamp = nil, crossed|f.epoch
			before = f.enterFlows()
		}
	case "to_pod":
		program, device, into, reference = f.objs.ToPod, f.pod, true, f.ref.toPod
		f.macs = bytes.Clone(f.ref.pod)
	}
	f.write(t, nil)
	if name == "to_pod" {
		f.announce(t)
	}
	f.write(t, before)
	wrapped := stamped(t, program, stamp)
	testenv.InNetns(t, f.netns, func() error {
		onCore(t, 0)
		for i := range packets {
			packet := f.packet(into, encapsulated)
			if name == "to_tunnel" {
				packet = runnable(inFrontOf(f.kind, packet))
			}
			verdict, left, err := runOnce(wrapped, device, packet)
			if err != nil {
				return fmt.Errorf("packet %d: run % x: %w", i, packet, err)
			}
			h, learns := reference(packet)
			want := maps.Clone(before)
			if learns {
				learned++
				f.learn(want, name, h, packet)
			}
			keys := maps.Clone(want)
			keys[f.keyOf(h.protocol, h.ends)] = bpf.Flow{}
			is := f.lookUp(t, keys)
			if i%scanEvery == 0 || i == packets-1 {
				is = f.read(t)
			}
			if verdict != next || !bytes.Equal(left, packet) || !maps.Equal(is, want) {
				return fmt.Errorf("packet %d,\n% x\nthe verdict is %d, left is\n% x, entries are %+v, want %+v", i, packet, int32(verdict), left, is, want)
			}
			if learns {
				f.rewrite(t, want, before)
			}
		}
		return nil
	})
	return learned
}

// enterFlows are entries of flows that were never forwarded, as to_tunnel makes them. Of the first
// a reply was seen.
func (f *fuzzing) enterFlows() map[bpf.FlowKey]bpf.Flow {
	entries := map[bpf.FlowKey]bpf.Flow{}
	for i, of := range f.entries {
		for k, e := range of {
			if entries[k] = (bpf.Flow{Used: 1, Translated: e.Translated, Other: e.Other}); i == 0 {
				entries[k] = bpf.Flow{Used: 1, SeenIn: f.epoch, Pod: uint32(f.pod), PodEpoch: f.podEntry.Epoch, Peer: peerNumber, PeerEpoch: f.rig.peer.Epoch}
			}
		}
	}
	return entries
}

// learn writes what a packet teaches.
func (f *fuzzing) learn(entries map[bpf.FlowKey]bpf.Flow, program string, h header, packet []byte) {
	ends := h.ends
	if flow := f.ref.find(h.protocol, ends, true); program == "to_peer" && f.kind != bpf.Routed {
		ends = flow.pod
	}
	key := f.keyOf(h.protocol, ends)
	e := entries[key]
	e.Used = 1
	if program != "to_tunnel" {
		e.Pod, e.PodEpoch, e.Peer, e.PeerEpoch = uint32(f.pod), f.podEntry.Epoch, peerNumber, f.rig.peer.Epoch
	}
	switch program {
	case "to_peer":
		e.SeenOut = f.epoch
		if inUDP(f.kind) {
			e.Port = binary.NativeEndian.Uint16(packet[34:])
		}
	case "to_pod":
		e.SeenIn = f.epoch
	}
	if program != "to_tunnel" && (h.protocol == 17 || e.SeenIn == e.SeenOut) {
		e.Epoch = f.epoch
	}
	entries[key] = e
}

func (f *fuzzing) keyOf(protocol byte, ends tuple) bpf.FlowKey {
	return bpf.FlowKey{
		TenantProto: f.ref.tenant<<8 | uint32(protocol),
		Local:       binary.NativeEndian.Uint32(ends[0:]), Remote: binary.NativeEndian.Uint32(ends[4:]),
		LocalPort: binary.NativeEndian.Uint16(ends[8:]), RemotePort: binary.NativeEndian.Uint16(ends[10:]),
	}
}

// announce lets packets of the flows come by the wire, so that their peer is known.
func (f *fuzzing) announce(t *testing.T) {
	const learnAfter = 8
	for i, flow := range fuzzFlows {
		f.protocol = flow.protocol
		p := f.received(f.kind).withEnds(addrPort(flow.wireRemote), addrPort(flow.wireLocal))
		for range learnAfter + 1 {
			if verdict, _ := f.run(t, f.objs.FromWire, f.wire, p.bytes(t)); verdict != next {
				t.Fatalf("flow %d: verdict %d", i, int32(verdict))
			}
		}
	}
}

// write makes the table of flows hold these entries alone, and read gives all that it holds.
func (f *fuzzing) write(t *testing.T, entries map[bpf.FlowKey]bpf.Flow) {
	f.rewrite(t, f.read(t), entries)
}

func (r *rig) read(t *testing.T) map[bpf.FlowKey]bpf.Flow {
	keys := map[bpf.FlowKey]bpf.Flow{}
	var k bpf.FlowKey
	for err := r.objs.Flows.NextKey(nil, &k); !errors.Is(err, ebpf.ErrKeyNotExist); err = r.objs.Flows.NextKey(k, &k) {
		check(t, err)
		keys[k] = bpf.Flow{}
	}
	return r.lookUp(t, keys)
}

// rewrite replaces the entries that the table has.
func (r *rig) rewrite(t *testing.T, is, entries map[bpf.FlowKey]bpf.Flow) {
	for k := range is {
		check(t, r.objs.Flows.Delete(k))
	}
	for k, e := range entries {
		check(t, r.objs.PutFlow(k, e))
	}
}

// lookUp gives the entries that there are of some keys.
func (r *rig) lookUp(t *testing.T, keys map[bpf.FlowKey]bpf.Flow) map[bpf.FlowKey]bpf.Flow {
	entries := map[bpf.FlowKey]bpf.Flow{}
	for k := range keys {
		var e bpf.Flow
		err := r.objs.LookupFlow(k, &e)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			continue
		}
		check(t, err)
		entries[k] = e
	}
	return entries
}
