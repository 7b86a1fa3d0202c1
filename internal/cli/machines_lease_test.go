package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/testenv"
)

// machinePair is two machines that ssh reaches, and a controller here.
type machinePair struct {
	t        *testing.T
	machines []*testenv.SSHMachine
	flags    []string // that name them
	initial  []string // their settings
}

// newMachinePair makes two machines that have the program: to bring it anew for each command takes
// seconds, and is tested where a machine is made that lacks it.
func newMachinePair(t *testing.T) *machinePair {
	p := &machinePair{t: t, machines: []*testenv.SSHMachine{testenv.NewSSHMachine(t, "alpha"), testenv.NewSSHMachine(t, "beta")}}
	testenv.Join(t, p.machines[0], p.machines[1])
	p.flags = []string{"--machines", "a=ssh://alpha,b=ssh://beta", "--ssh", strings.Join(testenv.SSHCommand(t, p.machines...), " ")}
	program, err := os.Executable()
	testenv.Must(t, err)
	for _, m := range p.machines {
		m.Install(t, program)
		m.Do(t, "ethtool", "-K", "eth0", "tso", "off", "gso", "off", "gro", "off")
		p.initial = append(p.initial, p.settings(m))
	}
	return p
}

// settings are those of a machine that the tests change, to the byte.
func (p *machinePair) settings(m *testenv.SSHMachine) string {
	return m.Output(p.t, "sh", "-c", "ethtool -k eth0; sysctl net.core.somaxconn net.ipv4.tcp_max_syn_backlog net.ipv4.tcp_rmem net.ipv4.tcp_wmem net.ipv4.tcp_congestion_control")
}

// controller is a venturi that runs here.
type controller struct {
	*exec.Cmd
	text testenv.Output
}

func (c *controller) output() string { return c.text.String() }

func (p *machinePair) start(args ...string) *controller {
	p.t.Helper()
	program, err := os.Executable()
	if err != nil {
		p.t.Fatal(err)
	}
	c := &controller{Cmd: &exec.Cmd{Path: program, Args: append(append([]string{"venturi"}, args...), p.flags...)}}
	c.Stdout, c.Stderr = &c.text, &c.text
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	return c
}

// await waits until something holds.
func (p *machinePair) await(limit time.Duration, what string, holds func() bool) {
	p.t.Helper()
	begin := time.Now()
	for !holds() {
		if time.Since(begin) > limit {
			p.t.Fatalf("after %v: not yet %s", limit, what)
		}
		time.Sleep(50 * time.Millisecond)
	}
	p.t.Logf("%s after %v", what, time.Since(begin).Round(10*time.Millisecond))
}

// endsWithin is how long a controller may take to end when a machine is gone: it gives the other one back
// first, and reports. On busy cores that has taken more than ten seconds.
var endsWithin = restoredWithin + 20*time.Second

// restoredWithin is how long a machine may take to be as it was: 5 s, and what busy cores add.
var restoredWithin = host.ScaleTimeout(5*time.Second) + 25*time.Second

// asBefore waits until machines are as they were, with nothing of ours on them but a journal
// in which nothing is open.
func (p *machinePair) asBefore(which ...int) {
	p.t.Helper()
	for _, i := range which {
		m := p.machines[i]
		p.await(restoredWithin, m.Name+" has nothing of ours", func() bool {
			left, _ := filepath.Glob(m.Root() + "/dev/shm/venturi*")
			return len(m.Processes()) == 0 && len(left) == 0
		})
		if after := p.settings(m); after != p.initial[i] {
			p.t.Errorf("%s was\n%s\nand is\n%s", m.Name, p.initial[i], after)
		}
		h, err := journal.ReadHistory(m.Root() + journal.Folder)
		if err != nil || len(h.Txns) == 0 {
			p.t.Errorf("the journal of %s: %v, %d transactions", m.Name, err, len(h.Txns))
		}
		for _, txn := range h.Txns {
			if txn.Open() {
				p.t.Errorf("transaction %d of %s is open", txn.ID, m.Name)
			}
		}
	}
}

// kill ends the processes of a machine whose command line has a word.
func kill(m *testenv.SSHMachine, word string) {
	for pid, command := range m.Processes() {
		if strings.Contains(command, word) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// What a proof tries on two machines is taken back by each of them, whatever is killed.
func TestProofOnMachinesIsCut(t *testing.T) {
	testenv.Root(t)
	for name, cut := range map[string]func(p *machinePair, c *controller){
		"controller killed": func(_ *machinePair, c *controller) { _ = c.Process.Kill() },
		"interrupted":       func(_ *machinePair, c *controller) { _ = c.Process.Signal(os.Interrupt) },
		"agent killed":      func(p *machinePair, _ *controller) { kill(p.machines[1], "agent --stdio") },
		"ssh cut":           func(p *machinePair, _ *controller) { kill(p.machines[0], "sshd") },
	} {
		t.Run(name, func(t *testing.T) {
			p := newMachinePair(t)
			c := p.start("tune", "--profile", "throughput", "--prove", "--dev", "eth0", "--host", "--budget", "30m")
			p.await(host.ScaleTimeout(5*time.Minute), "measuring", func() bool { return strings.Contains(c.output(), "measuring the path against itself") })
			for _, m := range p.machines {
				if h, err := journal.ReadHistory(m.Root() + journal.Folder); err != nil || len(h.Txns) != 1 || len(h.Txns[0].Entries) == 0 {
					t.Fatalf("%s has tried nothing: %v, %+v; %s", m.Name, err, h.Txns, c.output())
				}
			}
			cut(p, c)
			p.asBefore(0, 1)
			ended := make(chan error, 1)
			go func() { ended <- c.Wait() }()
			select {
			case err := <-ended:
				if err == nil {
					t.Errorf("the controller ended well: %s", c.output())
				}
			case <-time.After(restoredWithin):
				t.Errorf("the controller is still there: %s", c.output())
			}
		})
	}
}

// An undo on one machine ends a proof, with what it has measured, and all machines are as they were.
func TestUndoEndsProof(t *testing.T) {
	testenv.Root(t)
	p := newMachinePair(t)
	c := p.start("tune", "--profile", "throughput", "--prove", "--dev", "eth0", "--host", "--budget", "30m")
	p.await(host.ScaleTimeout(5*time.Minute), "measuring", func() bool { return strings.Contains(c.output(), "measuring the path against itself") })
	undo := p.start("undo", "--on", "b")
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	select {
	case <-ended:
	case <-time.After(host.ScaleTimeout(5 * time.Minute)):
		t.Fatalf("the proof goes on: %s", c.output())
	}
	if code := c.ProcessState.ExitCode(); code != 7 || strings.Count(c.output(), "b: cannot go on with the proof") != 1 || !strings.Contains(c.output(), "somebody ran \"venturi undo\"") {
		t.Errorf("exit code %d, want 7 and why: %s", code, c.output())
	}
	if err := undo.Wait(); err != nil || !strings.Contains(undo.output(), "nothing to undo") {
		t.Errorf("undo: %v: %s", err, undo.output())
	}
	p.asBefore(0, 1)
}

// A machine that is paused does not keep the other from being as it was, and is so itself as
// soon as it goes on.
func TestProofOnMachinesIsPaused(t *testing.T) {
	testenv.Root(t)
	p := newMachinePair(t)
	c := p.start("tune", "--profile", "throughput", "--prove", "--dev", "eth0", "--host", "--budget", "30m")
	p.await(host.ScaleTimeout(5*time.Minute), "measuring", func() bool { return strings.Contains(c.output(), "measuring the path against itself") })
	p.machines[1].Stop(t)
	p.asBefore(0)
	_ = c.Wait()
	p.machines[1].Continue()
	p.asBefore(1)
}

// A change of two machines that is cut half-way is made on none of them.
func TestChangeOfMachinesIsCut(t *testing.T) {
	testenv.Root(t)
	for name, cut := range map[string]func(p *machinePair, c *controller){
		"controller killed": func(_ *machinePair, c *controller) { _ = c.Process.Kill() },
		"agent killed":      func(p *machinePair, _ *controller) { kill(p.machines[0], "agent --stdio") },
		"ssh cut":           func(p *machinePair, _ *controller) { kill(p.machines[0], "sshd") },
		"machine paused":    func(p *machinePair, _ *controller) { p.machines[1].Stop(p.t) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newMachinePair(t)
			// The other machine does not get at its journal, and says so after a second: meanwhile
			// this one has made its change and waits.
			b := p.machines[1]
			b.Do(t, "sh", "-c", "mkdir -p -m 700 /var/lib/venturi/journal; touch /var/lib/venturi/journal/journal; (flock /var/lib/venturi/journal/journal sleep 1000 >/dev/null 2>&1 &)")
			c := p.start("knob", "set", "net.listen", "8192")
			p.await(host.ScaleTimeout(5*time.Minute), "changed, or given up", func() bool {
				h, err := journal.ReadHistory(p.machines[0].Root() + journal.Folder)
				return err == nil && len(h.Txns) > 0 && len(h.Txns[0].Entries) > 0
			})
			cut(p, c)
			p.asBefore(0)
			if name == "machine paused" {
				b.Continue()
			}
			kill(b, "sleep 1000")
			_ = c.Wait()
			p.await(restoredWithin, "nothing left", func() bool { return len(b.Processes()) == 0 })
			if after := p.settings(b); after != p.initial[1] {
				t.Errorf("%s was\n%s\nand is\n%s", b.Name, p.initial[1], after)
			}
		})
	}
}
