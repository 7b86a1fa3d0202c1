package fastpath_test

import (
	"regexp"
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/testenv"
)

var handles = regexp.MustCompile(` handle \d+`)

// The daemon's state says of a rule what is the matter with it: one that hides events of connections treats
// all packets alike.
func TestReasonsOfRules(t *testing.T) {
	fast, n := newFast(t), space(t)
	_, off, end := follow(t, fast, n, func() (topology.Topology, error) { return topology.Topology{}, nil })
	defer func() {
		if t.Failed() {
			t.Logf("nothing is carried because: %q", off())
		}
	}()
	for _, c := range []struct{ rule, why string }{
		{"ct event set new", "a rule decides which events of connections are announced (ip t c: ct event): it may hide that a carried one has changed or ended"},
		{"accept", ""},
		{"limit rate 10/second drop", "the verdict of a rule may differ between packets of a flow (ip t c: limit)"},
	} {
		must(t, testenv.Load(t, n, "flush ruleset; table ip t { chain c { type filter hook forward priority 0; "+c.rule+"; }; }", "nft", "-f", "-"))
		eventually(t, "the reason is that of the rule "+c.rule, func() bool { return handles.ReplaceAllString(off(), "") == c.why })
	}
	must(t, end())
}

// A network that is not read as a whole has nothing carried, for that reason, and is not read all the time.
func TestReasonOfTooMany(t *testing.T) {
	const why = "this network namespace has more than 65536 devices"
	fast, n := newFast(t), space(t)
	_, off, end := follow(t, fast, n, func() (topology.Topology, error) { return topology.Topology{TooMany: why}, nil })
	eventually(t, "the reason is what there is too much of", func() bool { return off() == why })
	must(t, end())
	if long, short := fastpath.RestAfterResync(why), fastpath.RestAfterResync(""); long <= fastpath.MaxRest || short > fastpath.MaxRest {
		t.Errorf("it rests for %v, and otherwise for %v", long, short)
	}
}
