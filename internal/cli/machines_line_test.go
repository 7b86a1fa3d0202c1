package cli

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
)

// run runs a command on the machines, and wants one of these exit codes and what it says to hold
// these texts.
func (p *machinePair) run(codes []int, want []string, args ...string) {
	p.t.Helper()
	c := p.start(args...)
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	select {
	case <-ended:
	case <-time.After(host.ScaleTimeout(10 * time.Minute)):
		p.t.Fatalf("%q does not end: %s", args, c.output())
	}
	good := false
	for _, code := range codes {
		good = good || c.ProcessState.ExitCode() == code
	}
	for _, text := range want {
		good = good && strings.Contains(c.output(), text)
	}
	if !good {
		p.t.Fatalf("%q: exit code %d, want one of %v and %q in: %s", args, c.ProcessState.ExitCode(), codes, want, c.output())
	}
}

// Behind an ssh whose round trip takes 200 ms, and behind one that stalls for two seconds again
// and again, all commands on machines do what they do.
func TestCommandsBehindSlowSSH(t *testing.T) {
	testenv.Root(t)
	for name, line := range map[string]testenv.SSHLine{
		"200 ms": {Delay: 100 * time.Millisecond}, "stalls": {Open: 2 * time.Second, Stall: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			p := newMachinePair(t)
			for _, m := range p.machines {
				m.Route(t, line)
			}
			p.flags[len(p.flags)-1] = strings.Join(testenv.SSHCommand(t, p.machines...), " ")
			changed := func(want bool) {
				t.Helper()
				for i, m := range p.machines {
					if is := p.settings(m) != p.initial[i]; is != want {
						t.Fatalf("%s is changed: %v", m.Name, is)
					}
				}
			}
			ok := []int{0}
			p.run([]int{0, 8}, []string{"a, b"}, "doctor", "--interval", "0s")
			p.run(ok, []string{"machine a", "machine b"}, "knob", "get", "net.listen")
			p.run(ok, []string{"machine b"}, "knob", "set", "net.listen", "8192", "--plan")
			changed(false)
			p.run(ok, []string{"-> accept=8192"}, "knob", "set", "net.listen", "8192")
			changed(true)
			p.run(ok, []string{"restored"}, "undo")
			changed(false)
			p.run(ok, []string{"Nothing was changed"}, "tune", "--profile", "throughput", "--dev", "eth0", "--plan")
			p.run(ok, []string{"venturi confirm"}, "tune", "--profile", "throughput", "--dev", "eth0", "--apply", "--trial", "10m")
			changed(true)
			p.run(ok, nil, "confirm")
			p.run(ok, []string{"machine b"}, "journal", "--open")
			p.run(ok, []string{"restored"}, "undo")
			changed(false)

			proof := p.start("tune", "--profile", "throughput", "--prove", "--dev", "eth0", "--budget", "30m")
			p.await(host.ScaleTimeout(10*time.Minute), "measuring", func() bool { return strings.Contains(proof.output(), "measuring the path against itself") })
			time.Sleep(2 * (line.Open + line.Stall)) // through two stalls
			if err := proof.Process.Signal(os.Interrupt); err != nil {
				t.Fatalf("the proof has ended: %v: %s", err, proof.output())
			}
			_ = proof.Wait()
			if code := proof.ProcessState.ExitCode(); code != 130 {
				t.Errorf("the interrupted proof: exit code %d: %s", code, proof.output())
			}
			p.asBefore(0, 1)
		})
	}
}
