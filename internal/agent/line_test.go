package agent_test

import (
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/testenv"
)

// playStdio is an agent on its standard input and output, as ssh starts one.
func playStdio(args []string) int {
	if err := agent.Stdio(context.Background(), os.Stdin, os.Stdout, "", agent.Options{Machine: args[len(args)-1]}); err != nil {
		os.Stderr.WriteString(err.Error())
		return 1
	}
	return 0
}

// line is a connection to an agent that delays what it carries each way, stops when it is
// told to, and notes when bytes passed at the agent's end.
type line struct {
	net.Conn // nil: deadlines are not asked for
	delay    time.Duration
	out      chan timed
	in       chan timed
	rest     []byte
	close    func()
	exited   chan struct{} // closed when the agent's process has

	mu     sync.Mutex
	passed []time.Time
	stall  time.Time // until when nothing passes
}

type timed struct {
	text []byte
	due  time.Time
}

func (l *line) carry(text []byte) timed {
	return timed{append([]byte(nil), text...), time.Now().Add(l.delay)}
}

// note waits for the stall to be over, and takes the time.
func (l *line) note() {
	l.mu.Lock()
	wait := time.Until(l.stall)
	l.mu.Unlock()
	time.Sleep(wait)
	l.mu.Lock()
	l.passed = append(l.passed, time.Now())
	l.mu.Unlock()
}

func (l *line) stop(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stall = time.Now().Add(d)
}

func (l *line) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		next, ok := <-l.in
		if !ok {
			return 0, io.EOF
		}
		time.Sleep(time.Until(next.due))
		l.rest = next.text
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

func (l *line) Write(p []byte) (int, error) {
	l.out <- l.carry(p)
	return len(p), nil
}

func (l *line) Close() error {
	l.mu.Lock()
	hangUp := l.close
	l.mu.Unlock()
	hangUp()
	return nil
}

func (l *line) LocalAddr() net.Addr              { return &net.UnixAddr{} }
func (l *line) RemoteAddr() net.Addr             { return &net.UnixAddr{} }
func (l *line) SetDeadline(time.Time) error      { return nil }
func (l *line) SetReadDeadline(time.Time) error  { return nil }
func (l *line) SetWriteDeadline(time.Time) error { return nil }

// passedDuring lists how long after from bytes passed, until to. They are noted before their
// receiver has them, and so before a slice that they let begin.
func (l *line) passedDuring(from, to time.Time) (after []time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, at := range l.passed {
		if at.After(from) && at.Before(to) {
			after = append(after, at.Sub(from))
		}
	}
	return after
}

// spawnOnLine starts an agent behind a line.
func spawnOnLine(t *testing.T, machine string, delay time.Duration) (*agent.Client, *line) {
	t.Helper()
	args := append(testenv.RoleCommand(t, "stdio"), machine)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hello := make([]byte, len("venturi-agent 1\n"))
	if _, err := io.ReadFull(out, hello); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	l := &line{delay: delay, out: make(chan timed, 10000), in: make(chan timed, 10000), close: sync.OnceFunc(func() { in.Close(); close(ended) }),
		exited: make(chan struct{})}
	go func() {
		_ = unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) // cmd waits for it once more
		close(l.exited)
	}()
	go func() {
		for {
			var next timed
			select {
			case next = <-l.out:
			case <-ended:
				return
			}
			time.Sleep(time.Until(next.due))
			l.note()
			if _, err := in.Write(next.text); err != nil {
				return
			}
		}
	}()
	go func() {
		defer close(l.in)
		for {
			b := make([]byte, 32<<10)
			n, err := out.Read(b)
			if n > 0 {
				l.note()
				l.in <- l.carry(b[:n])
			}
			if err != nil {
				return
			}
		}
	}()
	c, err := agent.DialStream(t.Context(), l, machine)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); l.Close(); _ = cmd.Wait() })
	return c, l
}

// lineStall is for how long a line may stall.
const lineStall = 2 * time.Second

// TestLine: nothing passes to an agent or from it while a slice runs, however slow the line
// is; and a line that stalls for a while ends nothing.
func TestLine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ delay, stall, later time.Duration }{ // later: until the server's line stalls, too
		"direct": {}, "200 ms": {delay: 100 * time.Millisecond}, "stalls": {stall: lineStall}, "stall in turn": {stall: lineStall, later: lineStall},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := testenv.UnnamedNetns(t)
			near, nearLine := spawnOnLine(t, "a", c.delay)
			far, farLine := spawnOnLine(t, "b", c.delay)
			live, err := agent.Watch(t.Context(), near, far)
			if err != nil {
				t.Fatal(err)
			}
			defer live.Close()
			p := onePathPlan(ns, 12)
			if shut, err := far.Serve(t.Context(), p, nil); err != nil || len(shut) > 0 {
				t.Fatal(err, shut)
			}
			const begin = 1500 * time.Millisecond
			time.AfterFunc(begin, func() { nearLine.stop(c.stall) })
			time.AfterFunc(begin+c.later, func() { farLine.stop(c.stall) })
			if off := near.ClockOffset().Abs(); off > time.Second {
				t.Errorf("two clocks that are one are %v apart", off)
			}
			measured, _, err := near.Run(t.Context(), p, nil)
			if err != nil || len(measured) != len(p.Schedule) {
				t.Fatalf("%d slices, %v", len(measured), err)
			}
			if _, err := far.Finish(t.Context(), p.Token); err != nil {
				t.Error(err)
			}
			for i, s := range measured {
				from := s.Start.Add(near.ClockOffset()) // by the clock that all processes here share
				to := from.Add(p.Slice)
				for name, l := range map[string]*line{"client": nearLine, "server": farLine} {
					if after := l.passedDuring(from, to); len(after) > 0 {
						t.Errorf("at the %s's machine bytes passed %v after the begin of slice %d", name, after, i)
					}
				}
			}
		})
	}
}

// TestDriveLine is TestLine for a series whose clients two agents have, and its servers two
// others: whoever has the slice that runs, nothing passes to any of them.
func TestDriveLine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ delay, stall time.Duration }{
		"direct": {}, "200 ms": {delay: 100 * time.Millisecond}, "stalls": {stall: lineStall},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := testenv.UnnamedNetns(t)
			var agents []*agent.Client
			var lines []*line
			for _, machine := range []string{"a", "b", "c", "d"} { // the first two have the clients
				of, l := spawnOnLine(t, machine, c.delay)
				agents, lines = append(agents, of), append(lines, l)
			}
			live, err := agent.WatchEach(t.Context(), agents...)
			testenv.Must(t, err)
			defer live.Close()
			const rounds = 6
			whole := onePathPlan(ns, rounds)
			whole.Arms, whole.Schedule = nil, slices.Repeat([][]int{{0, 1}}, rounds)
			var parts []agent.SeriesPart
			for i := range 2 {
				part := onePathPlan(ns, rounds)
				part.Arms[0].Name = []string{"a", "b"}[i]
				part.Arms[0].ServerPort, part.Arms[0].ClientPort = 7000+100*i, 8000+100*i
				whole.Arms = append(whole.Arms, part.Arms[0])
				parts = append(parts, agent.SeriesPart{Agent: agents[i], Plan: part, Arms: []int{i}})
				if shut, err := agents[2+i].Serve(t.Context(), part, nil); err != nil || len(shut) > 0 {
					t.Fatal(err, shut)
				}
			}
			time.AfterFunc(1500*time.Millisecond, func() {
				for _, l := range lines {
					l.stop(c.stall)
				}
			})
			measured, _, err := live.Drive(t.Context(), whole, parts)
			if err != nil || len(measured) != 2*rounds {
				t.Fatalf("%d slices, %v", len(measured), err)
			}
			for _, server := range agents[2:] {
				if _, err := server.Finish(t.Context(), whole.Token); err != nil {
					t.Error(err)
				}
			}
			for i, s := range measured {
				from := s.Start.Add(agents[s.Arm].ClockOffset()) // by the clock that all processes here share
				if s.Err != nil || s.Latency == nil {
					t.Errorf("slice %d: %v", i, s.Err)
				}
				for k, l := range lines {
					if after := l.passedDuring(from, from.Add(whole.Slice)); len(after) > 0 {
						t.Errorf("at machine %s bytes passed %v after the begin of slice %d", agents[k].Machine(), after, i)
					}
				}
			}
		})
	}
}

// onePathPlan is slices of 300 ms over loopback.
func onePathPlan(ns string, rounds int) load.Plan {
	end := func(addr string) host.Endpoint {
		return host.Endpoint{Machine: "m", Namespace: ns, Device: "lo", Addr: netip.MustParseAddr(addr), MTU: 65536}
	}
	return load.Plan{
		Token: 4711, Nonce: load.Nonce{1}, Load: "tcp_lat", Size: 64, Flows: 1, Slice: 300 * time.Millisecond, Head: time.Millisecond,
		Arms:     []load.Arm{{Name: "a", Ends: []load.Pair{{From: end("127.0.0.1"), To: end("127.0.0.2")}}, ServerPort: 7000, ClientPort: 8000}},
		Schedule: slices.Repeat([][]int{{0}}, rounds), ClientCPU: -1, ServerCPU: -1,
	}
}

// TestServerSilent: whichever of several servers' agents goes silent, the series ends, what
// was measured is there, and the error names the agent.
func TestServerSilent(t *testing.T) {
	t.Parallel()
	testenv.Root(t)
	for silent, name := range []string{"b", "c"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			near, _ := spawnOnLine(t, "a", 0)
			far, farLine := spawnOnLine(t, "b", 0)
			third, thirdLine := spawnOnLine(t, "c", 0)
			live, err := agent.Watch(t.Context(), near, far, third)
			testenv.Must(t, err)
			defer live.Close()
			p := onePathPlan(testenv.UnnamedNetns(t), 400)
			if shut, err := far.Serve(t.Context(), p, nil); err != nil || len(shut) > 0 {
				t.Fatal(err, shut)
			}
			const stall = 6 * time.Second
			began := time.Now()
			time.AfterFunc(time.Second, func() { []*line{farLine, thirdLine}[silent].stop(stall) })
			part, _, err := near.Run(t.Context(), p, nil)
			if err == nil || !strings.Contains(err.Error(), name) || len(part) == 0 || len(part) == len(p.Schedule) {
				t.Errorf("without %s: %d slices, %v", name, len(part), err)
			}
			time.Sleep(time.Until(began.Add(time.Second + stall)))
		})
	}
}

// TestControllerSilent: agents that hear nothing of their controller any more end by themselves, in the
// middle of a series too, although the line to them never breaks.
func TestControllerSilent(t *testing.T) {
	t.Parallel() // it waits
	near, nearLine := spawnOnLine(t, "a", 0)
	far, farLine := spawnOnLine(t, "b", 0)
	live, err := agent.Watch(t.Context(), near, far)
	testenv.Must(t, err)
	defer live.Close()
	p := onePathPlan(testenv.UnnamedNetns(t), 400)
	if shut, err := far.Serve(t.Context(), p, nil); err != nil || len(shut) > 0 {
		t.Fatal(err, shut)
	}
	ended := make(chan error, 1)
	go func() {
		_, _, err := near.Run(t.Context(), p, nil)
		ended <- err
	}()
	time.Sleep(1500 * time.Millisecond) // slices run
	limit := testenv.Timeout / 2        // an idle machine needs five seconds; on a busy one, slices and so the silence that is allowed are longer
	began := time.Now()
	for _, l := range []*line{nearLine, farLine} {
		t.Cleanup(l.close)
		l.mu.Lock()
		l.close = func() {} // nor does it when the controller, which is not lost here, gives up
		l.mu.Unlock()
		l.stop(limit + time.Second)
	}
	for i, l := range []*line{nearLine, farLine} {
		select {
		case <-l.exited:
			t.Logf("agent %d has ended after %v", i, time.Since(began).Round(time.Millisecond))
		case <-time.After(time.Until(began.Add(limit))):
			t.Errorf("agent %d is still there after %v", i, limit)
		}
	}
	if err := <-ended; !agent.IsGone(err) {
		t.Errorf("the series ended with %v", err)
	}
}
