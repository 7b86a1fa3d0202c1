package compare

import (
	"os"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/result"
)

// machines is a path between virtual machines, which are emulated: that works
// everywhere.
const machines = "vm-vlan:datapath=netdev,accel=tcg,cpus=1"

func needMachines(t *testing.T) {
	t.Helper()
	testenv.Root(t)
	arms, err := path.Arms([]string{machines}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range arms[0].Needs() {
		if answer, why := n.Ask(); answer == feature.No && !testenv.Required() {
			t.Skipf("%s: %v", n, why)
		}
	}
}

// TestGuestKilled: a virtual machine that is killed in mid-run costs its own
// path, with the reason. The record says that the path was emulated.
func TestGuestKilled(t *testing.T) {
	needMachines(t)
	testenv.NeedsLong(t)
	before := testenv.Snapshot(t)
	q := short(t, "udp_lat")
	q.Paths, q.Series, q.Rounds = []string{"host", machines}, 4, 4
	h := testHost(t, nil)
	h.Watch = onSeries(func(series int) {
		if series != 1 {
			return
		}
		for _, pid := range qemus(t, h.LabName)[:1] {
			kill(t, pid)
		}
	})
	rec, _, err := Do(t.Context(), resolve(t, q), h)
	if err != nil {
		t.Fatal(err)
	}
	arm := rec.Plan.Arms[len(rec.Plan.Arms)-1]
	if !arm.Emulated || rec.Plan.Arms[0].Emulated || arm.Versions["qemu"] == "" || arm.Versions["guest-linux"] == "" {
		t.Errorf("arms are %+v", rec.Plan.Arms)
	}
	slices := map[string]int{}
	for _, s := range rec.Slices {
		if s.Failed == "" {
			slices[s.Arm]++
		}
	}
	if slices["host"] != 16 || slices["vm-vlan"] < 4 || slices["vm-vlan"] >= 16 {
		t.Errorf("slices: %v", slices)
	}
	told := false
	for _, w := range rec.Warnings {
		told = told || w.Arm == "vm-vlan" && w.Cell == "" && strings.Contains(w.Text, "the virtual machine with kernel") && strings.Contains(w.Text, "killed")
	}
	if !told || rec.End.Reason != result.Complete {
		t.Errorf("warnings %+v, end %+v", rec.Warnings, rec.End)
	}
	if after := testenv.Snapshot(t); after != before {
		t.Errorf("the machine is not as it was.\nbefore:\n%s\nafter:\n%s", before, after)
	}
}

// TestKilledWithGuests: whoever is killed takes the virtual machines with it.
func TestKilledWithGuests(t *testing.T) {
	needMachines(t)
	h := testHost(t, deaf{})
	run := startController(t, h.LabName, "host", machines)
	run.awaitSlices(t, 20)
	guests := qemus(t, h.LabName)
	kill(t, run.cmd.Process.Pid)
	run.awaitEnd(t, true)
	if _, err := lab.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	for _, pid := range guests {
		if command := (host.Reader{}).Command(pid); strings.Contains(strings.Join(command, " "), "qemu") {
			t.Errorf("virtual machine %d lives: %v", pid, command)
		}
	}
}

// qemus lists the virtual machines of a lab, of which there are two.
func qemus(t *testing.T, labName string) (pids []int) {
	t.Helper()
	names, err := os.ReadDir(host.NamespaceFolder)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if !strings.HasPrefix(n.Name(), "venturi."+labName+".") {
			continue
		}
		id, err := host.ID(host.NamespacePath(n.Name()))
		if err != nil {
			t.Fatal(err)
		}
		in, err := host.Reader{}.ProcessesIn(id)
		if err != nil {
			t.Fatal(err)
		}
		for _, pid := range in {
			if command := (host.Reader{}).Command(pid); len(command) > 0 && strings.Contains(command[0], "qemu") {
				pids = append(pids, pid)
			}
		}
	}
	if len(pids) != 2 {
		t.Fatalf("%d virtual machines run, want 2", len(pids))
	}
	return pids
}

// onSeries calls itself when a series begins.
type onSeries func(series int)

func (f onSeries) Event(e experiment.Event) {
	if e.Cell == 0 {
		f(e.Series)
	}
}
func (onSeries) Say(string, ...any) {}
