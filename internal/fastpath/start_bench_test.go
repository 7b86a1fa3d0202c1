package fastpath_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath"
)

// BenchmarkStart tells how long a daemon takes, from its start, until it carries the packets of a
// first pod, and of all, and how long it takes to end: the median and the least of some starts.
func BenchmarkStart(b *testing.B) {
	for _, pods := range []int{1, 1000} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			n := newNode(b, fastpath.VXLAN, pods, pods)
			n.awaitCarriers(b)
			var first, all, end []time.Duration
			for b.Loop() {
				must(b, os.RemoveAll(n.State)) // it outlives its daemon
				begin := time.Now()
				s := n.serve(b)
				one, last := n.carrying(b, begin)
				begin = time.Now()
				s.end(b)
				took := time.Since(begin)
				first, all, end = append(first, one), append(all, last), append(end, took)
				b.Logf("first %v, all %v, end %v, CPU %v user, %v system", one, last, took, s.ProcessState.UserTime(), s.ProcessState.SystemTime())
			}
			b.ReportMetric(0, "ns/op")
			for name, times := range map[string][]time.Duration{"first": first, "all": all, "end": end} {
				slices.Sort(times)
				b.ReportMetric(float64(times[0].Milliseconds()), "ms/"+name+"/least")
				b.ReportMetric(float64(times[len(times)/2].Milliseconds()), "ms/"+name+"/median")
			}
		})
	}
}
