package reach

import (
	"net/netip"
	"slices"
	"testing"
)

// Many paths have a port each, and one whose listener cannot be opened keeps no other from
// being tried.
func TestListeners(t *testing.T) {
	here := Socket{Addr: netip.MustParseAddr("127.0.0.1")}
	var r Trials
	r.Secret[0] = 7
	const bad = 5
	for i := range 50 {
		trial := Trial{Transport: []string{"tcp", "udp"}[i%2], From: here, To: here}
		if i == bad {
			trial.To.Addr = netip.MustParseAddr("192.0.2.77") // of another machine
		}
		r.Trials = append(r.Trials, trial)
	}
	var l Listeners
	defer l.close()
	all, err := l.listen(t.Context(), r)
	if err != nil || len(all) != len(r.Trials) {
		t.Fatalf("%d listeners, %v", len(all), err)
	}
	seen := map[int]bool{}
	for i, one := range all {
		if i == bad {
			if one.Failed == "" || one.Port != 0 {
				t.Errorf("at a foreign address: %+v", one)
			}
			continue
		}
		if one.Failed != "" || one.Port < firstPort || one.Port >= firstPort+portCount || seen[one.Port] {
			t.Errorf("listener %d: %+v", i, one)
		}
		seen[one.Port] = true
		r.Trials[i].Port = one.Port
	}
	tried := r
	tried.Trials = slices.Delete(slices.Clone(r.Trials), bad, bad+1) // the tests send nothing to foreign addresses
	failed, err := dialAll(t.Context(), tried)
	if err != nil {
		t.Fatal(err)
	}
	heard := l.close()
	if heard[bad] {
		t.Error("somebody was heard at a foreign address")
	}
	heard = slices.Delete(heard, bad, bad+1)
	for i := range tried.Trials {
		if failed[i] != "" || !heard[i] {
			t.Errorf("trial %d of those tried: %q, heard: %v", i, failed[i], heard[i])
		}
	}
}

// All ports come, each once.
func TestPorts(t *testing.T) {
	p := newPorts(Secret{0xff, 0xff})
	seen := map[int]bool{}
	for port, ok := p.take(); ok; port, ok = p.take() {
		seen[port] = true
	}
	if len(seen) != portCount || !seen[firstPort] || !seen[firstPort+portCount-1] {
		t.Errorf("%d ports", len(seen))
	}
}
