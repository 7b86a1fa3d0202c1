package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/venturi-net/venturi/internal/agent/agentpb"
	"github.com/venturi-net/venturi/internal/load"
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

// stepPatience is how long the agent in a virtual machine may take for a slice
// beyond its length: the ends' own patience with each other, several times, so
// that only a virtual machine that hangs exceeds it.
const stepPatience = 30 * time.Second

// guestCall bounds, instead of shortCall, what is asked of the agent in a virtual
// machine while an agent of a machine is asked: reaching it included, it is well
// below, so that one that hangs costs its own arms, and not the series.
var guestCall = shortCall / 2

// armPatience is how long an arm may take to fail when it is opened.
const armPatience = 10 * time.Second

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
	ctx, cancel := context.WithTimeout(ctx, min(dialPatience, guestCall))
	defer cancel()
	// Where nobody listens any more, Dial would wait for somebody to.
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("reach its agent: %w", err)
	}
	conn.Close()
	return Dial(ctx, socket)
}

// Serve is of [load.GuestDialer].
func (g *Guests) Serve(socket string, plan load.Plan) (load.GuestServer, error) {
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

// FailedArms is of [load.GuestServer].
func (s *servedGuest) FailedArms() map[int]error { return s.shut }

// Refused is of [load.GuestServer].
func (s *servedGuest) Refused() int64 { return s.client.Refused() }

// Close is of [load.GuestServer].
func (s *servedGuest) Close() error {
	defer s.client.Close()
	sums, err := s.client.finish(context.Background(), s.token, guestCall)
	s.guests.collect(sums)
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(s.arms, ", "), inVM(err))
	}
	return nil
}

// Open is of [load.GuestDialer].
func (g *Guests) Open(ctx context.Context, socket string, plan load.Plan) (load.Client, error) {
	c, err := g.dial(ctx, socket)
	if err != nil {
		return nil, inVM(err)
	}
	// In a slice all flows of an arm are told to begin and to end.
	s := &steps{guests: g, client: c, limit: plan.LongestSlice() + stepPatience + forEnds(plan.Flows)}
	// The stream outlives ctx, which ends the series between two slices.
	call, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancel
	if err := s.open(call, plan); err != nil {
		s.hangUp()
		return nil, inVM(err)
	}
	return s, nil
}

// steps is a series whose active ends are in a virtual machine.
type steps struct {
	guests *Guests
	client *Client
	stream agentpb.Agent_StepsClient
	cancel context.CancelFunc
	limit  time.Duration // for one answer
	broken bool          // the stream is of no use any more
}

func (s *steps) open(ctx context.Context, plan load.Plan) error {
	p, err := planToPB(plan)
	if err != nil {
		return err
	}
	if s.stream, err = s.client.api.Steps(ctx); err != nil {
		return fromStatus(s.client.machine, err)
	}
	limit := s.limit + forEnds(endsOf(plan)) + time.Duration(len(plan.Arms))*armPatience
	_, err = s.askWithin(limit, &agentpb.StepsRequest{Series: &agentpb.SeriesRequest{Plan: p, Meters: s.guests.meters}})
	return err
}

// ask sends a request, if there is one, and waits for the next answer.
func (s *steps) ask(req *agentpb.StepsRequest) (*agentpb.StepsReply, error) {
	return s.askWithin(s.limit, req)
}

func (s *steps) askWithin(limit time.Duration, req *agentpb.StepsRequest) (*agentpb.StepsReply, error) {
	late := time.AfterFunc(limit, s.cancel)
	if req != nil {
		_ = s.stream.Send(req) // if that fails, the answer says why
	}
	reply, err := s.stream.Recv()
	if !late.Stop() && err != nil {
		return nil, fmt.Errorf("the agent of %s did not answer within %v", s.client.machine, limit)
	}
	return reply, fromStatus(s.client.machine, err)
}

// Measure is of [load.Client].
func (s *steps) Measure(arm, round int) load.SliceResult {
	reply, err := s.ask(&agentpb.StepsRequest{Step: &agentpb.Step{Arm: int64(arm), Round: int64(round)}})
	if err == nil && reply.GetSlice() == nil {
		err = errors.New("the agent did not answer with a slice")
	}
	if err != nil {
		s.broken = true
		return load.SliceResult{Err: inVM(err)}
	}
	return sliceFromPB(reply.GetSlice())
}

// Close is of [load.Client].
func (s *steps) Close() {
	defer s.hangUp()
	if s.broken || s.stream.CloseSend() != nil {
		return
	}
	// What is lost with an error here is told by the next series: the agent is
	// gone, or hangs.
	if reply, err := s.ask(nil); err == nil {
		s.guests.collect(convert(reply.GetMeters(), meterFromPB))
	}
}

func (s *steps) hangUp() {
	s.cancel()
	s.client.Close()
}
