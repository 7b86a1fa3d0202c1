package compare

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/result"
)

// TestFastPathIsRecorded wants both machines' counts of a path that has a fast path,
// in each series, and none of one that has not.
func TestFastPathIsRecorded(t *testing.T) {
	h := testHost(t, deaf{})
	if answer, err := feature.Programs.Ask(); answer != feature.Yes {
		t.Skipf("this kernel has no fast path: %v", err)
	}
	q := short(t, "udp_lat")
	q.Paths, q.Rounds = []string{"vxlan", "vxlan+fast"}, 8
	rec, _, err := Do(t.Context(), resolve(t, q), h)
	if err != nil {
		t.Fatal(err)
	}
	lines, carried := map[string]int{}, map[string]int64{}
	for _, m := range rec.Meters {
		if m.Name == "accel" {
			lines[m.Arm+" "+m.Machine]++
			carried[m.Machine+" out"] += m.Values["accel/carried_out"]
			carried[m.Machine+" in"] += m.Values["accel/carried_in"]
		}
	}
	if len(lines) != 2 || lines["vxlan+fast m1"] != 3 || lines["vxlan+fast m2"] != 3 {
		t.Errorf("lines of the meter: %v, want 3 of each machine", lines)
	}
	for _, way := range []string{"m1 out", "m1 in", "m2 out", "m2 in"} {
		if carried[way] == 0 {
			t.Errorf("nothing was carried %s: %v", way, carried)
		}
	}
	if slices.ContainsFunc(rec.Warnings, func(w result.Warning) bool { return w.Arm != "" }) {
		t.Errorf("warnings: %+v", rec.Warnings)
	}
	if !slices.ContainsFunc(rec.Warnings, func(w result.Warning) bool { return w.Code == "fast-path-on-wire" }) {
		t.Errorf("no word of the programs that the baseline passes: %+v", rec.Warnings)
	}
	row := analyze(t, rec).Cells[0].Rows[2]
	if row.Arm.Name != "vxlan+fast" || row.FastPath == nil || row.FastPath.Flows < 1 || row.FastPath.Flows > 3 || row.FastPath.Carried < 0.5 {
		t.Errorf("%s: %+v", row.Arm.Name, row.FastPath)
	}
}

// TestFastPathsOff wants the reasons of a daemon that carries nothing, or that somebody else has
// ended, and no word of one that does, or that has left no state.
func TestFastPathsOff(t *testing.T) {
	l := &lab.Lab{Machines: []lab.Machine{{Name: "m1"}, {Name: "m2"}}}
	for _, name := range []string{"on", "off", "gone"} {
		arm := lab.Arm{Name: name}
		for i := range l.Machines {
			arm.Pins = append(arm.Pins, filepath.Join(t.TempDir(), "bpf"))
			text := `{}`
			if name == "off" && i == 1 {
				text = `{"off": "of a reason", "refused": [{"device": "eth0", "why": "it is odd"}]}`
			}
			if name == "gone" {
				continue
			}
			if err := os.WriteFile(fastpath.StateFile(arm.Pins[i]), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		l.Arms = append(l.Arms, arm)
	}
	want := []result.Warning{
		{Code: "fast-path-off", Arm: "off", Text: "its fast path carried nothing when the run ended: m2: of a reason"},
		{Code: "fast-path-refused", Arm: "off", Text: "its fast path did not carry all when the run ended: m2: by eth0: it is odd"},
	}
	ended := fastPathEnd{"pods", "a", func() (*fastpath.State, error) { return attachedState("", lab.FastPathState) }}
	want = append(want, result.Warning{Code: "fast-path-off", Arm: "pods", Text: "its fast path carried nothing when the run ended: a: its daemon has ended"})
	if got := fastPathWarnings(append(labFastPaths(l), ended)); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestFastPathOnWire wants a word where the baseline passes the programs of another path, and none
// where that has no programs, or the baseline a card of its own.
func TestFastPathOnWire(t *testing.T) {
	for _, c := range []struct {
		base  string
		arms  []string
		named string // in the warning; empty: there is none
	}{
		{"host", []string{"vxlan", "routed"}, ""},
		{"host", []string{"vxlan", "vxlan+fast"}, "programs of vxlan+fast, which cost host"},
		{"vxlan", []string{"vxlan+fast", "routed+fast"}, "programs of vxlan+fast and routed+fast, which cost vxlan"},
		{"macvlan", []string{"vxlan+fast"}, ""},
		{"attach", []string{"vxlan+fast"}, ""},
		{"vxlan+fast", []string{"vxlan"}, ""}, // what its own programs cost is its own cost
	} {
		plan := &result.Plan{Arms: []result.Arm{
			{Name: c.base, Path: c.base, Role: result.RoleBaseline}, {Name: "copy", Path: c.base, Role: result.RoleCopy},
		}}
		for _, name := range c.arms {
			plan.Arms = append(plan.Arms, result.Arm{Name: name, Path: name})
		}
		ends := make([]experiment.Ends, len(plan.Arms))
		for i, arm := range plan.Arms {
			if strings.HasSuffix(arm.Path, "+fast") || arm.Path == "attach" {
				ends[i].ClientPins = "bpf"
			}
		}
		got := fastPathOnWire(plan, ends)
		if (len(got) > 0) != (c.named != "") || len(got) > 0 && !strings.Contains(got[0].Text, c.named) {
			t.Errorf("%s with %v: %+v, want %q", c.base, c.arms, got, c.named)
		}
	}
}
