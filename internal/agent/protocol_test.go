package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/venturi-net/venturi/internal/agent/agentpb"
	"github.com/venturi-net/venturi/internal/verr"
)

// earlier is an agent of an earlier version of this program.
type earlier struct {
	agentpb.UnimplementedAgentServer
}

func (earlier) Version(context.Context, *agentpb.VersionRequest) (*agentpb.VersionReply, error) {
	return &agentpb.VersionReply{Protocol: Protocol - 1, Venturi: "v0", Machine: "m1"}, nil
}

// An agent that would take no notice of a part of the plan is refused, with both versions and
// with what to do: of a kept lab, and on another machine.
func TestEarlierAgent(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	agentpb.RegisterAgentServer(g, earlier{})
	go func() { _ = g.Serve(l) }()
	defer g.Stop()
	for do, dial := range map[string]func() (*Client, error){
		"lab down": func() (*Client, error) { return Dial(t.Context(), socket) },
		"--no-copy": func() (*Client, error) {
			stream, err := net.Dial("unix", socket)
			if err != nil {
				return nil, err
			}
			return DialStream(t.Context(), stream, "b")
		},
	} {
		c, err := dial()
		if err == nil {
			c.Close()
		}
		var told *verr.Error
		if !errors.As(err, &told) || !strings.Contains(told.Reason, fmt.Sprintf("version v0 of this program and speaks protocol %d, not %d", Protocol-1, Protocol)) || !strings.Contains(told.Hint, do) {
			t.Errorf("%v, want what to do: %s", err, do)
		}
	}
}

// Nobody can answer over a stream that has ended: it is not waited for until it is late.
func TestDialEndedStream(t *testing.T) {
	t.Parallel() // it waits
	stream, other := net.Pipe()
	_ = other.Close()
	c, err := DialStream(t.Context(), stream, "b")
	if err == nil {
		c.Close()
	}
	if err == nil || !strings.Contains(err.Error(), errStreamEnded.Error()) {
		t.Errorf("the error is %v, want %v", err, errStreamEnded)
	}
}
