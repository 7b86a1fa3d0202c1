package bpf_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/gopacket/gopacket/layers"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/testenv"
)

// fuzzEnv is how many packets each program gets, of a seed that is new each time, or stands in
// front: 1000000, or 7:1000000.
const fuzzEnv = "VENTURI_FUZZ_PACKETS"

// fewFuzzed is how many they are without it, always the same ones.
const fewFuzzed = 3000

// fuzzFlows are the flows that the tables have: of both protocols, translated and not.
var fuzzFlows = []struct {
	protocol      layers.IPProtocol
	local, remote string
	wireLocal     string
	wireRemote    string
}{
	{6, "8.0.0.2:4000", "8.0.1.2:5000", "8.0.0.2:4000", "8.0.1.2:5000"},
	{17, "8.0.0.2:4001", "8.0.1.2:5001", "8.0.0.2:4001", "8.0.1.2:5001"},
	{6, "8.0.0.2:4002", "10.96.0.10:53", "8.0.0.2:61002", "8.0.1.2:5002"},
	{17, "8.0.0.2:4003", "10.96.0.10:53", "8.0.0.2:61003", "8.0.1.2:5003"},
}

// fuzzing is a rig with the reference for it, and packets from a grammar.
type fuzzing struct {
	*rig
	kind    string
	ref     *reference
	rng     *rand.Rand
	entries []map[bpf.FlowKey]bpf.Flow // of each flow
	version uint32
	device  *ebpf.Program // from_tunnel, for what from_wire has left to it; nil: there is no tunnel
	macs    []byte        // that packets have if they are not encapsulated; nil: those of what pods or the peer send
}

func newFuzzing(t *testing.T, kind string, seed uint64) *fuzzing {
	r := newRig(t, kind, layers.IPProtocolTCP)
	r.put(t)
	r.putHop(t, kind)
	check(t, r.objs.Flows.Delete(r.key))
	tenant := r.key.TenantProto >> 8
	header := make([]byte, 0, 64)
	for _, word := range r.peer.Header {
		header = binary.NativeEndian.AppendUint64(header, word)
	}
	f := &fuzzing{rig: r, kind: kind, rng: rand.New(rand.NewPCG(seed, 0)), version: 100, ref: &reference{
		kind: kind, peer: header, pod: append(append(bytes.Clone(podMAC), gatewayMAC...), 8, 0), podAddr: podAddr.As4(), wireMAC: r.wireMAC,
		tenant: tenant, outSize: int(r.peer.Size), inSize: int(r.podEntry.Size), confirmed: true,
	}}
	if kind == "routed" {
		f.ref.tenant = 0
	}
	slots := map[uint64]bool{}
	for i, flow := range fuzzFlows {
		port := binary.BigEndian.AppendUint16(nil, uint16(50000+i))
		is := &referenceFlow{protocol: byte(flow.protocol), pod: tupleOf(flow.local, flow.remote), wire: tupleOf(flow.wireLocal, flow.wireRemote), port: port}
		r.protocol = flow.protocol
		entry := r.flow
		entry.Port = binary.NativeEndian.Uint16(port)
		key := bpf.NewFlowKey(tenant, byte(flow.protocol), addrPort(flow.local), addrPort(flow.remote))
		entries := map[bpf.FlowKey]bpf.Flow{key: entry}
		if is.translated() {
			saved := r.flow
			wire, onWire := r.translate(nat{"", addrPort(flow.local), addrPort(flow.remote), addrPort(flow.wireLocal), addrPort(flow.wireRemote)})
			entry.Translated, entry.Other = r.flow.Translated, r.flow.Other
			r.flow = saved
			entries = map[bpf.FlowKey]bpf.Flow{key: entry, wire: onWire}
		}
		for k := range entries {
			if slots[bpf.Slot(k)] || slots[1<<32|bpf.Group(k)] {
				t.Fatal("two flows share a slot or a group: choose other ports")
			}
			slots[bpf.Slot(k)], slots[1<<32|bpf.Group(k)] = true, true
		}
		f.entries, f.ref.flows = append(f.entries, entries), append(f.ref.flows, is)
		f.restore(t, i)
	}
	return f
}

func tupleOf(local, remote string) (u tuple) {
	a, b := addrPort(local), addrPort(remote)
	copy(u[0:], a.Addr().AsSlice())
	copy(u[4:], b.Addr().AsSlice())
	binary.BigEndian.PutUint16(u[8:], a.Port())
	binary.BigEndian.PutUint16(u[10:], b.Port())
	return u
}

// overheads are how many bytes tunnels put around packets.
var overheads = map[string]int{bpf.VXLAN: 50, bpf.Geneve: 50, bpf.IPIP: 20}

// restore writes the entries of a flow.
func (f *fuzzing) restore(t *testing.T, i int) {
	for k, e := range f.entries[i] {
		check(t, f.objs.PutFlow(k, e))
	}
	f.ref.flows[i].isGone, f.ref.flows[i].warm = false, false
}

func (f *fuzzing) chance(one int) bool { return f.rng.IntN(one) == 0 }

func choose[T any](f *fuzzing, from ...T) T { return from[f.rng.IntN(len(from))] }

// A million packets from a grammar, or some thousand, through the programs that carry: verdict,
// bytes and counts are those of a reference in Go.
func TestFuzzCarry(t *testing.T) {
	testenv.Root(t)
	onCore(t, 0)
	seed, packets := testenv.Generated(t, fuzzEnv, fewFuzzed)
	t.Logf("%s=%d:%d", fuzzEnv, seed, packets)
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			f := newFuzzing(t, kind, seed)
			if kind != bpf.Routed {
				f.device = leftToDevice(t, f.objs.FromTunnel, crossed|f.epoch)
			}
			carried := f.carryAll(t, packets)
			ways := []string{"out", "in"}
			if kind != bpf.Routed {
				ways = append(ways, "in, by the tunnel's device")
			}
			for _, way := range ways {
				if n := carried[way]; n < packets/20 {
					t.Errorf("of %d packets %s, only %d were carried: the grammar is no good", packets, way, n)
				}
			}
		})
	}
}

// atATime is how many packets are run until the counts are compared.
const atATime = 100

// carryAll runs so many packets through each of both programs.
func (f *fuzzing) carryAll(t *testing.T, packets int) map[string]int {
	carried := map[string]int{}
	want := map[bpf.Count]bpf.Counter{}
	testenv.InNetns(t, f.netns, func() error {
		onCore(t, 0)
		for i := range 2 * packets {
			into := f.chance(2)
			if err := f.carryOne(t, into, want, carried); err != nil {
				return fmt.Errorf("packet %d: %w", i, err)
			}
			if i%atATime != atATime-1 {
				continue
			}
			if err := f.compareCounts(want); err != nil {
				return fmt.Errorf("packets %d to %d: %w", i-atATime+1, i, err)
			}
		}
		return f.compareCounts(want)
	})
	return carried
}

// carryOne runs a packet through a program and the reference.
func (f *fuzzing) carryOne(t *testing.T, into bool, want map[bpf.Count]bpf.Counter, carried map[string]int) error {
	byDevice := into && f.device != nil && f.chance(3)
	if f.macs = nil; byDevice {
		f.macs = append(bytes.Clone(tunnelMAC), farTunnelMAC...)
	}
	packet := f.packet(into, into && f.kind != bpf.Routed && !byDevice)
	program, device, way, reference := f.objs.FromPod, f.pod, "out", f.ref.fromPod
	switch {
	case byDevice:
		packet = runnable(inFrontOf(f.kind, packet))
		program, device, way, reference = f.device, f.wire, "in, by the tunnel's device", f.ref.fromTunnel
	case into:
		program, device, way, reference = f.objs.FromWire, f.wire, "in", f.ref.fromWire
	}
	was := f.ref.confirmed
	o := reference(packet)
	verdict, left, err := runOnce(program, device, packet)
	if err != nil {
		return fmt.Errorf("run % x: %w", packet, err)
	}
	wanted, length := next, len(packet) // headers of a tunnel do not count
	if program == f.objs.FromWire {
		length -= overheads[f.kind]
	}
	if o.packet == nil {
		o.packet = packet
	}
	if o.carried {
		wanted = redirect
		if byDevice {
			length = len(o.packet) // with an Ethernet header
		}
		carried[way]++
	}
	if verdict != wanted || !bytes.Equal(left, o.packet) {
		return fmt.Errorf("%s: of\n% x\nthe verdict is %d, want %d (%v), and left is\n% x, want\n% x", way, packet, int32(verdict), int32(wanted), o.count, left, o.packet)
	}
	if o.count != bpf.Counts {
		c := want[o.count]
		want[o.count] = bpf.Counter{Packets: c.Packets + 1, Bytes: c.Bytes + uint64(length)}
	}
	f.settle(t, was != f.ref.confirmed)
	return nil
}

// settle writes the entries of flows that a packet has ended. If the pod's MAC is another now, or
// from time to time, it invalidates all slots: they would last for a second.
func (f *fuzzing) settle(t *testing.T, changed bool) {
	for i, flow := range f.ref.flows {
		if flow.isGone {
			for k := range f.entries[i] {
				if err := f.objs.LookupFlow(k, new(bpf.Flow)); !errors.Is(err, ebpf.ErrKeyNotExist) {
					t.Errorf("a packet has ended flow %d, whose entry is there: %v", i, err)
				}
			}
			f.restore(t, i)
		}
	}
	if changed || f.chance(50) {
		f.version++
		check(t, f.objs.Version.Set(f.version))
		for _, flow := range f.ref.flows {
			flow.warm = false
		}
	}
}

// runOnce runs a program over a packet in the calling thread's namespace.
func runOnce(p *ebpf.Program, device int, packet []byte) (verdict uint32, left []byte, err error) {
	o := ebpf.RunOptions{Data: packet, DataOut: make([]byte, len(packet)+256), Context: skb{Ifindex: uint32(device)}}
	verdict, err = p.Run(&o)
	return verdict, o.DataOut, err
}

// compareCounts compares what the programs have counted since the beginning.
func (f *fuzzing) compareCounts(want map[bpf.Count]bpf.Counter) error {
	for c := range bpf.Counts {
		var by []bpf.Counter
		if err := f.objs.Counts.Lookup(uint32(c), &by); err != nil {
			return err
		}
		is := bpf.Counter{}
		for _, one := range by {
			is.Packets, is.Bytes = is.Packets+one.Packets, is.Bytes+one.Bytes
		}
		if is.Packets != want[c].Packets || is.Bytes != want[c].Bytes {
			return fmt.Errorf("%v: counted are %d packets with %d bytes, want %d with %d", c, is.Packets, is.Bytes, want[c].Packets, want[c].Bytes)
		}
	}
	return nil
}
