package agenttest

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/testenv"
)

// Start runs an agent in this process until the test is over. It chooses the socket.
func Start(t testing.TB, o agent.Options) *agent.Client {
	t.Helper()
	o.Socket, o.Version = filepath.Join(testenv.SocketFolder(t), "s"), "test"
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- agent.Main(ctx, o) }()
	c, err := agent.Dial(t.Context(), o.Socket)
	if err != nil {
		cancel()
		t.Fatalf("dial: %v (agent: %v)", err, <-ended)
	}
	t.Cleanup(func() { _ = c.Close(); cancel(); <-ended })
	return c
}
