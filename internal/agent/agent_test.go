package agent_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/load/engine"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

func plan(token uint64) load.Plan {
	return load.Plan{Token: token, Load: "tcp_lat", Arms: []load.Arm{{Name: "host"}}, Schedule: [][]int{{0}}, Slice: time.Millisecond}
}

func code(t *testing.T, err error, want int) {
	t.Helper()
	var e *verr.Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v is not in three parts", err)
	}
	if e.Code != want || e.Summary == "" || e.Reason == "" || e.Hint == "" {
		t.Errorf("error %+v, want code %d and three parts", e, want)
	}
}

// TestLifelineEndsRunningSeries: the controller dies while slices run.
func TestLifelineEndsRunningSeries(t *testing.T) {
	socket := filepath.Join(testenv.SocketFolder(t), "s")
	in, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- agent.Main(t.Context(), agent.Options{Machine: "m1", Socket: socket, Stdin: in, Engine: endless()})
	}()
	c, err := agent.Dial(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ran := make(chan error, 1)
	go func() {
		_, _, err := c.Run(t.Context(), plan(1), nil)
		ran <- err
	}()
	time.Sleep(50 * time.Millisecond)
	out.Close()
	waitFor(t, "agent", ended)
	if err := waitFor(t, "run", ran); err == nil {
		t.Error("a run that was cut off gave no error")
	}
}

// TestStopGivesWhatWasMeasured: the caller's context ends while slices run.
func TestStopGivesWhatWasMeasured(t *testing.T) {
	c, _ := start(t, endless())
	type answer struct {
		slices []load.SliceResult
		meters []result.Meter
		err    error
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := make(chan answer, 1)
	go func() {
		s, m, err := c.Run(ctx, plan(7), []string{"softnet"})
		got <- answer{s, m, err}
	}()
	time.Sleep(50 * time.Millisecond)
	if running, err := c.StopSeries(t.Context(), 8); running || err != nil { // another series: nothing happens
		t.Fatalf("stopped a series that is not there: %v, %v", running, err)
	}
	cancel()
	a := waitFor(t, "run", got)
	if !errors.Is(a.err, context.Canceled) {
		t.Errorf("run ended with %v, want canceled", a.err)
	}
	if len(a.slices) != 1 || a.slices[0].Start.UnixNano() != 42 {
		t.Errorf("slices %+v, want the one that was measured", a.slices)
	}
	if len(a.meters) != 1 || a.meters[0].Name != "softnet" || a.meters[0].Arm != "host" || a.meters[0].Machine != "m1" {
		t.Errorf("meters %+v, want softnet of host on m1", a.meters)
	}
}

// TestStopOvertakesRun: ctx ends right after the call began.
func TestStopOvertakesRun(t *testing.T) {
	c, _ := start(t, endless())
	for range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, _, err := c.Run(ctx, plan(7), nil)
			done <- err
		}()
		cancel()
		if err := waitFor(t, "run", done); !errors.Is(err, context.Canceled) {
			t.Fatalf("run ended with %v", err)
		}
	}
}

func TestOneSeriesPerRole(t *testing.T) {
	ends := &nopCloser{}
	e := endless()
	e.Serve = func(load.Plan, engine.SliceObserver, engine.GuestDialer) (engine.GuestServer, error) {
		return ends, nil
	}
	c, _ := start(t, e)
	if _, err := c.Serve(t.Context(), plan(1), nil); err != nil {
		t.Fatal(err)
	}
	_, err := c.Serve(t.Context(), plan(2), nil)
	code(t, err, verr.Busy)
	if _, err := c.Finish(t.Context(), 2); err == nil {
		t.Error("finished a series that is not there")
	}
	if ends.closed != 0 {
		t.Error("a refused Serve closed the series that was open")
	}
	done := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		_, _, err := c.Run(ctx, plan(1), nil) // the other role is free
		done <- err
	}()
	time.Sleep(50 * time.Millisecond)
	_, _, err = c.Run(t.Context(), plan(2), nil)
	code(t, err, verr.Busy)
	stop()
	waitFor(t, "run", done)
	if _, err := c.Finish(t.Context(), 1); err != nil {
		t.Error(err)
	}
	if ends.closed != 1 {
		t.Errorf("closed %d times, want once", ends.closed)
	}
	if _, err := c.Serve(t.Context(), plan(2), nil); err != nil {
		t.Errorf("serve after finish: %v", err)
	}
}

func TestErrorsArriveWhole(t *testing.T) {
	known := verr.New(verr.Missing, "what", "why", "do")
	e := agent.Engine{
		Serve: func(load.Plan, engine.SliceObserver, engine.GuestDialer) (engine.GuestServer, error) {
			return nil, known
		},
		Run: func(context.Context, load.Plan, engine.SliceObserver, engine.GuestDialer) ([]load.SliceResult, error) {
			return []load.SliceResult{{Start: time.Unix(0, 1)}}, known
		},
	}
	c, _ := start(t, e)
	same := func(err error) {
		t.Helper()
		var got *verr.Error
		if !errors.As(err, &got) || *got != *known {
			t.Errorf("got %#v, want %#v", err, known)
		}
	}
	_, err := c.Serve(t.Context(), plan(1), nil)
	same(err)
	slices, _, err := c.Run(t.Context(), plan(1), nil)
	same(err)
	if len(slices) != 1 {
		t.Errorf("%d slices came with the error, want 1", len(slices))
	}
	_, err = c.Serve(t.Context(), plan(1), []string{"phase of the moon"})
	code(t, err, verr.Usage)
}

// TestShutArms: why an arm could not be served arrives beside the others.
func TestShutArms(t *testing.T) {
	known := verr.New(verr.Missing, "what", "why", "do")
	e := endless()
	e.Serve = func(load.Plan, engine.SliceObserver, engine.GuestDialer) (engine.GuestServer, error) {
		return &nopCloser{shut: map[int]error{1: known, 2: errors.New("plain")}}, nil
	}
	c, _ := start(t, e)
	shut, err := c.Serve(t.Context(), plan(1), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got *verr.Error
	if len(shut) != 2 || !errors.As(shut[1], &got) || *got != *known || shut[2].Error() != "plain" {
		t.Errorf("shut %v", shut)
	}
}

func TestKilledAgent(t *testing.T) {
	c, process := spawn(t, "endless")
	done := make(chan error, 1)
	go func() {
		_, _, err := c.Run(t.Context(), plan(1), nil)
		done <- err
	}()
	time.Sleep(50 * time.Millisecond)
	process.Kill()
	for what, call := range map[string]func() error{
		"run":    func() error { return <-done },
		"finish": func() error { _, err := c.Finish(t.Context(), 1); return err },
		"facts":  func() error { _, _, err := c.Facts(t.Context(), nil); return err },
	} {
		ended := make(chan error, 1)
		go func() { ended <- call() }()
		err := waitFor(t, what, ended)
		code(t, err, verr.Failed)
		if !agent.IsGone(err) {
			t.Errorf("%s: %v does not say that the agent is gone", what, err)
		}
	}
}

func TestDialWithoutAgent(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := agent.Dial(ctx, filepath.Join(testenv.SocketFolder(t), "nobody"))
	code(t, err, verr.Failed)
}

func TestDialIsCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := agent.Dial(ctx, filepath.Join(testenv.SocketFolder(t), "nobody")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestFactsArrive(t *testing.T) {
	c, _ := start(t, endless())
	facts, _, err := c.Facts(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if facts.Machine != "m1" || facts.Kernel == "" || facts.CPUs < 1 {
		t.Errorf("facts %+v", facts)
	}
}

// TestLongSeries: what a series of tens of thousands of slices weighs passes.
func TestLongSeries(t *testing.T) {
	const n = 20_000
	e := agent.Engine{Run: func(context.Context, load.Plan, engine.SliceObserver, engine.GuestDialer) ([]load.SliceResult, error) {
		slices := make([]load.SliceResult, n)
		for i := range slices {
			slices[i] = load.SliceResult{Round: i, Start: time.Unix(0, 1), Latency: &result.Latency{RTT: make([]byte, 1024)}}
		}
		return slices, nil
	}}
	c, _ := start(t, e)
	slices, _, err := c.Run(t.Context(), plan(1), nil)
	if err != nil || len(slices) != n || slices[n-1].Round != n-1 {
		t.Errorf("%d slices, %v; want %d", len(slices), err, n)
	}
}

func TestCollectorIsOffInBetween(t *testing.T) {
	before := debug.SetGCPercent(87)
	defer debug.SetGCPercent(before)
	limit := debug.SetMemoryLimit(-1)
	percent := func() int {
		p := debug.SetGCPercent(-1)
		debug.SetGCPercent(p)
		return p
	}
	a, b := agent.QuietRuntime(), agent.QuietRuntime()
	if percent() != -1 || debug.SetMemoryLimit(-1) != agent.MemoryLimit {
		t.Error("the collector runs during a series")
	}
	a()
	a()
	if percent() != -1 {
		t.Error("the first of two series turned it on")
	}
	b()
	if percent() != 87 || debug.SetMemoryLimit(-1) != limit {
		t.Errorf("percent %d, limit %d not put back", percent(), debug.SetMemoryLimit(-1))
	}
}

// stuck is a passive end that does not close until it is let go.
type stuck chan struct{}

func (s stuck) Close() error            { <-s; return nil }
func (stuck) FailedArms() map[int]error { return nil }
func (stuck) Refused() int64            { return 0 }

// TestStuckSeriesDoesNotKeepTheAgent: whatever hangs, the agent ends when it
// is told to, finished series or not.
func TestStuckSeriesDoesNotKeepTheAgent(t *testing.T) {
	for _, finish := range []bool{false, true} {
		t.Run(fmt.Sprint("finish=", finish), func(t *testing.T) {
			agent.ShortGrace(t)
			hang := make(stuck)
			defer close(hang)
			e := agent.Engine{
				Serve: func(load.Plan, engine.SliceObserver, engine.GuestDialer) (engine.GuestServer, error) {
					return hang, nil
				},
				Run: func(context.Context, load.Plan, engine.SliceObserver, engine.GuestDialer) ([]load.SliceResult, error) {
					<-hang
					return nil, nil
				},
			}
			socket := filepath.Join(testenv.SocketFolder(t), "s")
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- agent.Main(ctx, agent.Options{Machine: "m1", Socket: socket, Engine: e}) }()
			c, err := agent.Dial(t.Context(), socket)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Serve(t.Context(), plan(1), nil); err != nil {
				t.Fatal(err)
			}
			calls := make(chan error, 2)
			go func() { _, _, err := c.Run(t.Context(), plan(1), nil); calls <- err }()
			go func() {
				var err error
				if finish {
					_, err = c.Finish(t.Context(), 1)
				}
				calls <- err
			}()
			time.Sleep(50 * time.Millisecond)
			if finish {
				_, err := c.Serve(t.Context(), plan(2), nil)
				code(t, err, verr.Busy)
			}
			cancel()
			if err := waitFor(t, "agent", ended); err != nil {
				t.Errorf("ended with %v", err)
			}
			waitFor(t, "call", calls)
			waitFor(t, "call", calls)
		})
	}
}

func TestNamespaceIsMeteredOnce(t *testing.T) {
	const own, again, pod, other = "/proc/self/ns/net", "/proc/thread-self/ns/net", "/run/netns/pod", "/run/netns/other"
	for _, c := range []struct{ from, spaces, ends, crossed []string }{
		{[]string{own}, []string{own}, []string{own}, []string{own}},
		{[]string{own}, []string{again}, []string{own}, []string{own}},
		{[]string{own, own}, nil, []string{own}, []string{own}},
		{[]string{pod}, []string{own}, []string{pod}, []string{pod, own}},
		{[]string{pod, other, pod}, []string{own, other}, []string{pod, other}, []string{pod, other, own}},
	} {
		arm := load.Arm{Name: "some", ClientNetns: c.spaces, ServerNetns: []string{"/run/netns/far"}}
		for _, ns := range c.from {
			arm.Ends = append(arm.Ends, load.Pair{From: host.Endpoint{Namespace: ns}})
		}
		got := agent.MeterArms(load.Plan{Arms: []load.Arm{arm}}, agent.ClientSide)[0]
		if !slices.Equal(got.Ends, c.ends) || !slices.Equal(got.Crossed, c.crossed) {
			t.Errorf("from %q: ends in %q and crosses %q; want %q and %q", c.from, got.Ends, got.Crossed, c.ends, c.crossed)
		}
	}
}
