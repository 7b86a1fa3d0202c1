package e2e

import (
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/testenv"
)

// harmless is what the kernel tells of though nothing has changed for packets. Words
// in braces are those of [change].
var harmless = []struct{ name, only, do string }{
	{"neighbours are confirmed", "", `
		for state in stale delay probe reachable permanent; do
			ip neigh replace {other} lladdr {othermac} dev wire0 nud $state
			ip neigh replace {pod} lladdr {podmac} dev {gate} nud $state
		done`},
	{"the tunnel's neighbour is confirmed", "vxlan", `
		for state in stale reachable permanent; do ip neigh replace {hop} lladdr {hopmac} dev {out} nud $state; done`},
	{"a bridge tells of a port", "vxlan", `bridge link set dev {port} state 3; ip link set {port} type bridge_slave learning on`},
	{"a bridge tells of itself", "vxlan", `ip link set {gate} type bridge ageing_time 30000`},
	{"somebody listens", "", `
		for device in wire0 {gate} {out}; do
			ip link set $device promisc on
			ip link set $device promisc off
		done`},
	{"an address that is there", "vxlan routed", `ip addr replace {address}/24 dev wire0`},
	{"a forwarding entry that is there", "vxlan", `bridge fdb replace {hopmac} dev {out} dst {other} self permanent`},
	{"others are gone", "vxlan", `
		for device in wire0 {gate}; do
			ip neigh add 10.200.0.98 lladdr 02:76:00:00:00:97 dev $device nud reachable
			ip neigh replace 10.200.0.98 lladdr 02:76:00:00:00:96 dev $device nud reachable
			ip neigh del 10.200.0.98 dev $device
		done`},
	{"others connect", "", `ip neigh add 10.200.0.99 lladdr 02:76:00:00:00:97 dev wire0 nud reachable || ip neigh replace 10.200.0.99 lladdr 02:76:00:00:00:97 dev wire0 nud stale`},
}

// News of what is as it was ends nothing that was learned.
func TestFastPathHeedsNoIdleTalk(t *testing.T) {
	requireFastPath(t)
	fast := withTunnels(basicFastPaths...)
	l, flows := steadyLab(t, 0, fast...)
	for _, h := range harmless {
		if !isForAny(h.only, fast) {
			continue
		}
		t.Run(h.name, func(t *testing.T) {
			paths := watchPaths(t, l, flows, 0, h.only)
			checkWorking(t, paths)
			for try := 1; ; try++ {
				before, delaysBefore := stale(t, paths), delays(t, paths)
				for range 5 {
					shell(t, l.Machines[0], paths, h.do)
				}
				checkWorking(t, paths)
				now := stale(t, paths)
				if now == before {
					return
				}
				if try == 3 || !wasDelayed(t, paths, delaysBefore) {
					t.Fatalf("%d packets went slow because something had changed", now-before)
				}
			}
		})
	}
}

// wasDelayed tells whether a daemon was held up for longer than its lease: it has everything asked anew then, whatever
// it has heard. Its state says so when it has a lease again.
func wasDelayed(t *testing.T, paths []watched, before uint64) bool {
	t.Helper()
	for end := time.Now().Add(testenv.Timeout); time.Now().Before(end); time.Sleep(pace) {
		if delays(t, paths) > before {
			return true
		}
	}
	return false
}

// delays is how often that has happened.
func delays(t *testing.T, paths []watched) (n uint64) {
	t.Helper()
	for _, w := range paths {
		for _, pins := range w.Pins {
			state, err := fastpath.ReadState(fastpath.StateFile(pins))
			testenv.Must(t, err)
			n += state.Epochs.Counts["delay"]
		}
	}
	return n
}

// stale is how many packets went slow because something had changed.
func stale(t *testing.T, paths []watched) (packets uint64) {
	t.Helper()
	for _, w := range paths {
		for _, pins := range w.Pins {
			stats, err := fastpath.ReadStats(pins)
			testenv.Must(t, err)
			packets += stats[bpf.SlowStale].Packets
		}
	}
	return packets
}
