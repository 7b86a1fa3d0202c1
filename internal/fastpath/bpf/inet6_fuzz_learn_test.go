package bpf_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/testenv"
)

// Packets of IPv6 with bytes changed at random, through the programs that learn: they leave all packets as they are,
// and write the entries that the reference says, and no others. An address gets a number with its first entry, and
// not before.
func TestFuzzLearnIPv6(t *testing.T) {
	testenv.Root(t)
	onCore(t, 0)
	seed, most := testenv.Generated(t, fuzzEnv, fewFuzzed)
	t.Logf("%s=%d:%d", fuzzEnv, seed, most)
	for i, program := range []string{"to_peer", "to_pod"} {
		for _, protocol := range []layers.IPProtocol{layers.IPProtocolTCP, layers.IPProtocolUDP} {
			t.Run(program+", "+protocol.String(), func(t *testing.T) {
				f := newLearning6(t, program, protocol, rand.New(rand.NewPCG(seed, uint64(i))))
				packets := max(most/4, 1)
				if n := f.learnAll(t, packets); n < packets/10 {
					t.Errorf("of %d packets, only %d taught anything: the grammar is no good", packets, n)
				}
			})
		}
	}
}

// learning6 is a program that learns of flows of IPv6, with the reference for it.
type learning6 struct {
	*rig
	rng     *rand.Rand
	inbound bool // packets are on their way into the pod
	before  map[bpf.FlowKey]bpf.Flow
	// senders are who is known to send packets that come by the wire.
	senders []netip.AddrPort
}

// newLearning6 has one flow, of which the other direction was seen, and others that come by the wire.
func newLearning6(t *testing.T, program string, protocol layers.IPProtocol, rng *rand.Rand) *learning6 {
	f := &learning6{rig: newRig6(t, protocol), rng: rng, inbound: program == "to_pod"}
	f.put(t)
	f.putHop(t, bpf.Routed6)
	f.senders = []netip.AddrPort{netip.AddrPortFrom(remoteAddr6, 5000), netip.AddrPortFrom(remoteAddr6.Next(), 5000), netip.AddrPortFrom(remoteAddr6, 5001)}
	check(t, f.objs.Flows.Delete(f.key))
	for _, from := range f.senders {
		const learnAfter = 8
		for range learnAfter + 1 {
			if verdict, _ := f.run(t, f.objs.FromWire, f.wire, f.received6().withEnds(from, netip.AddrPortFrom(podAddr6, 4000)).bytes(t)); verdict != next {
				t.Fatalf("of a flow that nobody knows: verdict %d", int32(verdict))
			}
		}
	}
	seen := bpf.Flow{Used: 1, SeenIn: f.epoch, Pod: f.flow.Pod, PodEpoch: f.flow.PodEpoch, Peer: f.flow.Peer, PeerEpoch: f.flow.PeerEpoch}
	if f.inbound {
		seen.SeenIn, seen.SeenOut = 0, f.epoch
	}
	f.before = map[bpf.FlowKey]bpf.Flow{f.key: seen}
	f.rewrite(t, nil, f.before)
	return f
}

// frame is a packet of a flow that is known or may be, with bytes changed at random.
func (f *learning6) frame(t *testing.T) []byte {
	remote := f.senders[f.rng.IntN(len(f.senders))]
	if f.rng.IntN(8) == 0 {
		remote = netip.AddrPortFrom(remote.Addr().Next(), uint16(f.rng.Uint32()))
	}
	pod := netip.AddrPortFrom(podAddr6, 4000)
	p := hopped6(f.podPacket6().withEnds(pod, remote), f.wireMAC, farMAC)
	if f.inbound {
		p = hopped6(f.received6().withEnds(remote, pod), gatewayMAC, podMAC)
	}
	p.ip.TrafficClass, p.ip.FlowLabel = uint8(f.rng.Uint32()), f.rng.Uint32()&0xfffff
	if f.rng.IntN(4) == 0 {
		p.ip.HopLimit = uint8(f.rng.IntN(4))
	}
	p.payload = make([]byte, f.rng.IntN(1600))
	frame := p.bytes(t)
	for range f.rng.IntN(3) {
		frame[f.rng.IntN(min(len(frame), 14+40+20))] ^= 1 << f.rng.IntN(8)
	}
	return frame
}

// teaches is the reference: it says of a frame whether a flow is learned of it, and between which ends.
func (f *learning6) teaches(frame []byte) (protocol byte, local, remote fuzzEnd, ok bool) {
	protocol, ends, ok := reads6(frame)
	local, remote = ends[0], ends[1]
	if f.inbound {
		local, remote = remote, local
	}
	if !ok || !bytes.Equal(local.addr, podAddr6.AsSlice()) {
		return protocol, local, remote, false
	}
	if !f.inbound {
		return protocol, local, remote, hasMACs(frame, f.wireMAC, farMAC)
	}
	isKnown := protocol == byte(f.protocol) && local.port == 4000 && slices.Contains(f.senders, remote.addrPort())
	return protocol, local, remote, isKnown && bytes.Equal(frame[:6], podMAC)
}

// learnAll runs so many packets through the program, and gives how many have taught something.
func (f *learning6) learnAll(t *testing.T, packets int) (learned int) {
	program, device := stamped(t, f.objs.ToPeer, f.epoch), f.wire
	if f.inbound {
		program, device = stamped(t, f.objs.ToPod, f.epoch), f.pod
	}
	testenv.InNetns(t, f.netns, func() error {
		onCore(t, 0)
		for i := range packets {
			frame := f.frame(t)
			protocol, local, remote, learns := f.teaches(frame)
			key := func() (k bpf.FlowKey, numbered bool) {
				if local.addr != nil {
					var err error
					k, numbered, err = f.objs.Key(0, protocol, local.addrPort(), remote.addrPort())
					check(t, err)
				}
				return k, numbered
			}
			_, was := key()
			verdict, left, err := runOnce(program, device, frame)
			if err != nil {
				return fmt.Errorf("packet %d: run % x: %w", i, frame, err)
			}
			k, numbered := key()
			if numbered != (was || learns) {
				return fmt.Errorf("packet %d,\n% x\nits addresses have numbers: %v, and had before: %v; a flow is to be learned: %v", i, frame, numbered, was, learns)
			}
			want := maps.Clone(f.before)
			if learns {
				learned++
				want[k] = f.learn(want[k], protocol)
			}
			keys := maps.Clone(want)
			keys[k] = bpf.Flow{}
			is := f.lookUp(t, keys)
			if i%scanEvery == 0 || i == packets-1 {
				is = f.read(t)
			}
			if verdict != next || !bytes.Equal(left, frame) || !maps.Equal(is, want) {
				return fmt.Errorf("packet %d,\n% x\nthe verdict is %d, left is\n% x, entries are %+v, want %+v", i, frame, int32(verdict), left, is, want)
			}
			if learns {
				f.rewrite(t, want, f.before)
			}
		}
		return nil
	})
	return learned
}

// learn is an entry when a packet was seen in the program's direction.
func (f *learning6) learn(e bpf.Flow, protocol byte) bpf.Flow {
	e.Used, e.Pod, e.PodEpoch, e.Peer, e.PeerEpoch = 1, f.flow.Pod, f.flow.PodEpoch, f.flow.Peer, f.flow.PeerEpoch
	if f.inbound {
		e.SeenIn = f.epoch
	} else {
		e.SeenOut = f.epoch
	}
	if protocol == byte(layers.IPProtocolUDP) || e.SeenIn == e.SeenOut {
		e.Epoch = f.epoch
	}
	return e
}
