package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/load/engine"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// Guests reaches the agents in the virtual machines that ends of one series are
// in, and collects what the meters in there saw. It is for one role of a series.
type Guests struct {
	meters []string

	mu   sync.Mutex // series in several virtual machines end at once
	sums []result.Meter
}

// collect adds what the meters in one virtual machine saw.
func (g *Guests) collect(sums []result.Meter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sums = append(g.sums, sums...)
}

// NewGuests makes one that asks for those of the named meters that can be read
// only where the sockets are.
func NewGuests(meters []string) *Guests {
	g := &Guests{}
	for _, name := range meters {
		if slices.Contains(guestMeters, name) {
			g.meters = append(g.meters, name)
		}
	}
	return g
}

// guestCall bounds, instead of shortCall, what is asked of the agent in a virtual
// machine while an agent of a machine is asked: reaching it included, it is well
// below, so that one that hangs costs its own arms, and not the series.
var guestCall = shortCall / 2

// inVM says of an error where it was. What a user could do about it is for the
// agent of the machine to say, or for who knows why the virtual machine ended.
func inVM(err error) error {
	var told *verr.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("in the virtual machine: its agent does not answer")
	case errors.As(err, &told):
		return fmt.Errorf("in the virtual machine: %s: %s", told.Summary, told.Reason)
	}
	return fmt.Errorf("in the virtual machine: %w", err)
}

// dial connects to the agent in a virtual machine, over a socket that only this
// user can have made.
func (g *Guests) dial(ctx context.Context, socket string) (*Client, error) {
	if err := private(socket); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, min(dialTimeout, guestCall))
	defer cancel()
	// Where nobody listens any more, Dial would wait for somebody to.
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("reach its agent: %w", err)
	}
	conn.Close()
	return Dial(ctx, socket)
}

// Serve is of [engine.GuestDialer].
func (g *Guests) Serve(socket string, plan load.Plan) (engine.GuestServer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), guestCall+forEnds(endsOf(plan)))
	defer cancel()
	c, err := g.dial(ctx, socket)
	if err != nil {
		return nil, inVM(err)
	}
	shut, err := c.Serve(ctx, plan, g.meters)
	if err != nil {
		c.Close()
		return nil, inVM(err)
	}
	s := &servedGuest{guests: g, client: c, token: plan.Token, shut: shut}
	for _, a := range plan.Arms {
		s.arms = append(s.arms, a.Name)
	}
	return s, nil
}

// servedGuest are passive ends in a virtual machine.
type servedGuest struct {
	guests *Guests
	client *Client
	token  uint64
	arms   []string // names
	shut   map[int]error
}

// FailedArms is of [engine.GuestServer].
func (s *servedGuest) FailedArms() map[int]error { return s.shut }

// Refused is of [engine.GuestServer].
func (s *servedGuest) Refused() int64 { return s.client.Refused() }

// Close is of [engine.GuestServer].
func (s *servedGuest) Close() error {
	defer s.client.Close()
	sums, err := s.client.finish(context.Background(), s.token, guestCall)
	s.guests.collect(sums)
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(s.arms, ", "), inVM(err))
	}
	return nil
}

// Open is of [engine.GuestDialer].
func (g *Guests) Open(ctx context.Context, socket string, plan load.Plan) (engine.Client, error) {
	c, err := g.dial(ctx, socket)
	if err != nil {
		return nil, inVM(err)
	}
	s, err := c.openSteps(ctx, plan, g.meters)
	if err != nil {
		c.Close()
		return nil, inVM(err)
	}
	return guestSteps{s, g}, nil
}

// guestSteps is a series whose active ends are in a virtual machine.
type guestSteps struct {
	*steps
	guests *Guests
}

// Measure is of [engine.Client].
func (s guestSteps) Measure(arm, round int) load.SliceResult {
	slice, err := s.measure(arm, round)
	if err != nil {
		return load.SliceResult{Err: inVM(err)}
	}
	return slice
}

// Close is of [engine.Client].
func (s guestSteps) Close() {
	defer s.client.Close()
	sums, _ := s.end() // whoever opens the next series learns of it: the agent is gone, or hangs
	s.guests.collect(sums)
}
