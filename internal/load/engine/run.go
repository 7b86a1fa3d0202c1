package engine

import (
	"context"
	"errors"
	"time"

	"github.com/venturi-net/venturi/internal/load"
)

// Client is the active end of some arms of a series.
type Client interface {
	// Measure runs one slice of an arm. A slice in which too little came through
	// for a figure is no failure: its counts say so. After a result with Err set
	// the arm must not be measured again; one that could not be opened gives such
	// a result the first time.
	Measure(arm, round int) load.SliceResult
	// Close ends the traffic.
	Close()
}

// SliceObserver is called when a slice of an arm begins and ends, on the machine where it
// runs and outside the timed part. Meters sample there.
type SliceObserver interface {
	Begin(arm int)
	End(arm int)
}

// Pauser is what a [SliceObserver] may be besides: it is told when no slice runs, and none
// begins until it returns.
type Pauser interface{ Pause() }

// ErrAborted is the cause to cancel the context of [Run] with when the other end is lost: the
// slice that runs ends at once, and is left out.
var ErrAborted = errors.New("the other end is lost")

// aborter is a [Client] whose slice can be ended by somebody else, as by [ErrAborted].
type aborter interface{ abort() }

// Run drives the active ends through the schedule of the plan. Arms that are
// not in it are left alone. observer may be nil, and so may guests if no end is in a
// virtual machine. When ctx ends it stops before the next slice and returns
// what it has with the context's error. An arm that fails is reported in one
// result with Err set and left out from there; the others go on.
func Run(ctx context.Context, plan load.Plan, observer SliceObserver, guests GuestDialer) ([]load.SliceResult, error) {
	c, err := Open(ctx, plan, observer, guests)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), ErrAborted) {
			c.(aborter).abort()
		}
	})()
	pauser, _ := observer.(Pauser)
	return Drive(ctx, plan.Schedule, c, pauser)
}

// Drive measures the slices of a schedule, as [Run] does. pauser may be nil.
func Drive(ctx context.Context, schedule [][]int, c Client, pauser Pauser) ([]load.SliceResult, error) {
	var results []load.SliceResult
	failed := map[int]bool{}
	for round, order := range schedule {
		for _, arm := range order {
			if err := ctx.Err(); err != nil {
				return results, err
			}
			if failed[arm] {
				continue
			}
			if pauser != nil {
				pauser.Pause()
			}
			s := c.Measure(arm, round)
			if s.Err != nil && errors.Is(context.Cause(ctx), ErrAborted) {
				return results, ctx.Err()
			}
			failed[arm] = s.Err != nil
			results = append(results, s)
		}
	}
	return results, nil
}

// Open connects the active ends of all arms that are scheduled, and warms each
// arm up. Its arguments are those of [Run]; when ctx ends, arms stay unopened.
func Open(ctx context.Context, plan load.Plan, observer SliceObserver, guests GuestDialer) (Client, error) {
	l, err := plan.Check()
	if err != nil {
		return nil, err
	}
	c := &clients{byArm: make([]Client, len(plan.Arms))}
	for _, g := range groupByAgent(plan, clientEnd) {
		var opened Client
		if g.agent == "" {
			opened = openLocalClient(ctx, l, &plan, g.arms, observer)
		} else {
			opened = openGuestClient(ctx, plan, g, observer, guests)
		}
		c.all = append(c.all, opened)
		for _, arm := range g.arms {
			c.byArm[arm] = opened
		}
	}
	return c, nil
}

// clients are the active ends of all arms, wherever they are.
type clients struct {
	byArm []Client // by arm
	all   []Client
}

func (c *clients) Measure(arm, round int) load.SliceResult { return c.byArm[arm].Measure(arm, round) }

func (c *clients) Close() {
	for _, client := range c.all {
		client.Close()
	}
}

// abort is of [aborter]. Slices in virtual machines are bounded by who asks for them.
func (c *clients) abort() {
	for _, client := range c.all {
		if a, ok := client.(aborter); ok {
			a.abort()
		}
	}
}

// failedSlice is the result of an arm that cannot be measured.
func failedSlice(arm, round int, err error) load.SliceResult {
	return load.SliceResult{Arm: arm, Round: round, Start: time.Now(), Err: err}
}
