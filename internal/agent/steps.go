package agent

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/venturi-net/venturi/internal/agent/agentpb"
	"github.com/venturi-net/venturi/internal/load/engine"
)

// Steps opens the active ends of a series and runs one slice for each step that
// it is asked for. A caller that goes away ends the series.
func (s *server) Steps(stream agentpb.Agent_StepsServer) error {
	first, err := stream.Recv()
	if err != nil {
		return fmt.Errorf("receive series: %w", err)
	}
	plan, err := planFromPB(first.GetSeries().GetPlan())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	if err := s.begin(&active{token: plan.Token, stop: cancel}); err != nil {
		return err
	}
	defer s.end()
	rec, err := s.open(plan, first.GetSeries().GetMeters(), clientSide)
	if err != nil {
		return err
	}
	defer s.slicesRun(plan)()
	client, err := engine.Open(ctx, plan, rec, nil)
	if err == nil {
		err = s.step(ctx, stream, client, len(plan.Arms))
		client.Close()
	}
	if err == nil {
		err = stream.Send(&agentpb.StepsReply{Meters: convert(rec.Meters(), meterToPB)})
	}
	return errors.Join(err, rec.Close())
}

// step runs slices until the caller wants no more, or ctx ends.
func (s *server) step(ctx context.Context, stream agentpb.Agent_StepsServer, client engine.Client, arms int) error {
	if err := stream.Send(&agentpb.StepsReply{}); err != nil {
		return err
	}
	type asked struct {
		step *agentpb.Step
		err  error
	}
	steps := make(chan asked)
	// Receiving ends with the stream only, and the agent may have to end before.
	go func() {
		for {
			req, err := stream.Recv()
			select {
			case steps <- asked{req.GetStep(), err}:
			case <-ctx.Done():
			}
			if err != nil || ctx.Err() != nil {
				return
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case a := <-steps:
			if errors.Is(a.err, io.EOF) {
				return nil
			}
			if a.err != nil {
				return a.err
			}
			arm := int(a.step.GetArm())
			if a.step == nil || arm < 0 || arm >= arms {
				return fmt.Errorf("asked for a slice of arm %d of %d", arm, arms)
			}
			slice := client.Measure(arm, int(a.step.GetRound()))
			if err := stream.Send(&agentpb.StepsReply{Slice: sliceToPB(slice)}); err != nil {
				return err
			}
		}
	}
}
