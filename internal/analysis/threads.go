package analysis

import (
	"cmp"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/result"
)

const (
	threadsMeter = "threads"
	// leastShare is what a thread has to use of a core to be in a report.
	leastShare = 0.01
)

// threads sums what threads used, over series. The threads of a load are others in each series,
// and have one name: the busiest of them stands for all.
func (d *armData) threads() []Thread {
	type id struct{ machine, name string }
	wall, used := map[string]int64{}, map[id]int64{}
	for _, m := range d.selectMeters(threadsMeter, d.sharedCores) {
		of := m.Machine
		if d.sharedCores {
			of = ""
		}
		wall[of] += m.WallNs
		busiest := map[id]int64{}
		for key, ns := range m.Values {
			name, _, _ := strings.Cut(key, "#")
			busiest[id{of, name}] = max(busiest[id{of, name}], ns)
		}
		for thread, ns := range busiest {
			used[thread] += ns
		}
	}
	var out []Thread
	for thread, ns := range used {
		if share := float64(ns) / float64(max(1, wall[thread.machine])); share >= leastShare {
			out = append(out, Thread{Name: thread.name, Machine: thread.machine, Share: min(1, share), Load: isLoad(thread.name)})
		}
	}
	slices.SortFunc(out, func(a, b Thread) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Machine, b.Machine))
	})
	return out
}

// isLoad tells the threads that package engine names, of which the kernel keeps 15 bytes.
func isLoad(name string) bool {
	name = name[strings.LastIndex(name, "/")+1:]
	return strings.HasSuffix(name, " client") || strings.HasSuffix(name, " server")
}

// isSum tells a meter whose values are counters that a report shows as they are.
func isSum(m *result.Meter) bool {
	return m.Name != cpuMeter && m.Name != softnetMeter && m.Name != fastPathMeter && m.Name != threadsMeter
}
