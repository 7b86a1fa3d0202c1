package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/result"
)

// vmPair is a machinePair of virtual machines.
type vmPair struct {
	machinePair
	vms *agenttest.VMMachines
}

// emulatedLimit bounds what an emulated machine takes.
const emulatedLimit = 15 * time.Minute

// Two machines with kernels, clocks, process tables and files of their own: all that a user does
// between machines, one after the other, because emulated machines take long to start.
func TestMachinesWithTheirOwnKernels(t *testing.T) {
	testenv.NeedsLong(t)
	t.Setenv(reachLimitEnv, emulatedLimit.String())
	p := &vmPair{vms: agenttest.NewVMMachines(t, 1<<10, "6.1", "6.12")}
	for _, part := range []struct {
		name string
		run  func(*vmPair)
	}{
		{"clocks", (*vmPair).clocks},
		{"attach", (*vmPair).attach},
		{"settings", (*vmPair).changeSettings},
		{"reset", (*vmPair).reset},
	} {
		t.Run(part.name, func(t *testing.T) {
			p.t = t
			p.flags = []string{"--machines", "a=ssh://va,b=ssh://vb", "--no-copy", "--ssh", strings.Join(p.vms.SSH, " ")}
			part.run(p)
		})
	}
}

// compare runs a comparison, and gives its record.
func (p *vmPair) compare(args ...string) *result.Record {
	p.t.Helper()
	out := p.t.TempDir()
	p.run([]int{0}, nil, append([]string{"compare", "--out", out}, args...)...)
	rec, err := result.Open(out)
	testenv.Must(p.t, err)
	return rec
}

// wantTraffic wants that half of the slices of each path carried something: an emulated machine may
// be busy with something else for all of one.
func (p *vmPair) wantTraffic(rec *result.Record) {
	p.t.Helper()
	carried, all := map[string]int{}, map[string]int{}
	for _, s := range rec.Slices {
		all[s.Arm]++
		if s.Failed == "" && (s.Latency != nil && s.Latency.Replies > 0 || s.Stream != nil && s.Stream.RecvBytes > 0) {
			carried[s.Arm]++
		}
	}
	for _, arm := range rec.Plan.Arms {
		if all[arm.Name] == 0 || carried[arm.Name] < all[arm.Name]/2 {
			p.t.Errorf("%d of %d slices of %s carried something", carried[arm.Name], all[arm.Name], arm.Name)
		}
	}
}

// Clocks that are a day apart and drift by 500 ppm, one of them each way, are in no figure, whichever
// machine has the client.
func (p *vmPair) clocks() {
	p.vms.Do(p.t, 1, "date -s '+1 day'")
	p.vms.Drift(p.t, 0, -500)
	p.vms.Drift(p.t, 1, 500)
	for _, machines := range []string{"a=ssh://va,b=ssh://vb", "b=ssh://vb,a=ssh://va"} {
		p.flags[1] = machines
		rec := p.compare("host", "--load", "tcp_lat,tcp_bw,probe", "--series", "1", "--rounds", "4", "--slice", "100ms")
		p.wantTraffic(rec)
		agenttest.WantTimesOfRun(p.t, rec, time.Minute)
		facts := map[string]result.Facts{}
		for _, f := range rec.Facts {
			facts[f.Machine] = f
		}
		a, b := facts["a"], facts["b"]
		if !strings.HasPrefix(a.Kernel, "6.1.") || !strings.HasPrefix(b.Kernel, "6.12.") || a.BootID == b.BootID || !a.Emulated {
			p.t.Errorf("the machines are %+v and %+v", a, b)
		}
		if apart := time.Duration(b.ClockAhead - a.ClockAhead); apart < 23*time.Hour || apart > 25*time.Hour {
			p.t.Errorf("the clocks are %v and %v ahead", time.Duration(a.ClockAhead), time.Duration(b.ClockAhead))
		}
	}
}

// Ends in namespaces that somebody else made.
func (p *vmPair) attach() {
	for i := range p.vms.Guests {
		p.vms.Do(p.t, i, fmt.Sprintf("ip netns add red; ip link add pod0 link eth0 netns red type macvlan mode bridge; "+
			"ip -n red address add 198.51.100.%d/24 dev pod0; ip -n red link set pod0 up", i+1))
	}
	rec := p.compare("host", "attach:from=a/ns:red,to=b/ns:red", "--load", "tcp_lat", "--series", "1", "--rounds", "4", "--slice", "100ms")
	p.wantTraffic(rec)
	if end := rec.Plan.Arms[len(rec.Plan.Arms)-1]; end.From != "198.51.100.1" || end.To != "198.51.100.2" {
		p.t.Errorf("the path is from %s to %s", end.From, end.To)
	}
	for i := range p.vms.Guests {
		if left := p.vms.Leftovers(p.t, i); left != "" {
			p.t.Errorf("machine %d still has %s", i, left)
		}
		p.vms.Do(p.t, i, "ip netns del red")
	}
}

// state is what the commands change of a machine.
func (p *vmPair) state(i int) string {
	p.t.Helper()
	return p.vms.Do(p.t, i, "sysctl net.core net.ipv4.tcp_max_syn_backlog net.ipv4.tcp_rmem net.ipv4.tcp_wmem net.ipv4.tcp_congestion_control; ethtool -k eth0; ethtool -g eth0 || true")
}

// wantState wants machines to be as they were, or not.
func (p *vmPair) wantState(before []string, changed ...bool) {
	p.t.Helper()
	for i := range p.vms.Guests {
		if after := p.state(i); (after != before[i]) != changed[i] {
			p.t.Errorf("machine %d has changed: %v\n%s", i, !changed[i], testenv.Difference(before[i], after))
		}
	}
}

// Each machine has its own settings and its own journal.
func (p *vmPair) changeSettings() {
	before := []string{p.state(0), p.state(1)}
	ok := []int{0}
	p.run([]int{0, 8}, []string{"on 2 of 2 machines"}, "doctor", "--interval", "0s")
	p.run(ok, []string{"-> accept=8192"}, "knob", "set", "net.listen", "8192", "--on", "b")
	p.wantState(before, false, true)
	p.run(ok, []string{"restored"}, "undo", "--on", "b")
	p.wantState(before, false, false)
	tune := []string{"tune", "--profile", "latency", "--host"}
	p.run(ok, []string{"Nothing was changed"}, append(tune, "--plan")...)
	p.wantState(before, false, false)
	p.run(ok, nil, append(tune, "--apply")...)
	p.wantState(before, true, true)
	p.run(ok, []string{"restored"}, "undo")
	p.wantState(before, false, false)
}

// A machine loses its power in mid-run, with a trial in force: the run ends with what was measured, the
// other machine has nothing of ours, and neither has the first once it is started again.
func (p *vmPair) reset() {
	before := []string{p.state(0), p.state(1)}
	ok := []int{0}
	p.run(ok, nil, "knob", "set", "net.listen", "8192", "--trial", "1h")
	out := p.t.TempDir()
	c := p.start("compare", "host", "vxlan", "--dev", "eth0", "--load", "tcp_lat", "--series", "200", "--rounds", "5", "--slice", "100ms", "--out", out)
	p.awaitSlices(c, out, 1)
	testenv.Must(p.t, p.vms.Guests[1].Close())
	lost := time.Now()
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	select {
	case <-ended:
	case <-time.After(emulatedLimit):
		p.t.Fatalf("the run goes on: %s", c.output())
	}
	p.t.Logf("the run ended %v after the machine's power", time.Since(lost).Round(time.Second))
	if code := c.ProcessState.ExitCode(); code != 7 || !strings.Contains(c.output(), "tcp_lat 1 B") {
		p.t.Errorf("exit code %d, want 7 and what was measured: %s", code, c.output())
	}
	said := ""
	p.await(emulatedLimit, "nothing left on the other machine", func() bool {
		left := p.vms.Leftovers(p.t, 0)
		if left != said {
			p.t.Logf("after %v the other machine has %q", time.Since(lost).Round(time.Second), left)
		}
		said = left
		return left == ""
	})
	p.vms.Start(p.t, 1)
	if left := p.vms.Leftovers(p.t, 1); left != "" {
		p.t.Errorf("the machine that was started again has %s", left)
	}
	p.wantState(before, true, false) // what was in its memory is gone
	p.run(ok, []string{"was rebooted before it was confirmed"}, "journal", "--on", "b")
	p.run(ok, []string{"restored", "gone"}, "undo")
	p.wantState(before, false, false)
	p.run(ok, []string{"nothing is open"}, "journal", "--open")
	rec := p.compare("host", "--load", "tcp_lat", "--series", "1", "--rounds", "2", "--slice", "100ms")
	p.wantTraffic(rec)
}
