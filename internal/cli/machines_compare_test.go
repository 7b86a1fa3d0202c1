package cli

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/result"
)

// awaitSlices waits until a run has measured so many series.
func (p *machinePair) awaitSlices(c *controller, out string, series int) {
	p.t.Helper()
	p.t.Cleanup(func() {
		if p.t.Failed() {
			p.t.Logf("it said: %s", c.output())
		}
	})
	p.await(host.ScaleTimeout(5*time.Minute), "measuring", func() bool {
		if strings.Contains(c.output(), "venturi: cannot") {
			p.t.Fatal("it does not measure")
		}
		text, err := os.ReadFile(filepath.Join(out, result.FileName))
		return err == nil && strings.Contains(string(text), fmt.Sprintf(`"series":%d,`, series))
	})
}

// A comparison between two machines leaves nothing on them, whatever ends it. Where the
// controller lives, it reports what was measured, and says by its exit code that it is a part.
func TestCompareOnMachinesIsCut(t *testing.T) {
	testenv.Root(t)
	built := []string{"vxlan", "routed", "--dev", "eth0"}
	for name, end := range map[string]struct {
		paths []string
		cut   func(p *machinePair, c *controller)
		code  int // of the controller; -1: it is killed
	}{
		"controller killed":           {built, func(_ *machinePair, c *controller) { _ = c.Process.Kill() }, -1},
		"interrupted":                 {built, func(_ *machinePair, c *controller) { _ = c.Process.Signal(os.Interrupt) }, 130},
		"agent killed, nothing built": {[]string{"host"}, func(p *machinePair, _ *controller) { kill(p.machines[0], "agent --stdio") }, 7},
		"client's agent killed":       {built, func(p *machinePair, _ *controller) { kill(p.machines[0], "agent --stdio") }, 7},
		"server's agent killed":       {built, func(p *machinePair, _ *controller) { kill(p.machines[1], "agent --stdio") }, 7},
		"ssh cut":                     {built, func(p *machinePair, _ *controller) { kill(p.machines[0], "sshd") }, 7},
	} {
		t.Run(name, func(t *testing.T) {
			p := newMachinePair(t)
			out := t.TempDir()
			c := p.start(append([]string{"compare", "--load", "tcp_lat", "--series", "200", "--rounds", "5", "--out", out}, end.paths...)...)
			p.awaitSlices(c, out, 1)
			end.cut(p, c)
			for _, m := range p.machines {
				m.WantNothingLeft(t, restoredWithin)
			}
			c.awaitEnd(t, end.code)
		})
	}
}

// awaitExit waits until the controller has exited.
func (c *controller) awaitExit(t *testing.T) {
	t.Helper()
	ended := make(chan error, 1)
	began := time.Now()
	go func() { ended <- c.Wait() }()
	select {
	case <-ended:
		t.Logf("the controller has ended after %v", time.Since(began).Round(10*time.Millisecond))
	case <-time.After(endsWithin):
		t.Fatalf("after %v, the controller is still there: %s", endsWithin, c.output())
	}
}

// awaitEnd waits for the end of a run that was cut, which has this exit code and, unless it was
// killed (-1), reports what was measured.
func (c *controller) awaitEnd(t *testing.T, code int) {
	t.Helper()
	c.awaitExit(t)
	if is := c.ProcessState.ExitCode(); is != code || code != -1 && !strings.Contains(c.output(), "tcp_lat 1 B") {
		t.Errorf("exit code %d, want %d and what was measured: %s", is, code, c.output())
	}
}

// Whatever a stranger sends to the machines while they measure, by a scan of their ports and by random
// bytes to those that are open, a million unless the machine is busy, changes nothing but a counter in the report.
func TestStrangersAtDataPorts(t *testing.T) {
	testenv.Root(t)
	p := newMachinePair(t)
	out := t.TempDir()
	c := p.start("compare", "--load", "tcp_lat,udp_lat,tcp_bw,tcp_crr", "--series", "5", "--rounds", "10", "--out", out)
	p.awaitSlices(c, out, 0)
	running, stop := context.WithCancel(t.Context())
	var ended error
	go func() { ended = c.Wait(); stop() }()
	s := &stranger{server: p.machines[1], rng: rand.New(rand.NewPCG(1, 2)), volume: map[string]int{}}
	err := host.Do(fmt.Sprintf("/proc/%d/ns/net", p.machines[0].Pid), func() error {
		// All ports are scanned bit by bit: on a busy machine, the run ends meanwhile.
		for port := firstDataPort; running.Err() == nil; time.Sleep(20 * time.Millisecond) {
			s.fuzz(20_000)
			port = s.scan(port, 200)
		}
		return nil
	})
	<-running.Done()
	if ended != nil {
		t.Fatalf("it ended with %v: %s", ended, c.output())
	}
	testenv.Must(t, err)
	t.Logf("the stranger said %v bytes", s.volume)
	if s.volume["tcp"] < 10_000 || s.volume["udp"] < 1000 {
		t.Errorf("the stranger said %v bytes only", s.volume)
	}
	if !strings.Contains(c.output(), "b refused ") || !strings.Contains(c.output(), "connections and datagrams at its data ports") {
		t.Errorf("the report does not count them: %s", c.output())
	}
	rec, err := result.Open(out)
	testenv.Must(t, err)
	for _, slice := range rec.Slices {
		if slice.Failed != "" || slice.Latency == nil && slice.Stream == nil {
			t.Errorf("a slice of %s failed: %s", slice.Arm, slice.Failed)
		}
	}
	for _, w := range rec.Warnings {
		if w.Code != "refused" {
			t.Errorf("warning %s: %s", w.Code, w.Text)
		}
	}
}

// stranger sends what is not asked for.
type stranger struct {
	server *testenv.SSHMachine
	rng    *rand.Rand
	volume map[string]int // bytes that were taken, by transport
}

// firstDataPort and lastDataPort are the first and the last port of a server's loads.
const firstDataPort, lastDataPort = 20000, 29999

// scan knocks at so many ports, and gives the next one.
func (s *stranger) scan(port, count int) (next int) {
	for range count {
		for _, network := range []string{"tcp", "udp"} {
			s.say(network, port, []byte("?"))
		}
		if port++; port > lastDataPort {
			port = firstDataPort
		}
	}
	return port
}

// fuzz sends that many random bytes to the ports that are open.
func (s *stranger) fuzz(bytes int) {
	for _, network := range []string{"tcp", "udp"} {
		open := s.open(network)
		for sent := 0; sent < bytes/2 && len(open) > 0; {
			text := make([]byte, 1+s.rng.IntN(8000))
			for i := range text {
				text[i] = byte(s.rng.Uint32())
			}
			sent += len(text)
			s.say(network, open[s.rng.IntN(len(open))], text)
		}
	}
}

func (s *stranger) say(network string, port int, text []byte) {
	c, err := net.DialTimeout(network, fmt.Sprintf("192.0.2.2:%d", port), time.Second)
	if err != nil {
		return // closed
	}
	defer c.Close()
	if n, err := c.Write(text); err == nil {
		s.volume[network] += n
	}
}

// open lists the server's ports that anybody can reach.
func (s *stranger) open(network string) (ports []int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", s.server.Pid, network))
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 4 || network == "tcp" && fields[3] != "0A" || network == "udp" && fields[3] != "07" {
			continue
		}
		_, hex, _ := strings.Cut(fields[1], ":")
		port, err := strconv.ParseInt(hex, 16, 32)
		if err == nil && port >= firstDataPort && port <= lastDataPort {
			ports = append(ports, int(port))
		}
	}
	return ports
}
