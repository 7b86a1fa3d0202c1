package agent

import (
	"context"
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

// An agent that would take no notice of a part of the plan is refused, with both versions.
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
	c, err := Dial(t.Context(), socket)
	if err == nil {
		c.Close()
	}
	if verr.Code(err) != verr.Failed || !strings.Contains(err.Error(), fmt.Sprintf("version v0 of this program and speaks protocol %d, not %d", Protocol-1, Protocol)) {
		t.Errorf("%v", err)
	}
}
