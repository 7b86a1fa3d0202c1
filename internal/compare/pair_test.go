package compare

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/remote"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

func fourMachines() Remote {
	return Remote{Machines: []remote.Machine{{Name: "a", Host: "a"}, {Name: "b", Host: "b"}, {Name: "v1", Host: "v1"}, {Name: "v2", Host: "v2"}}}
}

// A path is between the machines that it names, or else between the first two.
func TestPathsBetweenMachines(t *testing.T) {
	q := Request{Remote: fourMachines(), Loads: []string{"tcp_lat"}, Paths: []string{
		"host", "host:v1,v2", "attach:red,from=a/ns:red,to=b/ns:red", "attach:vm,from=v1/self,to=v2/self", "attach:half,from=ns:red,to=b/ns:red", "attach:mixed,from=a/self,to=v2/self"}}
	r, err := q.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, arm := range r.arms {
		names = append(names, arm.Name)
	}
	if want := []string{"host", "v1-v2", "red", "vm", "half", "mixed"}; !slices.Equal(names, want) {
		t.Errorf("the paths are %v, want %v", names, want)
	}
	if want := []pair{{0, 1}, {2, 3}, {0, 1}, {2, 3}, {0, 1}, {0, 3}}; !slices.Equal(r.pairs, want) {
		t.Errorf("they are between %v, want %v", r.pairs, want)
	}
	if at := r.locations[3][0].Namespace; at != "self" {
		t.Errorf("the client of vm is in %q", at)
	}
	for path, why := range map[string]string{
		"host:v1":                           "1 machine",
		"host:v1,v1":                        "1 machine",
		"host:v1,v9":                        `no machine "v9"`,
		"attach:from=v1/ns:x,to=v1/ns:y":    "both ends are on machine v1",
		"attach:from=v1/ns:x,to=ns:y":       "names no machine",
		"attach:vm,from=v9/ns:x,to=v2/ns:y": "v9/ns:x",
	} {
		q.Paths = []string{path}
		if _, err := q.Resolve(); verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %q", path, err, why)
		}
	}
}

// What is built is measured between the machines that it names, if these have cards.
func TestBuiltPathsBetweenMachines(t *testing.T) {
	q := Request{Remote: fourMachines(), Loads: []string{"tcp_lat"}, Paths: []string{"host", "vxlan", "vxlan:a,v2,tunnels=2", "routed+fast:v2,a", "host:b,v2"}}
	q.Remote.Dev = "a=eth0,b=eth1,v2=eth2"
	r, err := q.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, arm := range r.arms {
		names = append(names, arm.Name)
	}
	if want := []string{"host", "vxlan", "vxlan-a-v2", "routed-fast-v2-a", "b-v2"}; !slices.Equal(names, want) || !slices.Equal(r.spread.names, []string{"", "", "vxlan-a-v2", "routed-fast-v2-a", "b-v2"}) {
		t.Errorf("the paths are %v and %v, want %v", names, r.spread.names, want)
	}
	if want := []pair{{0, 1}, {0, 1}, {0, 3}, {3, 0}, {1, 3}}; !slices.Equal(r.pairs, want) {
		t.Errorf("they are between %v, want %v", r.pairs, want)
	}
	if members := r.spread.members(); !slices.Equal(members, []int{0, 1, 3}) || r.spread.paths[2] != "vxlan:tunnels=2" {
		t.Errorf("built on machines %v: %v", members, r.spread.paths)
	}
	for path, why := range map[string]string{
		"vxlan:a":      "1 machine",
		"vxlan:a,v9":   `no machine "v9"`,
		"vxlan:a,v1":   "no network card of machine v1",
		"host:v1,b":    "no network card of machine v1",
		"vm-vxlan:a,b": "namespaces of one host",
	} {
		q.Paths = []string{"host", path}
		if _, err := q.Resolve(); verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %q", path, err, why)
		}
	}
}

// Four machines that share nothing but the kernel, in two pairs.
func fourJoined(t *testing.T) (all [4]*testenv.SSHMachine, r Remote) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r = fourMachines()
	for i, m := range r.Machines {
		all[i] = withProgram(t, m.Host)
	}
	testenv.Join(t, all[0], all[1])
	testenv.Join(t, all[2], all[3])
	r.Options = remote.Options{Program: program, SSH: testenv.SSHCommand(t, all[:]...)}
	return all, r
}

// Paths between different machines are slices of one series, with the CPU time and the facts of
// each machine.
func TestFourMachines(t *testing.T) {
	all, r := fourJoined(t)
	var lines []*testenv.SSHLine
	for _, m := range all {
		lines = append(lines, m.Route(t, testenv.SSHLine{}))
	}
	r.Options.SSH = testenv.SSHCommand(t, all[:]...)
	q := Request{Remote: r, Paths: []string{"attach:physical,from=a/self,to=b/self", "attach:vm,from=v1/self,to=v2/self"},
		Loads: []string{"tcp_lat", "tcp_bw"}, Series: 2, Rounds: 6, Slice: 20 * time.Millisecond, Out: t.TempDir()}
	rec, _, err := Do(t.Context(), resolve(t, q), Host{Watch: deaf{}})
	if err != nil {
		t.Fatal(err)
	}
	measured(t, rec)
	silentInSlices(t, rec, lines)
	for i, f := range rec.Facts {
		if f.Machine != r.Machines[i].Name {
			t.Errorf("facts %d are of %s", i, f.Machine)
		}
	}
	vm := rec.Plan.Arms[2]
	if len(rec.Facts) != 4 || vm.Name != "vm" || vm.FromMachine != "v1" || vm.ToMachine != "v2" {
		t.Errorf("%d facts; the path is %+v", len(rec.Facts), vm)
	}
	counted := map[string]bool{}
	for _, m := range rec.Meters {
		if m.Name == "cpu" {
			counted[m.Arm+" "+m.Machine] = true
		}
	}
	for _, of := range []string{"physical a", "physical b", "vm v1", "vm v2"} {
		if !counted[of] {
			t.Errorf("no CPU time of %s: %v", of, counted)
		}
	}
	if counted["vm a"] || counted["physical v1"] {
		t.Errorf("CPU time of machines that a path is not between: %v", counted)
	}
	inTurn(t, rec.Slices, vm.Name)
	for _, m := range all {
		noAgent(t, m)
	}
}

// inTurn checks that slices come one after the other, whoever has them: in each series, the clock of the
// second pair may differ from that of the first by the same time throughout, as far as they were estimated
// on a busy machine.
func inTurn(t *testing.T, slices []result.Slice, second string) {
	t.Helper()
	type between struct{ least, most int64 } // by how much the second pair's clock may be late, ns
	late := map[int]between{}
	for i := 1; i < len(slices); i++ {
		before, s := slices[i-1], slices[i]
		if s.Series != before.Series {
			continue
		}
		l, known := late[s.Series]
		if !known {
			l = between{math.MinInt64, math.MaxInt64}
		}
		switch gap := s.Start - before.Start; {
		case s.Arm == second && before.Arm != second:
			l.least = max(l.least, -gap)
		case s.Arm != second && before.Arm == second:
			l.most = min(l.most, gap)
		case gap < 0:
			t.Errorf("the slice of %s in round %d of series %d begins before the one before it", s.Arm, s.Round, s.Series)
		}
		late[s.Series] = l
	}
	for series, l := range late {
		if l.least > l.most {
			t.Errorf("the slices of series %d do not come one after the other, whatever the clocks differ by", series)
		}
	}
}

// A machine of the second pair that is lost ends the run, with what was measured until then.
func TestFourMachinesLoseOne(t *testing.T) {
	for name, c := range map[string]struct {
		machine int
		lose    func(t *testing.T, m *testenv.SSHMachine)
	}{
		"client stopped":      {2, func(t *testing.T, m *testenv.SSHMachine) { m.Stop(t) }},
		"server agent killed": {3, func(_ *testing.T, m *testenv.SSHMachine) { killAll(m, "agent --stdio") }},
	} {
		t.Run(name, func(t *testing.T) {
			all, r := fourJoined(t)
			q := Request{Remote: r, Paths: []string{"host", "host:v1,v2"}, Loads: []string{"tcp_lat"}, Series: 100, Rounds: 10, Slice: 20 * time.Millisecond, Out: t.TempDir()}
			var lost time.Time
			rec, _, err := Do(t.Context(), resolve(t, q), Host{Watch: &firstSeries{callback: func() { lost = time.Now(); c.lose(t, all[c.machine]) }}})
			took := time.Since(lost)
			t.Logf("%v after %s was lost: %v", took.Round(time.Millisecond), all[c.machine].Name, err)
			if verr.Code(err) != verr.Partial || lost.IsZero() || took > givenUpAfter || rec == nil || len(rec.Slices) == 0 {
				t.Errorf("error %v after %v", err, took)
			}
			for k, m := range all {
				if k != c.machine {
					noAgent(t, m)
				}
			}
		})
	}
}
