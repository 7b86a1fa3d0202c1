package agent_test

import (
	"context"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/testenv"
)

func TestLifeline(t *testing.T) {
	for name, tc := range map[string]struct{ detach, ends bool }{"attached": {false, true}, "detached": {true, false}} {
		t.Run(name, func(t *testing.T) {
			socket := filepath.Join(testenv.SocketFolder(t), "s")
			in, out := io.Pipe()
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				ended <- agent.Main(ctx, agent.Options{Machine: "m1", Socket: socket, Stdin: in, Detach: tc.detach, Engine: endless()})
			}()
			c, err := agent.Dial(t.Context(), socket)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Serve(t.Context(), plan(1), nil); err != nil {
				t.Fatal(err)
			}
			out.Close()
			if !tc.ends {
				select {
				case err := <-ended:
					t.Fatalf("ended with its lifeline: %v", err)
				case <-time.After(200 * time.Millisecond):
				}
				cancel()
			}
			if err := waitFor(t, "agent", ended); err != nil {
				t.Errorf("ended with %v", err)
			}
			cancel()
			if !socketRemoved(socket) {
				t.Error("left its socket")
			}
		})
	}
}
