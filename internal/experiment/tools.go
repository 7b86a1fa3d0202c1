package experiment

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/venturi-net/venturi/result"
)

// Tool is a real measuring program that runs beside our own loads.
type Tool interface {
	// Measure runs the program once over the first pair of ends for the length of the
	// cell's slice, and gives its figure as a slice, with the meters' sums.
	Measure(ctx context.Context, cell result.Cell, ends Ends, clientCPU, serverCPU int) (result.Slice, []result.Meter, error)
}

// runTool runs one series of a cell whose load is a tool's: once over each arm, in random
// order.
func (r *Run) runTool(ctx context.Context, series int, cell result.Cell, arms []int) error {
	t := r.Tools[cell.Tool()]
	for _, i := range r.rng.Perm(len(arms)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		arm := arms[i]
		if pair := r.Ends[arm].Pairs[0]; pair.From.Agent != "" || pair.To.Agent != "" {
			if err := r.disableArm(ctx, cell, arm, errToolInVM); err != nil {
				return err
			}
			continue
		}
		if err := r.tool(ctx, series, cell, arm, t); err != nil {
			return err
		}
	}
	return nil
}

var errToolInVM = errors.New("tools run on the machines, but this path ends in virtual machines")

// hasToolArm tells whether a tool is an arm, and so runs in turn with our loads.
func (r *Run) hasToolArm() bool {
	return slices.ContainsFunc(r.Plan.Arms, func(a result.Arm) bool { return r.Tools[a.Path] != nil })
}

// alternate runs one pair: every arm once, in random order, each for one slice
// on sockets of its own, because a program cannot be interleaved finer.
func (r *Run) alternate(ctx context.Context, series int, cell result.Cell, arms []int) error {
	for _, i := range r.rng.Perm(len(arms)) {
		arm := arms[i]
		if err := ctx.Err(); err != nil {
			return err
		}
		t, isTool := r.Tools[r.Plan.Arms[arm].Path]
		if !isTool {
			if err := r.interleave(ctx, series, cell, []int{arm}); err != nil {
				return err
			}
			continue
		}
		if err := r.tool(ctx, series, cell, arm, t); err != nil {
			return err
		}
	}
	return nil
}

func (r *Run) tool(ctx context.Context, series int, cell result.Cell, arm int, t Tool) error {
	start := time.Now()
	slice, meters, err := t.Measure(ctx, cell, r.Ends[arm], r.Plan.ClientCPU, r.Plan.ServerCPU)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		slice, meters = result.Slice{}, nil // whatever it came to is not to be believed
	}
	name := r.Plan.Arms[arm].Name
	slice.Cell, slice.Arm, slice.Series = cell.Name, name, series
	slice.Start = r.sinceRecord(start)
	if err != nil {
		// One run that failed does not end the comparison: it is told, and the
		// pair is incomplete.
		slice.Failed = err.Error()
		if err := r.warn(result.Warning{Code: "tool-failed", Arm: name, Cell: cell.Name, Text: err.Error()}); err != nil {
			return err
		}
	}
	if err := r.add(result.Line{Slice: &slice}); err != nil {
		return err
	}
	for _, m := range meters {
		m.Cell, m.Arm, m.Series = cell.Name, name, series
		if err := r.add(result.Line{Meter: &m}); err != nil {
			return err
		}
	}
	return nil
}

// sinceRecord dates what happens in the record, whose header was written before the run began.
func (r *Run) sinceRecord(at time.Time) int64 {
	began := r.rec.Header.Started
	if began.IsZero() {
		began = r.start
	}
	return at.Sub(began).Nanoseconds()
}
