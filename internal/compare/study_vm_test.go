package compare_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/remote"
	"github.com/venturi-net/venturi/internal/report/layout"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/study"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
)

// logger tells a test's log how a run goes.
type logger struct{ t *testing.T }

func (l logger) Event(e experiment.Event) {
	l.t.Logf("%s: series %d, cell %d", time.Now().Format(time.TimeOnly), e.Series, e.Cell)
}

func (l logger) Say(format string, args ...any) {
	l.t.Logf(time.Now().Format(time.TimeOnly)+": "+format, args...)
}

// The study of QinQ, with the datapath of Open vSwitch that is in the kernel, over the cards of
// two machines that have a kernel each.
func TestQinQStudyOnVMs(t *testing.T) {
	testenv.NeedsLong(t)
	m := agenttest.NewVMMachines(t, 2<<10, "6.1", "6.12")
	s, err := study.Open("qinq")
	testenv.Must(t, err)
	s = s.OnMachines()
	s.Paths = slices.DeleteFunc(s.Paths, func(p study.Path) bool { return !slices.Contains([]string{"host", "ovs-qinq", "qinq"}, p.Name) })
	s.Loads = s.Loads[:1] // 640 streams are more than an emulated CPU opens in minutes
	s.Budget = time.Minute
	q := s.Requests()[0]
	q.Out = t.TempDir()
	q.Remote = compare.Remote{
		Machines: []remote.Machine{{Name: "a", Host: "va"}, {Name: "b", Host: "vb"}}, Dev: "eth0",
		Options: remote.Options{Program: testenv.Program(t)[0], SSH: m.SSH, NoCopy: true, Limit: 10 * time.Minute},
	}
	r, err := q.Resolve()
	testenv.Must(t, err)
	rec, _, err := compare.Do(t.Context(), r, compare.Host{Watch: logger{t}})
	if err != nil {
		for i := range m.Guests {
			t.Log(m.Do(t, i, "uptime; free -m; ps -ef | tail -n 30; dmesg | tail -n 20"))
		}
		t.Fatal(err)
	}
	carried := map[string]int{}
	for _, slice := range rec.Slices {
		if slice.Stream != nil && slice.Stream.RecvBytes > 0 {
			carried[slice.Arm]++
		}
	}
	for _, arm := range rec.Plan.Arms {
		if all := len(rec.Slices) / len(rec.Plan.Arms); carried[arm.Name] < all/2 || all == 0 {
			t.Errorf("%d of %d slices of %s carried something", carried[arm.Name], all, arm.Name)
		}
	}
	if a, b := rec.Facts[0].Kernel, rec.Facts[1].Kernel; !strings.HasPrefix(a, "6.1.") || !strings.HasPrefix(b, "6.12.") {
		t.Errorf("the kernels are %s and %s", a, b)
	}
	var table strings.Builder
	testenv.Must(t, layout.Write(&table, []layout.Wired{{Wire: study.RealWire, Record: rec}}, s.CrossWireLayout(), view.Options{Format: layout.Formats()[0]}))
	t.Log(table.String())
	for _, arm := range rec.Plan.Arms {
		if arm.Role == "" && !strings.Contains(table.String(), arm.Name) {
			t.Errorf("the table does not show %s", arm.Name)
		}
	}
	left := ""
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
		left = ""
		for i := range m.Guests {
			left += m.Do(t, i, "(ls /run/netns 2>/dev/null | grep venturi; ps -ef | grep -e '[a]gent --' -e '[o]vs-vswitchd'; ip -br link | grep wire) || true")
		}
		if left == "" {
			return
		}
	}
	t.Errorf("two minutes later there is still %s", left)
}
