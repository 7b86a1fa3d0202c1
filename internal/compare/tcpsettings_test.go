package compare

import (
	"slices"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/result"
)

// TestUnlike looks at namespaces that no lab made: they restart slowly, and
// take another congestion control where the kernel has it.
func TestUnlike(t *testing.T) {
	testenv.Root(t)
	c := testenv.Containers(t, 1400)
	pair := load.Pair{From: host.Endpoint{Namespace: c[0].In.Path()}, To: host.Endpoint{Namespace: c[1].In.Path()}}
	gone := load.Pair{From: host.Endpoint{Namespace: "/nowhere"}, To: host.Endpoint{Namespace: "/nowhere"}}
	of := func(p load.Pair) experiment.Ends { return experiment.Ends{Pairs: []load.Pair{p, p}} }
	plan := &result.Plan{
		Arms: []result.Arm{{Name: "a", Path: "attach"}, {Name: "a.copy", Path: "attach", Role: result.RoleCopy},
			{Name: "qperf:a", Path: "qperf"}, {Name: "gone", Path: "attach"}},
		Cells: []result.Cell{{Transport: "udp"}, {Transport: "tcp"}},
	}
	ends := []experiment.Ends{of(pair), of(pair), of(pair), of(gone)}
	for _, c := range []struct {
		congestion, restart string
		want                []string
	}{
		{"reno", "1", nil},
		{"reno", "0", []string{"a idle-restart", "qperf:a idle-restart"}},
		{"no-such", "1", []string{"a congestion-differs", "qperf:a congestion-differs"}},
	} {
		own := map[string]string{congestionControl: c.congestion, idleRestart: c.restart}
		var got []string
		for _, w := range congestionWarnings(plan, ends, []string{"qperf"}, own) {
			if c.congestion == "reno" && w.Code == "congestion-differs" && w.Arm == "qperf:a" {
				continue // as the machine has it, and only a tool must take it
			}
			got = append(got, w.Arm+" "+w.Code)
			if w.Code == "congestion-differs" && !strings.Contains(w.Text, "no-such") {
				t.Errorf("%q does not name both", w.Text)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s, %s: %q, want %q", c.congestion, c.restart, got, c.want)
		}
	}
	plan.Cells = plan.Cells[:1]
	if got := congestionWarnings(plan, ends, nil, map[string]string{idleRestart: "0"}); got != nil {
		t.Errorf("without TCP: %+v", got)
	}
}

func TestCrossed(t *testing.T) {
	m := lab.Machine{
		Name: "m1", Namespace: "own",
		Pods:     []host.Named{{Name: "m1/ovs", Path: "pod"}},
		Switches: []host.Named{{Name: "m1/ovs.ovs", Path: "first"}, {Name: "m1/ovs.2.ovs", Path: "second"}},
		Attached: []host.Named{{Name: "m1/attach", Path: "other"}},
	}
	for arm, want := range map[string][]string{
		"host": {"own"}, "vxlan": {"own"}, "ovs": {"first"}, "ovs.2": {"second"}, "attach": nil, "attach.2": {"own"},
	} {
		if got := crossed(m, arm); !slices.Equal(got, want) {
			t.Errorf("%s crosses %q, want %q", arm, got, want)
		}
	}
}
