package agent

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/venturi-net/venturi/internal/agent/agentpb"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/load"
)

// slowOpening is an agent that does not come to an end with opening a series.
type slowOpening struct {
	agentpb.UnimplementedAgentServer
	entry, exit chan struct{}
}

func (slowOpening) Version(context.Context, *agentpb.VersionRequest) (*agentpb.VersionReply, error) {
	return &agentpb.VersionReply{Protocol: Protocol, Machine: "m1"}, nil
}

func (s slowOpening) Steps(stream agentpb.Agent_StepsServer) error {
	close(s.entry)
	<-stream.Context().Done()
	close(s.exit)
	return stream.Context().Err()
}

// A series ends with its context while its ends are still being opened, at the agent too.
func TestOpeningEnds(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := slowOpening{entry: make(chan struct{}), exit: make(chan struct{})}
	g := grpc.NewServer()
	agentpb.RegisterAgentServer(g, s)
	go func() { _ = g.Serve(l) }()
	defer g.Stop()
	c, err := Dial(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	plan := load.Plan{Token: 1, Load: "tcp_lat", Arms: []load.Arm{{Name: "host"}}, Schedule: [][]int{{0}}, Slice: time.Millisecond}
	done := make(chan error, 1)
	go func() {
		_, _, err := (&Liveness{}).Drive(ctx, plan, []SeriesPart{{Agent: c, Plan: plan, Arms: []int{0}}})
		done <- err
	}()
	late := time.After(host.ScaleTimeout(time.Minute))
	select {
	case <-s.entry:
	case <-late:
		t.Fatal("the series is not opened")
	}
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	case <-late:
		t.Fatal("the series is still being opened")
	}
	select {
	case <-s.exit:
	case <-late:
		t.Error("the agent still opens it")
	}
}
