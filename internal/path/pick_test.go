package path_test

import (
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
)

// pick gives variants in the table's order, each as often as count says, the
// second copies behind everything else. nth counts those of a driver from 0. A
// driver without a variant fails the test, and so does a variant without a driver.
//
// Those that are apart have a test of their own. What this kernel cannot do is
// left out, not counted, and goes into the suite's ledger: another kernel has to
// carry it, which TestKernels looks after.
func pick(t *testing.T, count func(v variant, nth int) int) []variant {
	t.Helper()
	var first, again []variant
	for _, d := range path.Table {
		if len(variants[d.Name]) == 0 {
			t.Fatalf("driver %s is not in the suite: say in variants how to raise it and what its packets look like", d.Name)
		}
		nth := 0
		for _, v := range variants[d.Name] {
			if v.inVM || v.testedElsewhere() {
				continue
			}
			if what := v.missingFeature(t); what != "" {
				t.Logf("%s is left out: %s", v.spec, what)
				suite.lacks(v.spec, what)
				continue
			}
			for i := range count(v, nth) {
				if i == 0 {
					first = append(first, v)
				} else {
					again = append(again, v)
				}
			}
			nth++
		}
	}
	for name := range variants {
		if _, err := path.Lookup(name); err != nil {
			t.Fatalf("the suite has variants of %s: %v", name, err)
		}
	}
	return append(first, again...)
}

// all gives every variant once.
func all(t *testing.T) []variant {
	t.Helper()
	return pick(t, func(variant, int) int { return 1 })
}

// first is for pick: of each driver the first variant.
func first(_ variant, nth int) int {
	if nth > 0 {
		return 0
	}
	return 1
}

// testedElsewhere tells whether the variant is left to the kernel that the tests run
// on, where the suite is in a guest: no machine is started in a machine, and
// what forwards in its own process does so alike under any kernel. So many
// switches take long to come up on an emulated CPU.
func (v variant) testedElsewhere() bool {
	if !agenttest.InGuest() {
		return false
	}
	if strings.Contains(v.spec, "datapath=netdev") {
		answer, _ := feature.OVSDatapath.Ask()
		return answer == feature.Yes
	}
	return strings.HasPrefix(v.spec, "vm-")
}

// missingFeature says what the kernel lacks for the variant; empty: nothing. A program
// that lacks is not told of here: raising the path fails then, and says so.
func (v variant) missingFeature(t *testing.T) string {
	t.Helper()
	if v.prepare != nil {
		return "" // it cannot be read without what is to be there before
	}
	arms, err := path.Arms([]string{v.spec}, nil)
	testenv.Must(t, err)
	for _, n := range arms[0].Needs() {
		if probe, ok := n.(*feature.Probe); ok {
			if answer, _ := probe.Ask(); answer == feature.No {
				lacks, _ := probe.Lack()
				return lacks
			}
		}
	}
	return ""
}
