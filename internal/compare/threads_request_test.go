package compare

import (
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/verr"
)

// Flows are dealt out to threads on whatever is measured, and what cannot share them is refused.
func TestThreads(t *testing.T) {
	q := Request{Paths: []string{"host", "vxlan:tunnels=5"}, Loads: []string{"tcp_bw"}, Flows: []int{640}, Threads: 5}
	if c := resolve(t, q).plan.Cells[0]; c.Threads != 5 || c.Flows != 640 || c.Name != "tcp_bw/65536/flows=640/threads=5" {
		t.Errorf("cell %+v", c)
	}
	for _, c := range []struct {
		q   Request
		why string
	}{
		{Request{Loads: []string{"tcp_bw"}, Flows: []int{1, 8}, Threads: 5}, "tcp_bw with 1 flows on 5 threads"},
		{Request{Loads: []string{"tcp_crr"}, Flows: []int{8}, Threads: 5}, "waits for its own connections"},
		{Request{Loads: []string{"tcp_rr"}, Flows: []int{8}, Sizes: "32K", Threads: 5}, "16384 bytes"},
		{Request{Loads: []string{"probe"}, Threads: 2}, "a thread has one flow or more"},
		{Request{Loads: []string{"tcp_bw"}, Flows: []int{8}, Threads: 5, LoadTools: []string{"iperf3"}}, "cannot run iperf3 with --threads"},
	} {
		if _, err := c.q.Resolve(); verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%+v: %v, want %q", c.q, err, c.why)
		}
	}
}

// The ends are pinned to the cores of their machines, whose CPU time is told apart.
func TestCores(t *testing.T) {
	r := resolve(t, Request{Paths: []string{"host"}, Cores: "m1=2-3 m2=0"})
	if p := r.Plan(); p.ClientCPU != 2 || p.ServerCPU != 0 || p.SharedCores || !p.OneHost() || len(p.Cores["m1"]) != 2 {
		t.Errorf("cores %v, client on %d, server on %d, shared %v", p.Cores, p.ClientCPU, p.ServerCPU, p.SharedCores)
	}
	if r := resolve(t, Request{Paths: []string{"host"}}); !r.plan.SharedCores || r.plan.Cores != nil {
		t.Errorf("without cores: %v, shared %v", r.plan.Cores, r.plan.SharedCores)
	}
	for cores, why := range map[string]string{"m1=0": "m2 has no cores", "m1=0 m2=0": "core 0 is that of m1 and of m2", "0": "belongs to no machine"} {
		r, err := Request{Paths: []string{"host"}, Cores: cores}.Resolve()
		if err == nil {
			err = r.CheckAnywhere()
		}
		if verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), why) {
			t.Errorf("--cores %q: %v, want %q", cores, err, why)
		}
	}
}
