package experiment

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// ClientAgent is the agent of the clients' machine.
type ClientAgent interface {
	// Run drives a series and returns its slices. When ctx ends it returns what
	// was measured until the next slice boundary, with the context's error.
	Run(ctx context.Context, plan load.Plan, meters []string) ([]load.SliceResult, []result.Meter, error)
}

// ServerAgent is the agent of the servers' machine.
type ServerAgent interface {
	// Serve opens the servers of a series. Arms whose ends could not be opened
	// are shut, each for a reason; the others wait for their clients.
	Serve(ctx context.Context, plan load.Plan, meters []string) (shut map[int]error, err error)
	// Finish ends what Serve began. It works after ctx ended.
	Finish(ctx context.Context, token uint64) ([]result.Meter, error)
}

// Watch is told how a run goes. Calls come from one goroutine.
type Watch interface {
	Event(Event)
}

// Event is where a run stands.
type Event struct {
	Series, Cell int           // that begin now, from 0; Series == Plan.Series when all is done
	Remaining    time.Duration // foretold from how long it took until now
	Record       *result.Record
	CellDone     bool // a cell has new slices since the last event
}

// StopRule says which cells are to be measured on: none, and the run stops. It is
// asked at the plan's looks, or again and again in a plan that goes on until all
// is decided.
type StopRule func(rec *result.Record) (cells []string, err error)

// Run is one comparison.
type Run struct {
	Plan         *result.Plan
	Ends         []Ends // of Plan.Arms; ignored for the arm of a tool
	Tools        map[string]Tool
	Client       ClientAgent
	Server       ServerAgent
	ClientMeters []string // names of meters
	ServerMeters []string
	// Congestion is the congestion control of TCP; see load.Plan.
	Congestion string
	Write      func(result.Line) error
	Watch      Watch
	StopRule   StopRule // nil: never stop early
	OtherCPUs  [2]int   // of a stream beside a load that runs on cores of its own
	// ThreadCPUs are the client's and the server's cores for the threads that flows are dealt
	// out to; none: those of the plan.
	ThreadCPUs [2][]int
	// DaemonExit tells which process that an arm needs has exited; nil: none. The
	// function may be nil.
	DaemonExit func(arm int) error
	// FinalWarnings gives the warnings that are due when all is measured; may be nil.
	FinalWarnings func() []result.Warning

	rec         *result.Record
	rng         *rand.Rand
	ports       portAllocator
	disabled    map[armCell]bool // where an arm failed, and is left out from there
	exitAwaited map[int]bool     // arms; see daemonExit
	start       time.Time
	began       time.Time // when the last series began
	looked      int       // after how many series the stop rule was asked last
	deadline    time.Time // zero: none
}

// Do runs the plan and closes the record. rec already holds the header, plan
// and facts that were written. The error is nil when the run ended as it was
// meant to, or at the user's request; the record is closed in any case but
// that of a record that cannot be written.
func (r *Run) Do(ctx context.Context, rec *result.Record) error {
	r.rec, r.start = rec, time.Now()
	r.rng = rand.New(rand.NewPCG(r.Plan.Seed, 0x76656e74757269))
	r.ports.next = r.rng.IntN(portSpan / 2)
	r.disabled, r.exitAwaited = map[armCell]bool{}, map[int]bool{}
	if r.Plan.Budget > 0 {
		r.deadline = r.start.Add(r.Plan.Budget)
	}
	end := result.End{Reason: result.Complete}
	err := r.series(ctx, &end)
	switch {
	case err == nil:
	case ctx.Err() != nil && !errors.Is(err, ErrRecord):
		end.Reason, err = result.Interrupted, nil
	default:
		end.Reason, end.Error = result.Failed, err.Error()
	}
	if errors.Is(err, ErrRecord) {
		return err
	}
	if r.FinalWarnings != nil {
		for _, w := range r.FinalWarnings() {
			if werr := r.warn(w); werr != nil {
				return werr
			}
		}
	}
	end.Slices, end.Took = len(rec.Slices), time.Since(r.start)
	if werr := r.add(result.Line{End: &end}); werr != nil {
		return werr
	}
	return err
}

// series runs one series after the other until the plan is done, precise
// enough, or out of time.
func (r *Run) series(ctx context.Context, end *result.End) error {
	stopped := result.Precise
	if r.Plan.UntilDecided {
		stopped = result.Decided
	}
	var open []string // cells that are to be measured on; nil: all
	for s := range r.Plan.Series {
		if r.outOfTime(s) {
			decided, err := r.decidedMeanwhile(s)
			end.Reason = result.OutOfBudget
			if decided {
				end.Reason = stopped
			}
			return err
		}
		r.began = time.Now()
		open = r.withMaximums(open)
		for i, cell := range r.cellOrder() {
			if open != nil && !slices.Contains(open, r.Plan.Cells[cell].Name) {
				continue
			}
			r.reportProgress(s, cell, i)
			if err := r.cell(ctx, s, r.Plan.Cells[cell]); err != nil {
				return err
			}
		}
		end.Series = s + 1
		if !r.looks(s + 1) {
			continue
		}
		var err error
		if open, err = r.look(s + 1); err != nil {
			return err
		}
		if len(open) == 0 {
			end.Reason = stopped
			return nil
		}
	}
	r.reportProgress(r.Plan.Series, 0, 0)
	return nil
}

func (r *Run) reportProgress(series, cell, nth int) {
	if r.Watch == nil {
		return
	}
	cells := len(r.Plan.Cells)
	left := Duration(r.Plan, r.slowdown())
	if done := series*cells + nth; done > 0 {
		left = time.Since(r.start) / time.Duration(done) * time.Duration(r.Plan.Series*cells-done)
	}
	if !r.deadline.IsZero() { // no series begins that would end after it
		left = min(left, max(0, time.Until(r.deadline)))
	}
	r.Watch.Event(Event{Series: series, Cell: cell, Remaining: left, Record: r.rec, CellDone: series+nth > 0})
}

// slowdown is how many times longer this machine takes than a real one; see [Duration].
func (r *Run) slowdown() int {
	if r.rec.Emulated() {
		return EmulationSlowdown
	}
	return 1
}

// armCell is one arm in one cell: a path that cannot carry one size may well
// carry all others.
type armCell struct {
	cell string
	arm  int
}

// cell runs one series of one cell over all arms that live in it.
func (r *Run) cell(ctx context.Context, series int, cell result.Cell) error {
	if err := r.checkArms(ctx, cell); err != nil {
		return err
	}
	var arms []int
	for i := range r.Plan.Arms {
		if !r.disabled[armCell{cell.Name, i}] {
			arms = append(arms, i)
		}
	}
	switch {
	case r.baselineFailed():
		return r.noBaseline()
	case r.disabled[armCell{cell.Name, r.baseline()}]:
		return nil // nothing to compare with
	case cell.Tool() != "":
		return r.runTool(ctx, series, cell, arms)
	case r.hasToolArm():
		return r.alternate(ctx, series, cell, arms)
	}
	return r.interleave(ctx, series, cell, arms)
}

// interleave runs one series of a cell over some arms, slice by slice.
func (r *Run) interleave(ctx context.Context, series int, cell result.Cell, arms []int) error {
	plan := r.seriesPlan(cell, arms)
	if err := r.setShares(ctx, &plan, series, cell, arms); err != nil {
		return err
	}
	shut, err := r.Server.Serve(ctx, plan, r.ServerMeters)
	if err != nil {
		return fmt.Errorf("open servers for %s: %w", cell.Name, err)
	}
	for arm, why := range shut {
		dropArm(&plan, arm)
		if err := r.recordSlice(ctx, series, cell, arms, load.SliceResult{Arm: arm, Start: time.Now(), Err: why}); err != nil {
			return err
		}
	}
	results, near, runErr := r.Client.Run(ctx, plan, r.ClientMeters)
	far, err := r.Server.Finish(ctx, plan.Token)
	for _, s := range results {
		if werr := r.recordSlice(ctx, series, cell, arms, s); werr != nil {
			return werr
		}
	}
	for _, m := range append(near, far...) {
		m.Cell, m.Series = cell.Name, series
		if werr := r.add(result.Line{Meter: &m}); werr != nil {
			return werr
		}
	}
	switch {
	case runErr != nil:
		return runErr
	case r.baselineFailed() && err != nil:
		return err // the far agent has gone, and took the baseline with it
	case r.baselineFailed():
		return r.noBaseline()
	case err != nil && ctx.Err() == nil:
		// The slices are there; what failed at the far end shows in them.
		return r.warn(result.Warning{Code: "server-failed", Cell: cell.Name, Text: err.Error()})
	}
	return nil
}

// baselineFailed tells whether the baseline has failed in every cell.
func (r *Run) baselineFailed() bool {
	for _, c := range r.Plan.Cells {
		if !r.disabled[armCell{c.Name, r.baseline()}] {
			return false
		}
	}
	return true
}

// errNoBaseline is wrapped by the error of a run whose baseline is dead.
var errNoBaseline = errors.New("the path that all others are compared with has failed in every load and size")

func (r *Run) noBaseline() error {
	name, err := r.Plan.Arms[r.baseline()].Name, errNoBaseline
	for _, w := range r.rec.Warnings {
		if w.Arm == name {
			err = fmt.Errorf("%w: %s", errNoBaseline, w.Text)
		}
	}
	return verr.Wrap(verr.Failed, "cannot go on without "+name, err, "see the warnings above; is the path up?")
}

// checkArms disables the arms that lack what they need. A path may well forward
// when a daemon of it has ended, and is then not the path that was asked for.
func (r *Run) checkArms(ctx context.Context, cell result.Cell) error {
	for arm := range r.Plan.Arms {
		if r.DaemonExit == nil || r.disabled[armCell{cell.Name, arm}] {
			continue
		}
		if ended := r.DaemonExit(arm); ended != nil {
			if err := r.disableArm(ctx, cell, arm, ended); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Run) baseline() int {
	return slices.IndexFunc(r.Plan.Arms, func(a result.Arm) bool { return a.Role == result.RoleBaseline })
}

// recordSlice writes one slice, and disables the arm that failed in it.
func (r *Run) recordSlice(ctx context.Context, series int, cell result.Cell, arms []int, s load.SliceResult) error {
	arm := arms[s.Arm]
	name := r.Plan.Arms[arm].Name
	slice := result.Slice{
		Cell: cell.Name, Arm: name, Series: series, Round: s.Round,
		Start: r.sinceRecord(s.Start), Elapsed: s.Elapsed.Nanoseconds(),
		Latency: s.Latency, Stream: s.Stream, Background: s.Background,
	}
	if s.Err != nil {
		slice.Failed = s.Err.Error()
		if !r.disabled[armCell{cell.Name, arm}] {
			if err := r.disableArm(ctx, cell, arm, s.Err); err != nil {
				return err
			}
		}
	}
	return r.add(result.Line{Slice: &slice})
}

// disableArm leaves an arm out of the rest of a cell, or of all cells if a process that
// it needs has exited.
func (r *Run) disableArm(ctx context.Context, cell result.Cell, arm int, why error) error {
	w := result.Warning{Code: "arm-failed", Arm: r.Plan.Arms[arm].Name, Cell: cell.Name,
		Text: "left out of this cell from here: " + why.Error()}
	r.disabled[armCell{cell.Name, arm}] = true
	if ended := r.daemonExit(ctx, arm); ended != nil {
		w.Cell, w.Text = "", "left out from here: "+ended.Error()
		for _, c := range r.Plan.Cells {
			r.disabled[armCell{c.Name, arm}] = true
		}
	}
	return r.warn(w)
}

// exitDelays are the pauses, which the context can end, before it is asked whether a process of
// an arm that failed has exited, the first time that it fails: its sockets are gone before.
var exitDelays = []time.Duration{0, 200 * time.Millisecond, time.Second}

// daemonExit tells which process of an arm that failed has exited; nil: none.
func (r *Run) daemonExit(ctx context.Context, arm int) error {
	if r.DaemonExit == nil {
		return nil
	}
	delays := exitDelays
	if r.exitAwaited[arm] {
		delays = delays[:1]
	}
	r.exitAwaited[arm] = true
	for _, d := range delays {
		_ = host.Sleep(ctx, d)
		if ended := r.DaemonExit(arm); ended != nil {
			return ended
		}
	}
	return nil
}

func (r *Run) warn(w result.Warning) error { return r.add(result.Line{Warning: &w}) }

// add puts a line into the record, in memory and on disk.
func (r *Run) add(line result.Line) error {
	r.rec.Add(line)
	return r.write(line)
}

// ErrRecord is that the record cannot be written: the end of any run.
var ErrRecord = errors.New("write record")

func (r *Run) write(line result.Line) error {
	if err := r.Write(line); err != nil {
		return fmt.Errorf("%w: %w", ErrRecord, err)
	}
	return nil
}
