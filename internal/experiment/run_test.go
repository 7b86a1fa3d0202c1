package experiment

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/result"
)

// agents plays both agents: it checks that a series is served before it runs,
// and makes up slices.
type agents struct {
	t      *testing.T
	served map[uint64]bool
	plans  []load.Plan
	fail   string // name of an arm that fails
	blank  string // name of an arm through which nothing comes
	shut   string // name of an arm that cannot be served
	onRun  func()
	slice  func(p load.Plan, arm int, s *load.SliceResult) // may be nil: changes a slice
}

func (a *agents) Serve(_ context.Context, p load.Plan, _ []string) (map[int]error, error) {
	a.served[p.Token] = true
	shut := map[int]error{}
	for i, arm := range p.Arms {
		if arm.Name == a.shut {
			shut[i] = errors.New("no such namespace")
		}
	}
	return shut, nil
}

func (a *agents) Finish(_ context.Context, token uint64) ([]result.Meter, error) {
	if !a.served[token] {
		a.t.Error("finished what was not served")
	}
	delete(a.served, token)
	return []result.Meter{{Arm: "host", Name: "tcp", Machine: "m2"}}, nil
}

func (a *agents) Run(ctx context.Context, p load.Plan, _ []string) ([]load.SliceResult, []result.Meter, error) {
	if !a.served[p.Token] {
		a.t.Error("ran what was not served")
	}
	a.plans = append(a.plans, p)
	var out []load.SliceResult
	for round, order := range p.Schedule {
		for _, arm := range order {
			s := load.SliceResult{Arm: arm, Round: round, Start: time.Now(), Elapsed: p.Slice,
				Latency: &result.Latency{Requests: 10, Replies: 10, RTTSum: 1000, RTTMedian: 100}}
			if p.Arms[arm].Name == a.fail {
				s = load.SliceResult{Arm: arm, Round: round, Start: time.Now(), Err: errors.New("broken")}
			}
			if p.Arms[arm].Name == a.blank {
				s.Latency = &result.Latency{Requests: 2, Lost: 2}
			}
			if a.slice != nil {
				a.slice(p, arm, &s)
			}
			out = append(out, s)
		}
	}
	if a.onRun != nil {
		a.onRun()
	}
	return out, nil, ctx.Err()
}

// ends serves an arm at some addresses.
func ends(to ...string) Ends {
	var e Ends
	for _, addr := range to {
		e.Pairs = append(e.Pairs, load.Pair{
			From: host.Endpoint{Addr: netip.MustParseAddr("10.0.0.1")},
			To:   host.Endpoint{Addr: netip.MustParseAddr(addr)},
		})
	}
	return e
}

func newRun(a *agents, series int) (*Run, *result.Record) {
	rec := &result.Record{Plan: result.Plan{
		Arms:   []result.Arm{{Name: "host", Role: result.RoleBaseline}, {Name: "host.copy", Role: result.RoleCopy}, {Name: "vxlan"}},
		Cells:  []result.Cell{{Name: "udp_lat/1", Load: "udp_lat", Size: 1, Flows: 2, Metric: result.OneWay}},
		Series: series, Rounds: 5, Seed: 7, Margin: 0.03, Confidence: 0.95,
	}}
	return &Run{
		Plan: &rec.Plan, Ends: []Ends{ends("10.0.0.1"), ends("10.0.0.1"), ends("10.0.0.2")},
		Client: a, Server: a, Write: func(result.Line) error { return nil },
	}, rec
}

// TestBlank: slices without a figure do not end an arm, and keep their counts.
func TestBlank(t *testing.T) {
	a := &agents{t: t, served: map[uint64]bool{}, blank: "vxlan"}
	r, rec := newRun(a, 3)
	if err := r.Do(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	lost := int64(0)
	for _, s := range rec.Slices {
		lost += s.Latency.Lost
	}
	if lost != 2*3*5 || len(rec.Slices) != 3*5*3 || len(rec.Warnings) != 0 {
		t.Errorf("%d lost in %d slices, warnings %v; want 30 in 45 and none", lost, len(rec.Slices), rec.Warnings)
	}
}

func TestDo(t *testing.T) {
	a := &agents{t: t, served: map[uint64]bool{}}
	r, rec := newRun(a, 3)
	if err := r.Do(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	if len(rec.Slices) != 3*5*3 || rec.End.Reason != result.Complete || rec.End.Series != 3 || len(rec.Meters) != 3 {
		t.Errorf("%d slices, %d meters, end %+v", len(rec.Slices), len(rec.Meters), rec.End)
	}
	if len(a.served) != 0 {
		t.Errorf("%d series were never finished", len(a.served))
	}
	checkPlans(t, a.plans)
}

// checkPlans wants each round to hold every arm once, not always in one order,
// arms at one address on ports of their own, and fresh ports each series.
func checkPlans(t *testing.T, plans []load.Plan) {
	t.Helper()
	orders, used := map[int]bool{}, map[int]bool{}
	for _, p := range plans {
		for _, round := range p.Schedule {
			sorted := slices.Sorted(slices.Values(round))
			if !slices.Equal(sorted, []int{0, 1, 2}) {
				t.Errorf("round %v", round)
			}
			orders[round[0]*100+round[1]*10+round[2]] = true
		}
		host, again, vxlan := p.Arms[0].ServerPort, p.Arms[1].ServerPort, p.Arms[2].ServerPort
		if again != host+p.Flows || vxlan != host {
			t.Errorf("ports %d, %d, %d with %d flows", host, again, vxlan, p.Flows)
		}
		if used[host] {
			t.Errorf("port %d comes twice", host)
		}
		used[host] = true
	}
	if len(orders) < 2 {
		t.Error("the order never changes")
	}
}

// TestSeed wants the same order from the same seed.
func TestSeed(t *testing.T) {
	var first []load.Plan
	for range 2 {
		a := &agents{t: t, served: map[uint64]bool{}}
		r, rec := newRun(a, 2)
		if err := r.Do(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = a.plans
			continue
		}
		for i, p := range a.plans {
			if p.Token != first[i].Token || !slices.EqualFunc(p.Schedule, first[i].Schedule, slices.Equal) {
				t.Errorf("series %d differs", i)
			}
		}
	}
}

func TestArmFails(t *testing.T) {
	a := &agents{t: t, served: map[uint64]bool{}, fail: "vxlan"}
	r, rec := newRun(a, 3)
	if err := r.Do(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	if len(a.plans[0].Arms) != 3 || len(a.plans[1].Arms) != 2 || rec.End.Reason != result.Complete {
		t.Errorf("%d, then %d arms; end %+v", len(a.plans[0].Arms), len(a.plans[1].Arms), rec.End)
	}
}

// TestArmLacksSomething leaves out an arm that has lost what it needs, though
// it carries what it is given; if it is the baseline the run ends.
func TestArmLacksSomething(t *testing.T) {
	for lost, c := range map[string]struct {
		slices, plans int
		reason        string
	}{"vxlan": {5*3 + 2*5*2, 3, result.Complete}, "host": {5 * 3, 1, result.Failed}} {
		a := &agents{t: t, served: map[uint64]bool{}}
		r, rec := newRun(a, 3)
		r.DaemonExit = func(arm int) error {
			if r.Plan.Arms[arm].Name == lost && len(a.plans) > 0 {
				return errors.New("on m1 a daemon ended: killed")
			}
			return nil
		}
		if err := r.Do(t.Context(), rec); (err != nil) != (c.reason == result.Failed) {
			t.Error(err)
		}
		if len(rec.Slices) != c.slices || len(a.plans) != c.plans || rec.End.Reason != c.reason {
			t.Errorf("%s: %d slices of %d series, end %+v", lost, len(rec.Slices), len(a.plans), rec.End)
		}
		if len(rec.Warnings) != 1 || rec.Warnings[0].Arm != lost || rec.Warnings[0].Cell != "" || rec.Warnings[0].Text != "left out from here: on m1 a daemon ended: killed" {
			t.Errorf("%s: warnings %+v", lost, rec.Warnings)
		}
	}
}

// The user need not wait until it is clear whether a process has exited.
func TestExitDelaysEnd(t *testing.T) {
	before := exitDelays
	exitDelays = []time.Duration{0, time.Hour}
	defer func() { exitDelays = before }()
	ctx, cancel := context.WithCancel(t.Context())
	a := &agents{t: t, served: map[uint64]bool{}, fail: "vxlan", onRun: cancel}
	r, rec := newRun(a, 3)
	r.DaemonExit = func(int) error { return nil }
	done := make(chan error, 1)
	go func() { done <- r.Do(ctx, rec) }()
	select {
	case err := <-done:
		if err != nil || rec.End.Reason != result.Interrupted || len(rec.Warnings) != 1 {
			t.Errorf("%v, end %+v, warnings %v", err, rec.End, rec.Warnings)
		}
	case <-time.After(host.ScaleTimeout(20 * time.Second)):
		t.Fatal("the run still waits for a process to exit")
	}
}

// TestArmFailsBeforeItsProcessExits names the process although its socket was gone before.
func TestArmFailsBeforeItsProcessExits(t *testing.T) {
	a := &agents{t: t, served: map[uint64]bool{}, fail: "vxlan"}
	r, rec := newRun(a, 3)
	asked := 0
	r.DaemonExit = func(arm int) error {
		if r.Plan.Arms[arm].Name != "vxlan" || len(a.plans) == 0 {
			return nil
		}
		if asked++; asked < 2 {
			return nil
		}
		return errors.New("on m1 a virtual machine ended: killed")
	}
	if err := r.Do(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	if len(rec.Warnings) != 1 || rec.Warnings[0].Cell != "" || rec.Warnings[0].Text != "left out from here: on m1 a virtual machine ended: killed" {
		t.Errorf("warnings %+v", rec.Warnings)
	}
}

// TestArmIsShut leaves an arm out whose server is not there, before it is run.
func TestArmIsShut(t *testing.T) {
	a := &agents{t: t, served: map[uint64]bool{}, shut: "vxlan"}
	r, rec := newRun(a, 3)
	if err := r.Do(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	for _, p := range a.plans {
		for _, round := range p.Schedule {
			if sorted := slices.Sorted(slices.Values(round)); !slices.Equal(sorted, []int{0, 1}) {
				t.Errorf("round %v of %d arms", round, len(p.Arms))
			}
		}
	}
	if len(rec.Slices) != 3*5*2+1 || len(rec.Warnings) != 1 || rec.Warnings[0].Arm != "vxlan" || rec.End.Reason != result.Complete {
		t.Errorf("%d slices, warnings %+v, end %+v", len(rec.Slices), rec.Warnings, rec.End)
	}
}

// TestBaselineFails ends the run: nothing can be compared any more.
func TestBaselineFails(t *testing.T) {
	a := &agents{t: t, served: map[uint64]bool{}, fail: "host"}
	r, rec := newRun(a, 3)
	if err := r.Do(t.Context(), rec); err == nil || rec.End.Reason != result.Failed || len(a.plans) != 1 {
		t.Errorf("error %v, end %+v after %d series", err, rec.End, len(a.plans))
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	a := &agents{t: t, served: map[uint64]bool{}, onRun: cancel}
	r, rec := newRun(a, 3)
	if err := r.Do(ctx, rec); err != nil {
		t.Fatal(err)
	}
	if rec.End.Reason != result.Interrupted || len(rec.Slices) != 15 || len(a.served) != 0 {
		t.Errorf("end %+v with %d slices, %d open series", rec.End, len(rec.Slices), len(a.served))
	}
}

func TestFullDisk(t *testing.T) {
	full := errors.New("no space left on device")
	a := &agents{t: t, served: map[uint64]bool{}}
	r, rec := newRun(a, 3)
	n := 0
	r.Write = func(result.Line) error {
		if n++; n > 20 {
			return full
		}
		return nil
	}
	if err := r.Do(t.Context(), rec); !errors.Is(err, full) || rec.End != nil {
		t.Errorf("error %v, end %+v", err, rec.End)
	}
}

func TestLook(t *testing.T) {
	a := &agents{t: t, served: map[uint64]bool{}}
	r, rec := newRun(a, 9)
	r.Plan.Looks = []int{3, 6, 9}
	var looked []int
	r.StopRule = func(*result.Record) ([]string, error) {
		looked = append(looked, len(a.plans))
		if len(looked) == 2 {
			return nil, nil
		}
		return []string{r.Plan.Cells[0].Name}, nil
	}
	if err := r.Do(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(looked, []int{3, 6}) || rec.End.Reason != result.Precise || rec.End.Series != 6 {
		t.Errorf("looked after %v, end %+v", looked, rec.End)
	}
}

// What is decided is measured no more; the run goes on with the others.
func TestUntilDecided(t *testing.T) {
	a := &agents{t: t, served: map[uint64]bool{}}
	r, rec := newRun(a, 20)
	second := r.Plan.Cells[0]
	second.Name = "second"
	r.Plan.Cells = append(r.Plan.Cells, second)
	r.Plan.UntilDecided = true
	r.StopRule = func(rec *result.Record) ([]string, error) {
		series := rec.Slices[len(rec.Slices)-1].Series + 1
		switch {
		case series < 5:
			return []string{r.Plan.Cells[0].Name, "second"}, nil
		case series < 8:
			return []string{"second"}, nil
		}
		return nil, nil
	}
	if err := r.Do(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	last := map[string]int{}
	for _, s := range rec.Slices {
		last[s.Cell] = max(last[s.Cell], s.Series+1)
	}
	if last[r.Plan.Cells[0].Name] != 5 || last["second"] != 8 || rec.End.Reason != result.Decided || rec.End.Series != 8 {
		t.Errorf("series of each cell %v, end %+v", last, rec.End)
	}
}

// What is to be said at the end is in the record, before its end.
func TestLastWords(t *testing.T) {
	r, rec := newRun(&agents{t: t, served: map[uint64]bool{}}, 2)
	measured := 0
	r.FinalWarnings = func() []result.Warning {
		measured = len(rec.Slices)
		return []result.Warning{{Code: "odd", Arm: "vxlan"}}
	}
	var order []string
	r.Write = func(l result.Line) error {
		if l.Warning != nil {
			order = append(order, l.Warning.Code)
		} else if l.End != nil {
			order = append(order, "end")
		}
		return nil
	}
	if err := r.Do(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	if want := []string{"odd", "end"}; !slices.Equal(order, want) || measured != 2*5*3 {
		t.Errorf("written: %v after %d slices, want %v after all", order, measured, want)
	}
}
