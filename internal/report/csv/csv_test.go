package csv

import (
	"testing"

	"github.com/venturi-net/venturi/internal/analysis"
)

// The list can be taken apart, whatever a program calls its threads.
func TestThreadsField(t *testing.T) {
	for want, threads := range map[string][]analysis.Thread{
		"": nil,
		"ksoftirqd/1=0.9812;a udp_bw client=0.7000": {{Name: "ksoftirqd/1", Share: 0.98123}, {Machine: "a", Name: "udp_bw client", Share: 0.7}},
		"a_b=1=0.5000": {{Name: "a;b=1", Share: 0.5}},
	} {
		if got := threadsField(threads); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
