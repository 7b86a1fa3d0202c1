package load

import (
	"errors"
	"fmt"
	"time"

	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// A background is a stream that an arm carries beside its load, on flows and threads of its
// own. It starts before each slice of the load, ends after it, and goes through the same
// path at the same time.

// Background is the stream beside a load.
type Background struct {
	Load  string
	Size  int // bytes of a message
	Flows int
	Rate  float64 // see [Plan.Rate]; 0: as fast as it goes
	// ClientCPU and ServerCPU pin its loops; -1: not pinned.
	ClientCPU, ServerCPU int
}

// BackgroundLead is how long a background runs before a slice begins: a TCP stream has
// reached its rate by then.
const BackgroundLead = 20 * time.Millisecond

// CheckBackground tells whether the load can run beside another.
func (l Load) CheckBackground() error {
	if l.Kind == Stream {
		return nil
	}
	return verr.New(verr.Usage, "cannot run "+l.Name+" beside a load", "only a stream goes on whatever comes back",
		"use tcp_bw or udp_bw, with a rate if you like: --beside udp_bw@100k")
}

// CheckBeside tells whether a load can have another beside it.
func (l Load) CheckBeside() error {
	if l.Kind == PingPong || l.Kind == Scheduled {
		return nil
	}
	return verr.New(verr.Usage, "cannot run "+l.Name+" beside another load", "--beside is for latency, and "+l.Name+" has none",
		"use it with probe, ping, or a ping-pong such as udp_lat or tcp_rr")
}

// background is the plan of the stream beside a plan's load; nil: there is none.
func (p Plan) background() *Plan {
	b := p.Background
	if b == nil {
		return nil
	}
	width := p.Flows
	if l, err := Find(p.Load); err == nil {
		width = max(width, l.ClientPorts(p.Flows))
	}
	bg := p
	bg.Background, bg.Token = nil, p.Token+1
	bg.Load, bg.Size, bg.Flows, bg.Rate, bg.Batch, bg.Response, bg.Threads = b.Load, b.Size, b.Flows, b.Rate, 0, 0, 0
	bg.ClientCPU, bg.ServerCPU = b.ClientCPU, b.ServerCPU
	bg.ClientCPUs, bg.ServerCPUs = nil, nil
	bg.Head = BackgroundLead
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
	time.Sleep(BackgroundLead)
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
