package agent

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/venturi-net/venturi/internal/load"
)

// roleEnv makes the test binary play another process instead of testing.
const roleEnv = "VENTURI_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "agent":
		playAgent()
	case "stranger":
		playStranger()
	default:
		goleak.VerifyTestMain(m)
	}
}

// playAgent is an agent in a process of its own, whose series never end by
// themselves.
func playAgent() {
	err := Main(context.Background(), Options{Machine: "m1", Socket: os.Getenv("SOCKET"), Stdin: os.Stdin, Engine: endless()})
	if err != nil {
		os.Stderr.WriteString(err.Error())
		os.Exit(1)
	}
	os.Exit(0)
}

// nopCloser counts its closings.
type nopCloser struct{ closed int }

func (c *nopCloser) Close() error { c.closed++; return nil }

// endless is an engine whose Run makes one slice, then waits to be stopped.
func endless() Engine {
	return Engine{
		Serve: func(load.Plan, load.Probe) (io.Closer, error) { return &nopCloser{}, nil },
		Run: func(ctx context.Context, p load.Plan, probe load.Probe) ([]load.SliceResult, error) {
			probe.Begin(0)
			probe.End(0)
			<-ctx.Done()
			return []load.SliceResult{{Arm: 0, Round: 0, Start: time.Unix(0, 42), Elapsed: time.Millisecond}}, ctx.Err()
		},
	}
}

// folder is a private folder with a short path: a socket's may have 107 bytes.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "venturi-agent-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// start runs an agent in this process and gives a client for it. Both end with
// the test.
func start(t *testing.T, e Engine) (*Client, string) {
	t.Helper()
	socket := filepath.Join(folder(t), "agent.sock")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Main(ctx, Options{Machine: "m1", Socket: socket, Version: "test", Engine: e}) }()
	c, err := Dial(t.Context(), socket)
	if err != nil {
		cancel()
		t.Fatalf("dial: %v (agent: %v)", err, <-ended)
	}
	t.Cleanup(func() {
		c.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("agent ended with %v", err)
		}
	})
	return c, socket
}

// within fails the test when what it waits for takes too long to be anything
// but a hang.
func within[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: still waiting after 20 s", what)
		panic("unreachable")
	}
}

// gone tells whether the socket's file is away.
func gone(socket string) bool {
	_, err := os.Lstat(socket)
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOENT)
}
