package load

import (
	"slices"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/verr"
)

// What cannot share threads is refused, with the reason.
func TestCheckThreads(t *testing.T) {
	for _, c := range []struct {
		load                 Load
		threads, flows, size int
		refused              string
	}{
		{tcpBW, 0, 640, 1 << 16, ""},
		{tcpBW, 5, 640, 1 << 16, ""},
		{tcpBW, 640, 640, 1 << 16, ""},
		{tcpBW, 6, 5, 1 << 16, "a thread has one flow or more"},
		{tcpBW, -1, 5, 1 << 16, "a thread has one flow or more"},
		{tcpCRR, 2, 4, 1, "waits for its own connections"},
		{tcpCRR, 4, 4, 1, ""},
		{udpRR, 2, 4, SharedThreadSize, ""},
		{udpRR, 2, 4, SharedThreadSize + 1, "16384 bytes"},
	} {
		err := c.load.CheckThreads(c.threads, c.flows, c.size)
		if c.refused == "" && err != nil || c.refused != "" && (verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%s, %d flows on %d threads: %v, want %q", c.load.Name, c.flows, c.threads, err, c.refused)
		}
	}
}

// Threads have their cores in turn, and flows their threads.
func TestThreadCPUs(t *testing.T) {
	p := Plan{Flows: 10, Threads: 5, ClientCPU: 7, ServerCPU: 8, ClientCPUs: []int{2, 4}}
	var cpus []int
	for flow := range p.Flows {
		cpus = append(cpus, p.ClientCore(tcpBW, flow))
		if cpu := p.ServerCore(tcpBW, flow); cpu != 8 {
			t.Errorf("flow %d is served on core %d", flow, cpu)
		}
	}
	if want := []int{2, 4, 2, 4, 2, 2, 4, 2, 4, 2}; !slices.Equal(cpus, want) {
		t.Errorf("cores %v, want %v", cpus, want)
	}
}
