package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/venturi-net/venturi/internal/agent/agentpb"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/result"
)

// stepTimeout is how long an agent may take for a slice beyond its length: the ends' own
// timeouts with each other, several times, so that only one that hangs exceeds it.
const stepTimeout = 30 * time.Second

// armTimeout is how long an arm may take to fail when it is opened.
const armTimeout = 10 * time.Second

// steps is a series whose active ends one agent has, and whose slices somebody else asks for.
type steps struct {
	client *Client
	stream agentpb.Agent_StepsClient
	cancel context.CancelFunc
	limit  time.Duration // for one answer
	broken bool          // the stream is of no use any more
}

// openSteps opens the active ends of a series, with these meters. Once they are open, the series
// outlives ctx, which ends it between two slices.
func (c *Client) openSteps(ctx context.Context, plan load.Plan, meters []string) (s *steps, err error) {
	p, err := planToPB(plan)
	if err != nil {
		return nil, err
	}
	call, cancel := context.WithCancel(context.WithoutCancel(ctx))
	// In a slice all flows of an arm are told to begin and to end.
	s = &steps{client: c, cancel: cancel, limit: c.timeoutScale * (plan.LongestSlice() + stepTimeout + forEnds(plan.Flows))}
	if s.stream, err = c.api.Steps(call); err != nil {
		cancel()
		return nil, c.callError(err)
	}
	limit := s.limit + c.timeoutScale*(forEnds(endsOf(plan))+time.Duration(len(plan.Arms))*armTimeout)
	opened := context.AfterFunc(ctx, cancel)
	_, err = s.askWithin(limit, &agentpb.StepsRequest{Series: &agentpb.SeriesRequest{Plan: p, Meters: meters}})
	if !opened() {
		err = ctx.Err() // whatever else it came to
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return s, nil
}

// askWithin sends a request, if there is one, and waits for the next answer.
func (s *steps) askWithin(limit time.Duration, req *agentpb.StepsRequest) (*agentpb.StepsReply, error) {
	late := time.AfterFunc(limit, s.cancel)
	if req != nil {
		_ = s.stream.Send(req) // if that fails, the answer says why
	}
	reply, err := s.stream.Recv()
	if !late.Stop() && err != nil {
		return nil, fmt.Errorf("the agent of %s did not answer within %v", s.client.machine, limit)
	}
	if err != nil {
		return nil, s.client.callError(err)
	}
	return reply, nil
}

// measure asks for one slice. After an error the series is over.
func (s *steps) measure(arm, round int) (load.SliceResult, error) {
	reply, err := s.askWithin(s.limit, &agentpb.StepsRequest{Step: &agentpb.Step{Arm: int64(arm), Round: int64(round)}})
	if err == nil && reply.GetSlice() == nil {
		err = errors.New("the agent did not answer with a slice")
	}
	if err != nil {
		s.broken = true
		return load.SliceResult{}, err
	}
	return sliceFromPB(reply.GetSlice()), nil
}

// end ends the series, waits until the agent is free for the next, and gives what the meters
// saw.
func (s *steps) end() ([]result.Meter, error) {
	defer s.cancel()
	if s.broken {
		return nil, nil // its error is told already
	}
	if err := s.stream.CloseSend(); err != nil {
		return nil, s.client.callError(err)
	}
	reply, err := s.askWithin(s.limit, nil)
	if err != nil {
		return nil, err
	}
	late := time.AfterFunc(s.limit, s.cancel)
	defer late.Stop()
	if _, err = s.stream.Recv(); errors.Is(err, io.EOF) {
		err = nil
	} else if err != nil {
		err = s.client.callError(err)
	}
	return convert(reply.GetMeters(), meterFromPB), err
}
