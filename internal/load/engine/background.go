package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/result"
)

// backgroundOf is the plan of the stream beside a plan's load; nil: there is none.
func backgroundOf(p load.Plan) *load.Plan {
	b := p.Background
	if b == nil {
		return nil
	}
	width := p.Flows
	if l, err := load.Find(p.Load); err == nil {
		width = max(width, l.ClientPorts(p.Flows))
	}
	bg := p
	bg.Background, bg.Token = nil, p.Token+1
	bg.Load, bg.Size, bg.Flows, bg.Rate, bg.Batch, bg.Response, bg.Threads = b.Load, b.Size, b.Flows, b.Rate, 0, 0, 0
	bg.ClientCPU, bg.ServerCPU = b.ClientCPU, b.ServerCPU
	bg.ClientCPUs, bg.ServerCPUs = nil, nil
	bg.Head = load.BackgroundLead
	// It is stopped when the slice ends, which may wait for lost answers.
	bg.Slice = p.LongestSlice() + ioTimeout
	bg.Arms = nil
	for _, a := range p.Arms {
		a.ClientPort, a.ServerPort, a.Spin = a.ClientPort+width, a.ServerPort+width, 0
		a.Rate, a.BackgroundRate = a.BackgroundRate, 0
		a.Dial = a.Dial[min(width, len(a.Dial)):]
		bg.Arms = append(bg.Arms, a)
	}
	return &bg
}

// runBeside measures a slice of an arm while the background runs.
func (h *localClient) runBeside(arm int, measure func() error) (*result.Stream, error) {
	b := h.background
	b.slice++
	flows := b.arms[arm]
	for _, a := range flows {
		if err := a.do(func(a *active) error { return a.begin(b.slice) }); err != nil {
			return nil, fmt.Errorf("begin background: %w", err)
		}
	}
	for _, a := range flows {
		a.quit.Store(false)
		a.start(func(a *active) error { return a.run(b.plan.Head, b.plan.Slice) })
	}
	time.Sleep(load.BackgroundLead)
	failed := measure()
	for _, a := range flows {
		a.quit.Store(true)
	}
	var stopped error
	for _, a := range flows {
		stopped = errors.Join(stopped, a.finish())
	}
	if failed != nil || stopped != nil {
		if stopped != nil {
			failed = errors.Join(failed, fmt.Errorf("run background: %w", stopped))
		}
		return nil, failed
	}
	for _, a := range flows {
		if err := a.do(func(a *active) error { return a.end(b.slice) }); err != nil {
			return nil, fmt.Errorf("end background: %w", err)
		}
	}
	carried, _ := sumStreams(flows)
	return carried, nil
}
