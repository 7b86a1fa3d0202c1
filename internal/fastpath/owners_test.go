package fastpath_test

import (
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
)

// A flow that is carried in one direction only is counted as such, also if the other was seen under other rules, or with
// another peer.
func TestCountsFlows(t *testing.T) {
	const epoch = 7
	const proof, others = 0x12345678, 0x9abcdef0
	flow := bpf.Flow{Epoch: epoch, PodEpoch: 5, Peer: 6, PeerEpoch: 8}
	for _, c := range []struct {
		name    string
		out, in uint32
		oneWay  int
	}{
		{"both ways", proof, proof, 0},
		{"out", proof, 0, 1},
		{"in", 0, proof, 1},
		{"in under other rules, or from another peer", proof, others, 1},
	} {
		f, n := flow, fastpath.FlowCount{}
		f.SeenOut, f.SeenIn = c.out, c.in
		if n.Add(f, epoch); n != (fastpath.FlowCount{Flows: 1, Carried: 1, OneWay: c.oneWay}) {
			t.Errorf("%s: counted %+v", c.name, n)
		}
	}
}
