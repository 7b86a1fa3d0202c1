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
	k := bpf.FlowKey{TenantProto: udp, Local: 1, Remote: 2, LocalPort: 3, RemotePort: 4}
	flow := bpf.Flow{Epoch: epoch, PodEpoch: 5, Peer: 6, PeerEpoch: 8}
	other := flow
	other.Peer++
	proof := flow.Proof(k, epoch)
	for _, c := range []struct {
		name    string
		out, in uint32
		oneWay  int
	}{
		{"both ways", proof, proof, 0},
		{"out", proof, 0, 1},
		{"in", 0, proof, 1},
		{"in under other rules", proof, flow.Proof(k, epoch-1), 1},
		{"in from another peer", proof, other.Proof(k, epoch), 1},
	} {
		f, n := flow, fastpath.FlowCount{}
		f.SeenOut, f.SeenIn = c.out, c.in
		if n.Add(k, f, epoch); n != (fastpath.FlowCount{Flows: 1, Carried: 1, OneWay: c.oneWay}) {
			t.Errorf("%s: counted %+v", c.name, n)
		}
	}
}
