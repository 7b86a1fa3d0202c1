package path_test

import (
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
)

// A cluster of fifty comes up, and all pods of it talk. The test is in a file
// that comes after those of all others: the kernel takes seconds to clear so
// many namespaces away, and meanwhile makes no new ones.
func TestFiftyMachines(t *testing.T) {
	const hosts = 50
	start := time.Now()
	l := testenv.Lab(t, lab.Options{Paths: []string{"bgp:reflector=1", "vxlan"}, Hosts: hosts})
	t.Logf("up in %v", time.Since(start).Round(time.Millisecond))
	for _, arm := range l.Arms {
		if len(arm.Ends) != hosts {
			t.Fatalf("%s has ends on %d machines, want %d", arm.Name, len(arm.Ends), hosts)
		}
		start := time.Now()
		everyPair(t, arm)
		t.Logf("%s: every pair talked in %v", arm.Name, time.Since(start).Round(time.Millisecond))
	}
}
