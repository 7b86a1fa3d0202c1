package agent

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/venturi-net/venturi/internal/agent/agentpb"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/verr"
)

// A call on a channel that was hung up on says why the agent is lost, and not that somebody
// cancelled it.
func TestCallError(t *testing.T) {
	c := &Client{machine: "n1"}
	closing := status.Error(codes.Canceled, "grpc: the client connection is closing")
	if err := c.callError(closing); IsGone(err) {
		t.Errorf("an agent that is there: %v", err)
	}
	c.lose(lostError("n1", "it did not answer"))
	if err := c.callError(closing); !IsGone(err) {
		t.Errorf("a lost one: %v", err)
	}
	if err := c.callError(nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}

// stoppedAgent is an agent that ends: it says so in the reply to a call, and a little later, in
// its beats, why.
type stoppedAgent struct {
	agentpb.AgentClient
	agentpb.Agent_BeatsClient
	run error
}

func (a stoppedAgent) Beats(context.Context, ...grpc.CallOption) (agentpb.Agent_BeatsClient, error) {
	return a, nil
}

func (a stoppedAgent) Run(context.Context, *agentpb.SeriesRequest, ...grpc.CallOption) (*agentpb.RunReply, error) {
	return &agentpb.RunReply{Stopped: true, Failure: failureToPB(context.Canceled)}, a.run
}

func (a stoppedAgent) Send(*agentpb.Beat) error { return nil }

func (a stoppedAgent) Recv() (*agentpb.Beat, error) {
	time.Sleep(beatEvery / 10)
	return nil, detailed(verr.New(verr.Partial, "cannot go on", "its card was moved", "run it again"))
}

// What ends a series is why its agent ended, however late it is read, and not that it ended.
func TestReasonAfterReply(t *testing.T) {
	for name, run := range map[string]error{
		"series stopped": nil, "agent ending": errEnding, "channel broken": status.Error(codes.Unavailable, "EOF"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &Client{machine: "n1", patience: 1, api: stoppedAgent{run: run}}
				l, err := Watch(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				_, _, err = c.Run(t.Context(), load.Plan{Load: "tcp_lat", Slice: time.Second, Flows: 1}, nil)
				var told *verr.Error
				if !errors.As(err, &told) || told.Summary != "cannot go on on machine n1" || !IsGone(err) {
					t.Errorf("it ended with %v", err)
				}
			})
		})
	}
}
