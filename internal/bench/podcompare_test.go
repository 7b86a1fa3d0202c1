package bench

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/bench/pods"
	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/comparetest"
	"github.com/venturi-net/venturi/internal/verify"
)

// Each way between pods carries packets where it has a fast path, and the table has all of them. How fast
// they are is for the benchmark.
func TestPodComparesShort(t *testing.T) {
	testenv.Root(t)
	if answer, err := feature.Programs.Ask(); answer != feature.Yes {
		t.Skipf("this kernel has no fast path: %v", err)
	}
	for _, b := range podCompares {
		if b.services > 0 {
			continue // as without, and many rules take a while to write
		}
		t.Run(b.name, func(t *testing.T) {
			rows, err := b.measure(t.Context(), comparetest.Host(t), pods.Plan{Seed: 1, Series: 1, Rounds: 3, Slice: 20 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			arms := 0
			for _, r := range rows {
				if r.Load == b.loads[0] {
					arms++
				}
				if r.Arm.Pins != nil && r.Carried == 0 {
					t.Errorf("%s on %s: no packet was carried, and %d were slow", r.Load, r.Arm.Name, r.Slow)
				}
				if r.Load != pods.TCPStream && r.Requests == 0 {
					t.Errorf("%s on %s: nothing was sent", r.Load, r.Arm.Name)
				}
				if !(r.Typical() > 0) {
					t.Errorf("%s on %s: it has no figure", r.Load, r.Arm.Name)
				}
			}
			if len(rows) != arms*len(b.loads) {
				t.Errorf("%d rows of %d arms and %d loads", len(rows), arms, len(b.loads))
			}
			var out bytes.Buffer
			limits := b.print(&out, rows)
			if lines := strings.Count(out.String(), "\n"); lines < len(rows)+len(b.limits)*len(b.loads) {
				t.Errorf("the table has %d lines:\n%s", lines, out.String())
			}
			asked := slices.DeleteFunc(slices.Clone(b.limits), func(of podLimit) bool { return of.limit == 0 })
			if want := 2 * len(asked) * len(b.loads); len(limits) != want {
				t.Errorf("%d limits, want %d", len(limits), want)
			}
		})
	}
}

// Each belongs to a section, and no limit holds without a figure.
func TestPodCompareLimits(t *testing.T) {
	for _, b := range podCompares {
		if name, _, _ := strings.Cut(b.name, ","); !slices.ContainsFunc(Sections, func(s Section) bool { return s.Name == name }) {
			t.Errorf("%q is of no section", b.name)
		}
		if limits := b.print(new(bytes.Buffer), nil); len(limits) > 0 && slices.ContainsFunc(limits, func(r verify.Requirement) bool { return r.Holds }) {
			t.Errorf("%s: a limit holds without a figure", b.name)
		}
	}
}
