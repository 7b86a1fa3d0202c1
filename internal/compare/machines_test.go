package compare

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/remote"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// Two machines that share nothing but the kernel, reached by ssh alone.
func TestMachines(t *testing.T) {
	a, b := testenv.NewSSHMachine(t, "client"), testenv.NewSSHMachine(t, "server")
	testenv.Join(t, a, b)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range []*testenv.SSHMachine{a, b} {
		m.Do(t, "ip", "netns", "add", "red")
		m.Do(t, "ip", "address", "add", "172.17.0.1/16", "dev", "lo") // as docker0 has on every host
		m.Do(t, "ip", "link", "add", "pod0", "link", "eth0", "netns", "red", "type", "macvlan", "mode", "bridge")
		m.Do(t, "ip", "-n", "red", "address", "add", fmt.Sprintf("198.51.100.%d/24", i+1), "dev", "pod0")
		m.Do(t, "ip", "-n", "red", "link", "set", "pod0", "up")
	}
	// What runc keeps of a container whose network is the namespace of the client's machine.
	a.Do(t, "sh", "-c", `mkdir -p /run/runc/c0ffee; ip netns exec red sleep 1000 >/dev/null 2>&1 &
until ip netns pids red | grep -q .; do sleep 0.01; done
echo "{\"id\":\"c0ffee\",\"init_process_pid\":$(ip netns pids red | head -n 1)}" >/run/runc/c0ffee/state.json`)
	q := Request{
		Paths: []string{"host", "attach:from=a/container:c0ffee,to=b/ns:red"}, Loads: []string{"tcp_lat", "udp_lat", "tcp_bw"}, Series: 2, Rounds: 3, Slice: 20 * time.Millisecond, Out: t.TempDir(),
		Remote: Remote{
			Machines: []remote.Machine{{Name: "a", Host: "client"}, {Name: "b", Host: "server"}},
			Options:  remote.Options{Program: program, SSH: testenv.SSHCommand(t, a, b)},
		},
	}
	rec, _, err := Do(t.Context(), resolve(t, q), Host{Watch: deaf{}})
	if err != nil {
		t.Fatal(err)
	}
	slices := map[string]int{}
	for _, s := range rec.Slices {
		if s.Failed == "" && (s.Latency != nil && s.Latency.Replies > 0 || s.Stream != nil && s.Stream.RecvBytes > 0) {
			slices[s.Arm]++
		}
	}
	for _, arm := range []string{"host", "host.copy", "attach"} {
		// On a busy machine, all of 20 ms may pass without a packet.
		if all := 2 * 3 * 3; slices[arm] < all-all/3 {
			t.Errorf("%d of %d slices of %s carried something", slices[arm], all, arm)
		}
	}
	for _, w := range rec.Warnings {
		t.Errorf("warning: %s %s", w.Code, w.Text)
	}
	meters := map[string]bool{}
	for _, m := range rec.Meters {
		meters[m.Machine+"/"+m.Name] = true
	}
	for i, name := range []string{"a", "b"} {
		if rec.Facts[i].Machine != name || !meters[name+"/cpu"] {
			t.Errorf("facts %d are of %s, meters: %v", i, rec.Facts[i].Machine, meters)
		}
	}
	if arm := rec.Plan.Arms[0]; arm.FromDevice != "eth0" || arm.ToDevice != "eth0" {
		t.Errorf("the devices of %s are %s and %s", arm.Name, arm.FromDevice, arm.ToDevice)
	}
	if rec.Plan.SharedCores {
		t.Error("two machines are said to share their cores")
	}
}

// startOnMachines measures between two machines in the background, and returns when slices run.
func startOnMachines(t *testing.T, a, b *testenv.SSHMachine, then func()) (rec *result.Record, err error) {
	t.Helper()
	program, execErr := os.Executable()
	if execErr != nil {
		t.Fatal(execErr)
	}
	q := Request{
		Paths: []string{"host"}, Loads: []string{"tcp_lat"}, Series: 100, Rounds: 10, Slice: 20 * time.Millisecond, Out: t.TempDir(),
		Remote: Remote{
			Machines: []remote.Machine{{Name: "a", Host: a.Name}, {Name: "b", Host: b.Name}},
			Options:  remote.Options{Program: program, SSH: testenv.SSHCommand(t, a, b)},
		},
	}
	rec, _, err = Do(t.Context(), resolve(t, q), Host{Watch: &firstSeries{callback: then}})
	return rec, err
}

// firstSeries does something once, half a second after the first series has ended.
type firstSeries struct {
	deaf
	startOnce sync.Once
	callback  func()
}

func (f *firstSeries) Event(e experiment.Event) {
	if e.Series > 0 {
		f.startOnce.Do(func() { time.AfterFunc(500*time.Millisecond, f.callback) })
	}
}

// Machines that were started a day apart, whichever first: no figure is the difference of their
// clocks.
func TestClocksOfMachines(t *testing.T) {
	const apart = 24 * time.Hour
	for name, ahead := range map[string][2]time.Duration{"client ahead": {apart, 0}, "server ahead": {0, apart}} {
		t.Run(name, func(t *testing.T) {
			m := [2]*testenv.SSHMachine{withProgramAhead(t, "client", ahead[0]), withProgramAhead(t, "server", ahead[1])}
			testenv.Join(t, m[0], m[1])
			q := onCards(t, m, "host")
			q.Remote.Dev, q.Loads = "", []string{"tcp_lat", "udp_lat", "tcp_bw", "udp_bw", "tcp_rr", "tcp_crr", "probe", "ping"}
			rec, _, err := Do(t.Context(), resolve(t, q), Host{Watch: deaf{}})
			if err != nil {
				t.Fatal(err)
			}
			measured(t, rec)
			agenttest.WantTimesOfRun(t, rec, time.Minute)
		})
	}
}

// givenUpAfter is how long a silent machine may hold a run up: 5 s, and what a machine with
// busy cores adds.
var givenUpAfter = host.ScaleTimeout(5*time.Second) + 25*time.Second

// A machine that falls silent, without its channel ending, is given up; the other one's agent ends too.
func TestMachineFallsSilent(t *testing.T) {
	for i, name := range []string{"client", "server"} {
		t.Run(name, func(t *testing.T) {
			m := joined(t)
			var stopped time.Time
			rec, err := startOnMachines(t, m[0], m[1], func() {
				stopped = time.Now()
				m[i].Stop(t)
			})
			took := time.Since(stopped)
			t.Logf("%v after the machine stopped: %v", took.Round(time.Millisecond), err)
			if took > givenUpAfter {
				t.Errorf("it took %v", took)
			}
			if verr.Code(err) != verr.Partial || stopped.IsZero() {
				t.Fatalf("error %v, the machine stopped at %v", err, stopped)
			}
			noAgent(t, m[1-i])
			if rec == nil || len(rec.Slices) == 0 {
				t.Error("what was measured is lost")
			}
		})
	}
}

// noAgent waits until a machine runs nothing of ours.
func noAgent(t *testing.T, m *testenv.SSHMachine) {
	t.Helper()
	left := m.Processes()
	for end := time.Now().Add(givenUpAfter); len(left) > 0 && time.Now().Before(end); left = m.Processes() {
		time.Sleep(20 * time.Millisecond)
	}
	if len(left) > 0 {
		t.Errorf("machine %s still runs %v", m.Name, left)
	}
}

// An agent that is killed ends the run, and leaves nothing on either machine.
func TestAgentKilled(t *testing.T) {
	for i, name := range []string{"client", "server"} {
		t.Run(name, func(t *testing.T) {
			m := joined(t)
			var killed time.Time
			rec, err := startOnMachines(t, m[0], m[1], func() {
				killed = time.Now()
				for pid, command := range m[i].Processes() {
					if strings.Contains(command, "agent --stdio") {
						_ = syscall.Kill(pid, syscall.SIGKILL)
					}
				}
			})
			took := time.Since(killed)
			t.Logf("%v after the agent was killed: %v", took.Round(time.Millisecond), err)
			if verr.Code(err) != verr.Partial || killed.IsZero() || took > givenUpAfter {
				t.Errorf("error %v after %v", err, took)
			}
			if rec == nil || len(rec.Slices) == 0 {
				t.Error("what was measured is lost")
			}
			for _, m := range m {
				noAgent(t, m)
			}
		})
	}
}

// sayTimes notes when something was said first.
type sayTimes struct {
	deaf
	word  string
	first time.Time
}

func (s *sayTimes) Say(format string, _ ...any) {
	if s.first.IsZero() && strings.Contains(format, s.word) {
		s.first = time.Now()
	}
}

// A firewall or NAT between the measuring addresses is named with the port and the direction, and
// which of the two messages is lost.
func TestFirewallBetweenMachines(t *testing.T) {
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("nft is not installed")
	}
	for name, c := range map[string]struct {
		machine int
		rule    string // of the packet filter
		want    string
	}{
		"UDP request": {1, "in iifname eth0 udp dport 1-65535 drop", "cannot send UDP from machine a to machine b by path host: the first message from 192.0.2.1 to 192.0.2.2, port 2"},
		"TCP request": {1, "in iifname eth0 tcp dport 20000-29999 drop", "cannot send TCP from machine a to machine b by path host: the first message from 192.0.2.1 to 192.0.2.2, port 2"},
		"UDP reply":   {0, "in iifname eth0 udp sport 20000-29999 drop", "the first message arrived, and its answer from 192.0.2.2, port 2"},
		"TCP reply":   {0, "in iifname eth0 tcp sport 20000-29999 drop", "cannot send TCP from machine a to machine b by path host: the first message arrived, and its answer from 192.0.2.2, port 2"},
		"UDP NAT":     {1, "out udp sport 20000-29999 ip saddr set 192.0.2.77", "the first message arrived, and its answer from 192.0.2.2, port 2"},
		"TCP NAT":     {1, "out tcp sport 20000-29999 ip saddr set 192.0.2.77", "the first message arrived, and its answer from 192.0.2.2, port 2"},
	} {
		t.Run(name, func(t *testing.T) {
			m := joined(t)
			m[c.machine].Do(t, "nft", "add table ip wall; add chain ip wall in { type filter hook input priority 0; }; "+
				"add chain ip wall out { type filter hook output priority 0; }; add rule ip wall "+c.rule)
			q := onCards(t, m, "host")
			q.Remote.Dev = ""
			watch := &sayTimes{word: "trying whether"}
			_, _, err := Do(t.Context(), resolve(t, q), Host{Watch: watch})
			took := time.Since(watch.first)
			t.Logf("after %v: %v", took.Round(time.Millisecond), err)
			if err == nil || !strings.Contains(err.Error(), c.want) || watch.first.IsZero() || took > givenUpAfter {
				t.Errorf("after %v: %v, want %q", took, err, c.want)
			}
			for _, m := range m {
				noAgent(t, m)
			}
		})
	}
}
