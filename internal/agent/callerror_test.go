package agent

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
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
				c := &Client{machine: "n1", timeoutScale: 1, api: stoppedAgent{run: run}}
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

// calledAgent answers when it is called, or does not, and runs a series until it is stopped. It
// never says that it pauses.
type calledAgent struct {
	agentpb.AgentClient
	agentpb.Agent_BeatsClient
	answers      bool
	beats        chan *agentpb.Beat
	stop, hungUp chan struct{} // of its series; of its channel
}

func (a calledAgent) Beats(context.Context, ...grpc.CallOption) (agentpb.Agent_BeatsClient, error) {
	return a, nil
}

func (a calledAgent) Run(context.Context, *agentpb.SeriesRequest, ...grpc.CallOption) (*agentpb.RunReply, error) {
	<-a.stop
	return &agentpb.RunReply{Stopped: true, Failure: failureToPB(context.Canceled)}, nil
}

func (a calledAgent) Stop(context.Context, *agentpb.StopRequest, ...grpc.CallOption) (*agentpb.StopReply, error) {
	select {
	case a.stop <- struct{}{}:
	default: // it was stopped before
	}
	return &agentpb.StopReply{Running: true}, nil
}

func (a calledAgent) Context() context.Context { return context.Background() }

func (a calledAgent) Send(b *agentpb.Beat) error {
	if a.answers && b.GetKind() == agentpb.Beat_CALL {
		select {
		case a.beats <- &agentpb.Beat{Kind: agentpb.Beat_ANSWER}:
		case <-a.hungUp:
		}
	}
	return nil
}

func (a calledAgent) Recv() (*agentpb.Beat, error) {
	select {
	case b := <-a.beats:
		return b, nil
	case <-a.hungUp:
		return nil, status.Error(codes.Unavailable, "EOF")
	}
}

// A server's agent that is lost ends the series within the limits of one slice and of an answer, also
// while many flows are opened; and nobody waits then for the client's agent to say why it stopped.
func TestServerLostWhileOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ends []*Client
		for i, name := range []string{"a", "b"} {
			conn, err := grpc.NewClient("passthrough:///"+name, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			a := calledAgent{answers: i == 0, beats: make(chan *agentpb.Beat, 1), stop: make(chan struct{}, 1), hungUp: make(chan struct{})}
			defer close(a.hungUp)
			ends = append(ends, &Client{machine: name, timeoutScale: 1, api: a, conn: conn, kill: func() {}})
		}
		l, err := Watch(t.Context(), ends[0], ends[1])
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		plan := load.Plan{Load: "tcp_lat", Slice: 100 * time.Millisecond, Flows: 1, Arms: make([]load.Arm, 100)}
		began := time.Now()
		_, _, err = ends[0].Run(t.Context(), plan, nil)
		if !IsGone(err) || ends[1].lost.Load() == nil {
			t.Errorf("it ended with %v", err)
		}
		if took, most := time.Since(began), beatEvery+sliceTime(plan)+beatEvery/5+answerBy; took > most {
			t.Errorf("it took %v, more than %v", took, most)
		}
	})
}
