package agent_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/load/engine"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/plain"
)

func TestMain(m *testing.M) {
	plain.WaitTogether()
	testenv.Main(m, testenv.Roles{
		"agent": playAgent, "endless": playEndless, "stranger": playStranger, "stdio": playStdio,
		"linger": playLinger, "occupant": playOccupant,
	})
}

// playAgent is an agent in a process of its own, on the socket of its last argument.
func playAgent(args []string) int { return play(args, agent.Engine{}) }

// playEndless is one whose series never end by themselves.
func playEndless(args []string) int { return play(args, endless()) }

func play(args []string, e agent.Engine) int {
	err := agent.Main(context.Background(), agent.Options{
		Machine: args[0], Socket: args[len(args)-1], Stdin: os.Stdin, Engine: e})
	if err != nil {
		os.Stderr.WriteString(err.Error())
		return 1
	}
	return 0
}

// spawn starts this test binary in a role on a new socket, and gives a client
// for it. It ends with the test.
func spawn(t *testing.T, role string) (*agent.Client, *os.Process) {
	t.Helper()
	socket, process := spawnBehind(t, role)
	c, err := agent.Dial(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, process
}

// spawnBehind gives the socket, which may not be there yet, instead of a client.
func spawnBehind(t *testing.T, role string) (socket string, process *os.Process) {
	t.Helper()
	socket = filepath.Join(testenv.SocketFolder(t), "s")
	args := append(testenv.RoleCommand(t, role), socket)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	lifeline, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		lifeline.Close()
		cmd.Wait()
	})
	return socket, cmd.Process
}

// nopCloser counts its closings.
type nopCloser struct {
	closed int
	shut   map[int]error
}

func (c *nopCloser) Close() error              { c.closed++; return nil }
func (c *nopCloser) FailedArms() map[int]error { return c.shut }
func (c *nopCloser) Refused() int64            { return 0 }

// endless is an engine whose Run makes one slice, then waits to be stopped.
func endless() agent.Engine {
	return agent.Engine{
		Serve: func(load.Plan, engine.SliceObserver, engine.GuestDialer) (engine.GuestServer, error) {
			return &nopCloser{}, nil
		},
		Run: func(ctx context.Context, p load.Plan, probe engine.SliceObserver, _ engine.GuestDialer) ([]load.SliceResult, error) {
			probe.Begin(0)
			probe.End(0)
			<-ctx.Done()
			return []load.SliceResult{{Arm: 0, Round: 0, Start: time.Unix(0, 42), Elapsed: time.Millisecond}}, ctx.Err()
		},
	}
}

// start runs an agent in this process and gives a client for it. Both end with
// the test.
func start(t *testing.T, e agent.Engine) (*agent.Client, string) {
	t.Helper()
	socket := filepath.Join(testenv.SocketFolder(t), "agent.sock")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- agent.Main(ctx, agent.Options{Machine: "m1", Socket: socket, Version: "test", Engine: e})
	}()
	c, err := agent.Dial(t.Context(), socket)
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

// waitFor fails the test when it waits for so long that it can be nothing
// but a hang.
func waitFor[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		t.Fatalf("%s: still waiting after a minute", what)
		panic("unreachable")
	}
}

// socketRemoved tells whether the socket's file is away.
func socketRemoved(socket string) bool {
	_, err := os.Lstat(socket)
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOENT)
}
