package tool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/result"
)

func TestMain(m *testing.M) {
	testenv.Main(m, testenv.Roles{"long": longJob})
}

// longJob runs one job that takes minutes between the two namespaces that it
// is given with their addresses, so that a test can kill it.
func longJob(args []string) int {
	j := job("tcp_bw", 65536, 300*time.Second, [2]host.Endpoint{
		{Namespace: args[1], Addr: netip.MustParseAddr(args[2])},
		{Namespace: args[3], Addr: netip.MustParseAddr(args[4])},
	})
	_, err := qperf.Run(context.Background(), j)
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func job(load string, size int, d time.Duration, ends [2]host.Endpoint) Job {
	return Job{Load: load, Size: size, Duration: d, From: ends[0], To: ends[1], ClientCPU: 0, ServerCPU: -1}
}

// pair gives two ends that a wire joins.
func pair(t *testing.T) [2]host.Endpoint {
	t.Helper()
	l := testenv.Lab(t, lab.Options{Paths: []string{"host"}})
	ends := [2]host.Endpoint{l.Arms[0].Client(), l.Arms[0].Server()}
	// Runs before the lab goes down, which would end whoever is in it.
	t.Cleanup(func() { awaitNobody(t, ends, 0) })
	return ends
}

// awaitNobody fails the test if a process is in one of the namespaces and
// stays there.
func awaitNobody(t *testing.T, ends [2]host.Endpoint, limit time.Duration) {
	t.Helper()
	var pids []int
	for end := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		if pids = processesIn(t, ends); len(pids) == 0 {
			return
		}
		if !time.Now().Before(end) {
			break
		}
	}
	for _, pid := range pids {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		t.Errorf("left behind: process %d: %q", pid, line)
	}
}

func processesIn(t *testing.T, ends [2]host.Endpoint) []int {
	t.Helper()
	var ids []host.NamespaceID
	for _, e := range ends {
		id, err := host.ID(e.Namespace)
		check(t, err)
		ids = append(ids, id)
	}
	pids, err := host.Reader{}.ProcessesIn(ids...)
	check(t, err)
	return pids
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// optional are the tools that the tests do not count on.
var optional = map[string]bool{"netperf": true, "sockperf": true}

// usable are the tools that are installed; those that are not optional must be.
func usable(t *testing.T) []*Tool {
	t.Helper()
	var found []*Tool
	for _, tool := range Table {
		err := tool.Installed()
		if err == nil {
			found = append(found, tool)
		} else if !optional[tool.Name] {
			t.Fatal(err)
		}
	}
	return found
}

// first is the first load of a tool, as a job.
func first(tool *Tool, d time.Duration, ends [2]host.Endpoint) Job {
	return job(tool.Loads[0].Name, tool.Loads[0].Size, d, ends)
}

// Every load of every tool gives figures that can be true of a veth pair.
func TestRun(t *testing.T) {
	ends := pair(t)
	for _, tool := range usable(t) {
		runAll(t, ends, tool)
	}
}

func runAll(t *testing.T, ends [2]host.Endpoint, tool *Tool) {
	t.Helper()
	for _, load := range tool.Loads {
		size := max(load.Min, map[string]int{"tcp_bw": 65536}[load.Name])
		t.Run(fmt.Sprintf("%s/%s/%d", tool.Name, load.Name, size), func(t *testing.T) {
			r, err := tool.Run(t.Context(), job(load.Name, size, MinDuration, ends))
			check(t, err)
			t.Logf("%+v", r)
			if r.Value < 100 || r.Value > 1e12 {
				t.Errorf("the figure is %v", r.Value)
			}
			if r.Sent.Messages < 100 || r.Sent.Bytes != r.Sent.Messages*int64(size) && load.Name != "tcp_bw" {
				t.Errorf("sent %+v", r.Sent)
			}
			if r.Received.Messages < 1 || r.Received.Messages > r.Sent.Messages+1 {
				t.Errorf("received %+v of %+v", r.Received, r.Sent)
			}
			if load.Name == "tcp_bw" && tool == Iperf3 && r.Retransmits > r.Sent.Messages {
				t.Errorf("%d retransmits of %d messages", r.Retransmits, r.Sent.Messages)
			}
			if off := r.Elapsed - MinDuration; off < -time.Second || off > time.Second {
				t.Errorf("took %v", r.Elapsed)
			}
			awaitNobody(t, ends, 0)
		})
	}
}

// The figures of one run fit each other: rate is count by time.
func TestFiguresAgree(t *testing.T) {
	ends := pair(t)
	for _, tool := range []*Tool{&qperf, Iperf3} {
		j := job("tcp_bw", 1024, MinDuration, ends)
		j.Metric = result.Messages
		r, err := tool.Run(t.Context(), j)
		check(t, err)
		if rate := float64(r.Received.Bytes) / 1024 / r.Elapsed.Seconds(); r.Value < 0.9*rate || r.Value > 1.1*rate {
			t.Errorf("%s reports %.0f messages/s, its counts say %.0f", tool.Name, r.Value, rate)
		}
	}
}

func TestPinned(t *testing.T) {
	ends := pair(t)
	p, err := start(ends[0].Namespace, 0, []string{"sleep", "60"})
	check(t, err)
	defer p.stop()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	check(t, err)
	if !strings.Contains(string(text), "Cpus_allowed_list:\t0\n") {
		t.Errorf("not bound to cpu 0:\n%s", text)
	}
	if pids := processesIn(t, ends); len(pids) != 1 || pids[0] != p.cmd.Process.Pid {
		t.Errorf("processes in the namespace: %v, want just %d", pids, p.cmd.Process.Pid)
	}
	if _, err := start(ends[0].Namespace, 5000, []string{"sleep", "60"}); err == nil {
		t.Error("cpu 5000: no error")
	}
	p.stop()
	awaitNobody(t, ends, 0)
}

func TestCancel(t *testing.T) {
	ends := pair(t)
	for _, tool := range usable(t) {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		before := time.Now()
		_, err := tool.Run(ctx, first(tool, 60*time.Second, ends))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", tool.Name, err)
		}
		if took := time.Since(before); took > 20*time.Second {
			t.Errorf("%s: ended %v after its context", tool.Name, took)
		}
		awaitNobody(t, ends, 0)
	}
}

// The server that this test starts first holds the port.
func TestPortTaken(t *testing.T) {
	ends := pair(t)
	for _, tool := range usable(t) {
		if tool.server == nil {
			continue
		}
		j := first(tool, MinDuration, ends)
		other, err := start(ends[1].Namespace, -1, append([]string{cmp.Or(tool.serverName, tool.Name)}, tool.server(j)...))
		check(t, err)
		check(t, other.awaitListen(t.Context(), tool.port))
		if r, err := tool.Run(t.Context(), j); err == nil {
			t.Errorf("%s: measured against a server that is not its own: %+v", tool.Name, r)
		} else {
			t.Log(err)
		}
		other.stop()
	}
}

// A far end that cannot be reached is an error with the tool's own words.
func TestUnreachable(t *testing.T) {
	ends := pair(t)
	ends[1].Addr = netip.MustParseAddr("127.0.0.9") // the client's own loopback
	for _, tool := range []*Tool{&qperf, Iperf3} {
		_, err := tool.Run(t.Context(), first(tool, MinDuration, ends))
		if err == nil || !strings.Contains(err.Error(), "connect") {
			t.Errorf("%s: %v", tool.Name, err)
		}
	}
}

// A kill -9 of the program takes everything along that it started, qperf's
// forked server included.
func TestKilledParent(t *testing.T) {
	ends := pair(t)
	role := append(testenv.RoleCommand(t, "long"),
		ends[0].Namespace, ends[0].Addr.String(), ends[1].Namespace, ends[1].Addr.String())
	child := exec.Command(role[0], role[1:]...)
	child.Stderr = os.Stderr
	check(t, child.Start())
	const all = 3 // client, server, and the server's fork
	for end := time.Now().Add(30 * time.Second); len(processesIn(t, ends)) < all; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("only these run: %v", processesIn(t, ends))
			break
		}
	}
	check(t, child.Process.Kill())
	child.Wait()
	awaitNobody(t, ends, 10*time.Second)
}

func TestVersion(t *testing.T) {
	testenv.Root(t)
	for _, tool := range []*Tool{&qperf, Iperf3, Ping} {
		v, err := tool.Version(t.Context())
		check(t, err)
		if !strings.HasPrefix(v, strings.TrimSuffix(tool.Name, "3")) || !strings.ContainsAny(v, "0123456789") {
			t.Errorf("%s says it is %q", tool.Name, v)
		}
	}
}
