package cli

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/testenv"
)

// cardState is what a machine has of network devices, namespaces and folders of ours.
func cardState(t *testing.T, m *testenv.SSHMachine) string {
	t.Helper()
	text := m.Output(t, "sh", "-c", `ls /run/netns 2>/dev/null | grep venturi; ls -d /run/venturi/*/ /dev/shm/venturi* /tmp/venturi* 2>/dev/null
ip -br link | sed 's/@.*//' | grep -v -E '^(tunl0|gre0|gretap0|erspan0|sit0|ip6tnl0)'
for d in eth0 eth1; do (ip -d link show dev $d; ip addr show dev $d) | sed 's/link-netnsid [0-9]*//'; (ip route show table all dev $d; ip -6 route show table all dev $d) | grep -v "table local"; done
cd /proc/sys/net; grep -r . ipv?/conf/eth1 2>/dev/null; true`)
	for _, passing := range []string{" tentative", " linkdown", "NO-CARRIER,", ",LOWER_UP", "state LOWERLAYERDOWN", "state UP", ",M-DOWN", "state DOWN"} {
		text = strings.ReplaceAll(text, passing, "")
	}
	return text
}

// Whoever ends a run on cards, and however: within seconds the machines are as they were.
func TestRunOnCardsIsCut(t *testing.T) {
	testenv.Root(t)
	for card, flags := range map[string][]string{"shared": {"--dev", "eth0"}, "taken": {"--take", "eth1"}} {
		for name, cut := range map[string]func(p *machinePair, c *controller){
			"interrupted":           func(_ *machinePair, c *controller) { _ = c.Process.Signal(os.Interrupt) },
			"controller killed":     func(_ *machinePair, c *controller) { _ = c.Process.Kill() },
			"client's agent killed": func(p *machinePair, _ *controller) { kill(p.machines[0], "agent --stdio") },
			"server's agent killed": func(p *machinePair, _ *controller) { kill(p.machines[1], "agent --stdio") },
			"all killed": func(p *machinePair, c *controller) {
				_ = c.Process.Kill()
				kill(p.machines[0], "agent --stdio")
				kill(p.machines[1], "agent --stdio")
			},
		} {
			t.Run(card+", "+name, func(t *testing.T) {
				p := newMachinePair(t)
				testenv.JoinSpare(t, p.machines[0], p.machines[1])
				before := []string{cardState(t, p.machines[0]), cardState(t, p.machines[1])}
				c := p.measure(flags...)
				cut(p, c)
				for i, m := range p.machines {
					p.asOnce(m, before[i])
				}
				_ = c.Wait()
				p.undone(card == "taken")
			})
		}
	}
}

// undone wants that no transaction is open on any machine, and that there are any if cards were
// taken.
func (p *machinePair) undone(taken bool) {
	p.t.Helper()
	for _, m := range p.machines {
		h, err := journal.ReadHistory(m.Root() + journal.Folder)
		for _, txn := range h.Txns {
			if txn.Open() {
				p.t.Errorf("transaction %d of %s is open", txn.ID, m.Name)
			}
		}
		if err != nil || taken != (len(h.Txns) > 0) {
			p.t.Errorf("%d transactions of %s, %v", len(h.Txns), m.Name, err)
		}
	}
}

// A machine that is paused for a minute is given up within seconds, and has what it had within
// seconds of the pause's end.
func TestRunOnCardsIsPaused(t *testing.T) {
	testenv.Root(t)
	pause := 20 * time.Second
	if testenv.Long() {
		pause = time.Minute
	}
	for card, c := range map[string]struct {
		flags  []string
		paused int
	}{"shared": {[]string{"--dev", "eth0"}, 1}, "taken": {[]string{"--take", "eth1"}, 0}} {
		t.Run(card, func(t *testing.T) {
			p := newMachinePair(t)
			testenv.JoinSpare(t, p.machines[0], p.machines[1])
			before := []string{cardState(t, p.machines[0]), cardState(t, p.machines[1])}
			run := p.measure(c.flags...)
			began := time.Now()
			p.machines[c.paused].Stop(t)
			run.awaitEnd(t, 7)
			p.asOnce(p.machines[1-c.paused], before[1-c.paused])
			time.Sleep(time.Until(began.Add(pause)))
			p.machines[c.paused].Continue()
			p.asOnce(p.machines[c.paused], before[c.paused])
			p.undone(card == "taken")
		})
	}
}

// A controller that falls silent, without its ssh ending, is given up by the machines: within
// seconds they are as they were. When it goes on, it reports what was measured.
func TestControllerFallsSilent(t *testing.T) {
	testenv.Root(t)
	p := newMachinePair(t)
	before := []string{cardState(t, p.machines[0]), cardState(t, p.machines[1])}
	run := p.measure("--dev", "eth0")
	p.holdUp(run, 5*time.Second)
	goOn := run.halt(t)
	for i, m := range p.machines {
		p.asOnce(m, before[i], "sshd") // that is no longer spoken to, and not ours
	}
	goOn()
	run.awaitEnd(t, 7)
	for i, m := range p.machines {
		p.asOnce(m, before[i])
	}
}

// holdUp stops all for a while, as if they were in a machine that is too busy to run them, or is paused: nobody has
// fallen silent, and nobody is given up.
func (p *machinePair) holdUp(run *controller, d time.Duration) {
	p.t.Helper()
	goOn := run.halt(p.t)
	for _, m := range p.machines {
		m.Stop(p.t)
	}
	time.Sleep(d)
	for _, m := range p.machines {
		m.Continue()
	}
	goOn()
	time.Sleep(2 * time.Second) // one that is given up is gone by then
	for _, m := range p.machines {
		if left := m.Processes(); !slices.ContainsFunc(slices.Collect(maps.Values(left)), func(command string) bool { return strings.Contains(command, "agent --stdio") }) {
			p.t.Fatalf("%v after all were held up, %s has no agent, but %v: %s", 2*time.Second, m.Name, left, run.output())
		}
	}
}

// halt stops a controller and its ssh, as if their machine were lost, until the function that it
// returns is called.
func (c *controller) halt(t *testing.T) (goOn func()) {
	t.Helper()
	pids := []int{c.Process.Pid}
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", c.Process.Pid))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for word := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(word)
			testenv.Must(t, err)
			pids = append(pids, pid)
		}
	}
	if len(pids) < 3 {
		t.Fatalf("the controller has the processes %v, and no ssh to two machines", pids)
	}
	signal := func(s syscall.Signal) {
		for _, pid := range pids {
			_ = syscall.Kill(pid, s)
		}
	}
	goOn = sync.OnceFunc(func() { signal(syscall.SIGCONT) })
	t.Cleanup(goOn)
	signal(syscall.SIGSTOP)
	return goOn
}

// An undo takes a card back, as it was, from a run that goes on. The run ends at once, says so, and
// reports what was measured; nothing is left.
func TestUndoTakesCardFromRun(t *testing.T) {
	testenv.Root(t)
	for i, undo := range []func(p *machinePair) string{
		func(p *machinePair) string {
			c := p.start("undo", "--on", "a")
			_ = c.Wait()
			return c.output()
		},
		func(p *machinePair) string {
			return p.machines[1].Output(t, "venturi", "undo")
		},
	} {
		p := newMachinePair(t)
		testenv.JoinSpare(t, p.machines[0], p.machines[1])
		m := p.machines[i]
		before := []string{cardState(t, p.machines[0]), cardState(t, p.machines[1])}
		run := p.measure("--take", "eth1")
		if devices := m.Devices(t, "lo", "eth0"); slices.Contains(devices, "eth1") {
			t.Fatalf("the card was not taken: %q", devices)
		}
		if said := undo(p); !strings.Contains(said, "restored") {
			t.Errorf("undo says %s", said)
		}
		if devices := m.Devices(t, "lo", "eth0"); !slices.Contains(devices, "eth1") {
			t.Errorf("the card is not at home, but %q", devices)
		}
		run.awaitEnd(t, 7)
		for _, want := range []string{"on machine " + []string{"a", "b"}[i], "network card eth1 was moved out of the lab"} {
			if !strings.Contains(run.output(), want) {
				t.Errorf("the run does not say %q, but:\n%s", want, run.output())
			}
		}
		for k, m := range p.machines {
			p.asOnce(m, before[k])
		}
		p.undone(true)
	}
}

// asOnce waits until nothing of ours runs on a machine, and it has what it had. Processes may stay
// whose command has a word of but.
func (p *machinePair) asOnce(m *testenv.SSHMachine, before string, but ...string) {
	p.t.Helper()
	began := time.Now()
	for {
		running := m.Processes()
		maps.DeleteFunc(running, func(_ int, command string) bool {
			return slices.ContainsFunc(but, func(word string) bool { return strings.Contains(command, word) })
		})
		over, after := time.Since(began) > restoredWithin, ""
		if len(running) == 0 || over { // to ask takes more of the cores than what it waits for
			after = cardState(p.t, m)
		}
		switch {
		case len(running) == 0 && after == before:
			p.t.Logf("%s is as it was after %v", m.Name, time.Since(began).Round(10*time.Millisecond))
			return
		case over:
			p.t.Fatalf("after %v %v run on %s, and it has changed:\n%s", restoredWithin, running, m.Name, testenv.Difference(before, after))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// measure starts a long run on cards, and waits until it has measured something.
func (p *machinePair) measure(flags ...string) *controller {
	p.t.Helper()
	out := p.t.TempDir()
	c := p.start(append([]string{"compare", "host", "vxlan", "--load", "tcp_lat", "--series", "200", "--rounds", "10", "--slice", "20ms", "--out", out}, flags...)...)
	p.awaitSlices(c, out, 1)
	return c
}

// A card whose lab was killed with all that watched it comes back by undo.
func TestTakenCardComesBackByUndo(t *testing.T) {
	testenv.Root(t)
	p := newMachinePair(t)
	testenv.JoinSpare(t, p.machines[0], p.machines[1])
	before := cardState(t, p.machines[1])
	c := p.measure("--take", "eth1")
	b := p.machines[1]
	_ = c.Process.Kill()
	kill(b, "agent --watch")
	kill(b, "agent --stdio")
	_ = c.Wait()
	p.await(restoredWithin, "nothing runs", func() bool { return len(b.Processes()) == 0 && len(p.machines[0].Processes()) == 0 })
	if strings.Contains(cardState(t, b), "eth1:") {
		t.Fatal("the card is back, and nobody could have brought it")
	}
	undo := p.start("undo", "--on", "b")
	if err := undo.Wait(); err != nil {
		t.Fatalf("undo: %v: %s", err, undo.output())
	}
	down := p.start("compare", "host", "--dev", "eth0", "--load", "tcp_lat", "--series", "1", "--rounds", "1", "--out", t.TempDir()) // removes the rest
	if err := down.Wait(); err != nil {
		t.Fatalf("the next run: %v: %s", err, down.output())
	}
	if after := cardState(t, b); after != before {
		t.Errorf("it has changed:\n%s", testenv.Difference(before, after))
	}
}
