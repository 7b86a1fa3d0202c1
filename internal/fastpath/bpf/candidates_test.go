package bpf_test

import (
	"encoding/binary"
	"math/bits"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/gopacket/gopacket/layers"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/testenv"
)

// manyFlows sends packets of any number of flows, by a program that gives the stamp of
// each.
type manyFlows struct {
	t       *testing.T
	program *ebpf.Program
	run     ebpf.RunOptions
}

func newManyFlows(t *testing.T) (*rig, *manyFlows) {
	r := stamping(t, "routed")
	return r, manyFlowsOf(t, r)
}

func manyFlowsOf(t *testing.T, r *rig) *manyFlows {
	t.Helper()
	r.put(t)
	check(t, r.objs.Flows.Delete(r.key))
	p := r.podPacket()
	p.ip.Protocol = layers.IPProtocolUDP
	return &manyFlows{t, r.objs.FromPod, ebpf.RunOptions{Data: p.bytes(t), Context: skb{Ifindex: uint32(r.pod)}}}
}

// send sends a packet of the n-th flow, and says whether it is one to learn from. Flows
// differ in the remote address and port.
func (m *manyFlows) send(n uint32) (learn bool) {
	const remote, remotePort = 14 + 16, 14 + 20 + 2 // offsets
	binary.BigEndian.PutUint16(m.run.Data[remote+2:], uint16(n>>14))
	binary.BigEndian.PutUint16(m.run.Data[remotePort:], uint16(n&0x3fff))
	stamp, err := m.program.Run(&m.run)
	check(m.t, err)
	return stamp != 0
}

// Flows that take turns come to be learned, however many there are, with a flood of
// short ones between them too; and the short ones do not.
func TestCandidates(t *testing.T) {
	testenv.Root(t)
	for _, c := range []struct {
		name  string
		flows int
		flood int // flows of one packet for each packet of the others
	}{
		{"hundreds", 500, 0},
		{"thousands", 30_000, 0},
		{"hundreds in a flood", 200, 40},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, m := newManyFlows(t)
			learned := make([]bool, c.flows)
			next, short, many := uint32(1<<20), 0, 0
			testenv.InNetns(t, r.netns, func() error {
				for range 16 {
					for n := range learned {
						if !learned[n] && m.send(uint32(n)) {
							learned[n] = true
							many++
						}
						for range c.flood {
							next++
							if m.send(next) {
								short++
							}
						}
					}
				}
				return nil
			})
			if many < c.flows*95/100 {
				t.Errorf("of %d flows that sent 16 packets in turn, %d are to be learned", c.flows, many)
			}
			if short > 0 {
				t.Errorf("%d flows of one packet are to be learned", short)
			}
		})
	}
}

// No secrets are bad ones: with these, a port's number times the sum of an address and a secret grows so little from one
// port to the next that the upper bits of the products, times another secret, are few.
func TestCandidatesOfPortsInARow(t *testing.T) {
	testenv.Root(t)
	const flows, odd = 8000, 0x9e3779b97f4a7c15
	r := stamping(t, "routed")
	remote := binary.NativeEndian.AppendUint32(nil, r.key.Remote)
	binary.BigEndian.PutUint16(remote[2:], 0)
	addr, key := binary.NativeEndian.Uint32(remote), uint32(0)
	for uint64(addr+key)<<16*odd >= 1<<45 {
		key++
	}
	n := 0
	objs, err := bpf.WithSecrets(func() uint64 {
		n++
		switch n {
		case 1:
			return odd // of what shortens a sum
		case 12:
			return uint64(key) // of the ends of a candidate
		}
		return uint64(n) * 0xc2b2ae3d27d4eb4f
	}, func() (*bpf.Objects, error) { return bpf.NewStamping("routed", port) })
	check(t, err)
	t.Cleanup(func() { objs.Close() })
	r.objs = objs
	m := manyFlowsOf(t, r)
	many := 0
	testenv.InNetns(t, r.netns, func() error {
		for range 7 {
			for n := range uint32(flows) {
				m.send(n)
			}
		}
		for n := range uint32(flows) {
			if m.send(n) {
				many++
			}
		}
		return nil
	})
	if many < flows*99/100 {
		t.Errorf("of %d flows to ports in a row that sent 8 packets in turn, %d are to be learned", flows, many)
	}
}

// Who knows how flows are hashed, but not the secrets, cannot choose flows that push another's candidate out: in any
// order, they are in other sets.
func TestChosenCandidates(t *testing.T) {
	testenv.Root(t)
	r, m := newManyFlows(t)
	set := func(n uint32) uint64 {
		k := r.key
		addr := binary.NativeEndian.AppendUint32(nil, k.Remote)
		binary.BigEndian.PutUint16(addr[2:], uint16(n>>14))
		a := uint64(k.Local)<<32 | uint64(layers.IPProtocolUDP)
		b := uint64(bits.ReverseBytes16(uint16(n&0x3fff)))<<48 | uint64(k.LocalPort)<<32 | uint64(binary.NativeEndian.Uint32(addr))
		return (a*0x9e3779b97f4a7c15 ^ b) * 0xc2b2ae3d27d4eb4f >> 48 // as it was without secrets
	}
	var chosen []uint32
	for n := uint32(1); len(chosen) < 64; n++ {
		if set(n) == set(0) {
			chosen = append(chosen, n)
		}
	}
	testenv.InNetns(t, r.netns, func() error {
		for range 16 {
			if m.send(0) {
				return nil
			}
			for _, n := range chosen {
				m.send(n)
			}
		}
		t.Errorf("among %d chosen flows, one that has sent 16 packets is not to be learned", len(chosen))
		return nil
	})
}
