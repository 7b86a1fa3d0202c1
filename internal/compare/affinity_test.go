package compare

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/remote"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// The cores of a machine go to its end, the first, which takes interrupts, last; those of a
// machine with both ends go to both in turn.
func TestCoresOfEnds(t *testing.T) {
	for _, c := range []struct {
		allowed, own, client, server []int
	}{
		{nil, nil, nil, nil},
		{[]int{3}, []int{3}, []int{3}, []int{3}},
		{[]int{0, 1}, []int{1, 0}, []int{0}, []int{1}},
		{[]int{0, 2, 4, 6, 8}, []int{2, 4, 6, 8, 0}, []int{0, 4, 8}, []int{2, 6}},
	} {
		client, server := dealCores(c.allowed)
		if own := ownCores(c.allowed); !slices.Equal(own, c.own) || !slices.Equal(client, c.client) || !slices.Equal(server, c.server) {
			t.Errorf("%v: one end %v, both ends %v and %v", c.allowed, own, client, server)
		}
		first, second := ChooseCPUs(c.allowed)
		if first != onCores(c.client).cpu || second != onCores(c.server).cpu {
			t.Errorf("%v: the ends are pinned to %d and %d", c.allowed, first, second)
		}
		for _, end := range []affinity{onCores(client), onCores(server), onCores(ownCores(c.allowed))} {
			if other, ok := end.spare(); ok != (len(end.cores) > 1) || ok && other != end.cores[1] || !ok && other != -1 {
				t.Errorf("%v: beside core %d, of %v: %d, %v", c.allowed, end.cpu, end.cores, other, ok)
			}
		}
	}
	if a := onCores(nil); a.cpu != -1 || a.cores != nil {
		t.Errorf("on no cores: %+v", a)
	}
}

// A machines file's cores are used in its order, as far as a process may run there.
func TestMachineCores(t *testing.T) {
	for _, c := range []struct{ named, want []int }{
		{nil, []int{1, 2, 3, 0}},
		{[]int{3, 1}, []int{3, 1}},
		{[]int{9, 2, 2}, []int{2}},
	} {
		if got, err := machineCores(remote.Machine{Name: "a", Cores: c.named}, []int{0, 1, 2, 3}); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("cores: %v: %v, %v", c.named, got, err)
		}
	}
	if got, err := machineCores(remote.Machine{Name: "a", Cores: []int{9}}, []int{0, 1}); verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), "[0 1]") {
		t.Errorf("a core that is not there: %v, %v", got, err)
	}
}

// Threads get no core that a stream beside them has for itself, and a machine with fewer cores
// than threads is named.
func TestThreadCores(t *testing.T) {
	threads := result.Cell{Load: "tcp_rr", Flows: 5, Threads: 5}
	beside := threads
	beside.Background = &result.BackgroundLoad{Cores: experiment.OtherCores}
	machines := func(cores ...[]int) *Session {
		s := &Session{}
		for i, of := range cores {
			s.machines = append(s.machines, testMachine{name: string(rune('a' + i)), affinity: onCores(of)})
		}
		return s
	}
	six := []int{1, 2, 3, 4, 5, 0}
	shared := machines([]int{0, 2, 4}, []int{1, 3})
	shared.sharedCores = true
	ofLab := machines([]int{0}, []int{1})
	ofLab.lab = &lab.Lab{}
	for name, c := range map[string]struct {
		s     *Session
		cell  result.Cell
		cpus  [2][]int
		notes []string
	}{
		"enough":       {machines(six, six), threads, [2][]int{six, six}, nil},
		"no threads":   {machines([]int{1, 0}, []int{1}), result.Cell{Flows: 5}, [2][]int{{1, 0}, {1}}, nil},
		"too few":      {machines([]int{1, 0}, []int{7}), threads, [2][]int{{1, 0}, {7}}, []string{"the 5 threads of an end share 2 cores of machine a", "the 5 threads of an end share one core of machine b"}},
		"beside":       {machines(six, six), beside, [2][]int{{1, 3, 4, 5, 0}, {1, 2, 4, 5, 0}}, nil},
		"both at once": {shared, beside, [2][]int{{0, 4}, {1}}, []string{"share 2 cores of machine a", "share one core of machine b"}},
		"further":      {machines(six, six, []int{0}), threads, [2][]int{six, six}, []string{"share one core of machine c"}},
		"lab":          {ofLab, threads, [2][]int{{0}, {1}}, nil},
	} {
		plan := &result.Plan{Cells: []result.Cell{c.cell}}
		cpus := c.s.threadCPUs(plan, [2]int{2, 3})
		if !reflect.DeepEqual(cpus, c.cpus) {
			t.Errorf("%s: cores %v, want %v", name, cpus, c.cpus)
		}
		notes := c.s.fewCores(plan, cpus)
		if !slices.EqualFunc(notes, c.notes, func(w result.Warning, text string) bool { return strings.Contains(w.Text, text) }) {
			t.Errorf("%s: notes %v, want %v", name, notes, c.notes)
		}
	}
}

// Servers with cores of their own get these, also for threads; where client and server are on one
// node, each begins with another core.
func TestServerAffinity(t *testing.T) {
	s := &Session{machines: []testMachine{{affinity: onCores([]int{1, 2, 0})}, {affinity: onCores([]int{5, 4})}}}
	for node, want := range [][]int{{0, 2, 1}, {5, 4}} {
		a := &plannedServer{}
		group := &serverGroup{members: []groupMember{{ServerAgent: a, affinity: s.serverAffinity(node)}}, agentOf: map[string]int{"host": 0}}
		for _, threads := range []int{0, 3} {
			if _, err := group.Serve(context.Background(), load.Plan{Threads: threads, Arms: []load.Arm{{Name: "host"}}}, nil); err != nil {
				t.Fatal(err)
			}
			cores := want
			if threads == 0 {
				cores = nil
			}
			if p := a.plan; p.ServerCPU != want[0] || p.ClientCPU != -1 || !slices.Equal(p.ServerCPUs, cores) || p.ClientCPUs != nil {
				t.Errorf("node %d, %d threads: on core %d, threads on %v", node, threads, p.ServerCPU, p.ServerCPUs)
			}
		}
	}
}

// A stream beside a load that has cores of its own keeps one that its servers do not use, also where
// these are pinned anew; one on the load's cores goes with it.
func TestServerAffinityBeside(t *testing.T) {
	s := &Session{machines: []testMachine{{affinity: onCores([]int{1, 2, 3, 0})}, {affinity: onCores([]int{5, 4, 6})}}}
	for node, c := range []struct {
		load, beside int
		threads      []int
	}{{0, 3, []int{0, 2, 1}}, {5, 4, []int{5, 6}}} {
		a := &plannedServer{}
		group := &serverGroup{members: []groupMember{{ServerAgent: a, affinity: s.serverAffinity(node)}}, agentOf: map[string]int{"host": 0}}
		for _, own := range []bool{false, true} {
			plan := load.Plan{Threads: 2, ClientCPU: 1, ServerCPU: 5, Background: &load.Background{ClientCPU: 1, ServerCPU: 5}, Arms: []load.Arm{{Name: "host"}}}
			beside, threads := c.load, s.serverAffinity(node).cores
			if own {
				plan.Background.ClientCPU, plan.Background.ServerCPU = 2, 4
				beside, threads = c.beside, c.threads
			}
			if _, err := group.Serve(t.Context(), plan, nil); err != nil {
				t.Fatal(err)
			}
			if p := a.plan; p.ServerCPU != c.load || p.Background.ServerCPU != beside || !slices.Equal(p.ServerCPUs, threads) {
				t.Errorf("node %d, own cores %v: the load on %d and %v, the stream on %d; want %d and %v, %d",
					node, own, p.ServerCPU, p.ServerCPUs, p.Background.ServerCPU, c.load, threads, beside)
			}
		}
	}
}

// affinityWatch notes on which cores the threads of the loads' ends may run, by machine and name.
type affinityWatch struct {
	deaf
	machines []*testenv.SSHMachine
	cores    map[string]map[string]bool
}

func (w *affinityWatch) note() {
	for _, m := range w.machines {
		for pid := range m.Processes() {
			files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
			for _, file := range files {
				status, _ := os.ReadFile(file)
				name, cores := statusField(status, "Name"), statusField(status, "Cpus_allowed_list")
				if !strings.HasPrefix(name, "tcp_bw ") {
					continue
				}
				key := m.Name + " " + name
				if w.cores[key] == nil {
					w.cores[key] = map[string]bool{}
				}
				w.cores[key][cores] = true
			}
		}
	}
}

func statusField(status []byte, name string) string {
	for line := range bytes.Lines(status) {
		if value, ok := bytes.CutPrefix(line, []byte(name+":")); ok {
			return string(bytes.TrimSpace(value))
		}
	}
	return ""
}

// The threads of an end use as many cores of a real machine as there are threads; where the machines
// file names fewer, these, and a note says so.
func TestThreadsOnMachines(t *testing.T) {
	allowed, err := host.AllowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	if len(allowed) < 2 {
		t.Skip("one core")
	}
	m := joined(t)
	q := onCards(t, m, "host")
	q.Remote.Dev = ""
	q.Remote.Machines[0].Cores, q.Remote.Machines[1].Cores = allowed[:2], allowed[:1]
	q.Loads, q.Flows, q.Threads, q.Series, q.Rounds = []string{"tcp_bw"}, []int{4}, 2, 3, 10
	w := &affinityWatch{machines: m[:], cores: map[string]map[string]bool{}}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
				w.note()
			}
		}
	}()
	rec, _, err := Do(t.Context(), resolve(t, q), Host{Watch: w})
	close(done)
	<-ended
	if err != nil {
		t.Fatal(err)
	}
	first, second := fmt.Sprint(allowed[0]), fmt.Sprint(allowed[1])
	client, server := w.cores[m[0].Name+" tcp_bw client"], w.cores[m[1].Name+" tcp_bw server"]
	if !client[first] || !client[second] {
		t.Errorf("two threads of the client were on the cores %v", client)
	}
	if !server[first] || server[second] {
		t.Errorf("the threads of the server were on the cores %v, and the machines file names %s", server, first)
	}
	var notes []string
	for _, note := range rec.Warnings {
		if note.Code == "few-cores" {
			notes = append(notes, note.Text)
		}
	}
	if want := "the 2 threads of an end share one core of machine b"; !slices.Equal(notes, []string{want}) {
		t.Errorf("notes %q, want %q", notes, want)
	}
}
