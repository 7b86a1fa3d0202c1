package agent_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/testenv"
)

// runner starts an agent that runs commands by a function, and gives a client and what ends it.
func runner(t *testing.T, run func(context.Context, agent.Invocation) int) (c *agent.Client, end func() error) {
	t.Helper()
	socket := filepath.Join(testenv.SocketFolder(t), "agent.sock")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- agent.Main(ctx, agent.Options{Machine: "m1", Socket: socket, Version: "test", Run: run})
	}()
	c, err := agent.Dial(t.Context(), socket)
	if err != nil {
		cancel()
		t.Fatalf("dial: %v (agent: %v)", err, <-ended)
	}
	t.Cleanup(func() { c.Close(); cancel() })
	return c, func() error { cancel(); return waitFor(t, "the end of the agent", ended) }
}

// A command has its arguments, its input as it comes, and its output apart from its errors.
func TestCommand(t *testing.T) {
	c, _ := runner(t, func(_ context.Context, i agent.Invocation) int {
		fmt.Fprintln(i.Stderr, "begun")
		for in := bufio.NewScanner(i.Stdin); in.Scan(); {
			fmt.Fprintln(i.Stdout, strings.Join(i.Args, "+"), in.Text())
		}
		return 8
	})
	in, feed := io.Pipe()
	lines := make(chan string, 10)
	out, said := io.Pipe()
	defer said.Close()
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	var errs bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		code, err := c.RunCommand(t.Context(), agent.Invocation{Args: []string{"a", "b c"}, Stdin: in, Stdout: said, Stderr: &errs})
		if err != nil {
			t.Error(err)
		}
		ended <- code
	}()
	for _, word := range []string{"one", "two"} {
		fmt.Fprintln(feed, word)
		if line := waitFor(t, word, lines); line != "a+b c "+word {
			t.Errorf("it said %q", line)
		}
	}
	feed.Close()
	if code := waitFor(t, "the end of the command", ended); code != 8 || errs.String() != "begun\n" {
		t.Errorf("exit code %d, %q", code, &errs)
	}
}

// A command is interrupted when its caller is, when the caller goes away, and when the agent
// ends, which waits for what it takes back.
func TestCommandIsInterrupted(t *testing.T) {
	for name, end := range map[string]func(interrupt func(), c *agent.Client, end func() error){
		"by its caller":         func(interrupt func(), _ *agent.Client, _ func() error) { interrupt() },
		"without its caller":    func(_ func(), c *agent.Client, _ func() error) { c.Close() },
		"by the agent's ending": func(_ func(), _ *agent.Client, end func() error) { _ = end() },
	} {
		t.Run(name, func(t *testing.T) {
			begun, restored := make(chan struct{}), make(chan struct{})
			c, stop := runner(t, func(ctx context.Context, i agent.Invocation) int {
				close(begun)
				<-ctx.Done()
				time.Sleep(100 * time.Millisecond)
				close(restored)
				return 130
			})
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			type result struct {
				code int
				err  error
			}
			ended := make(chan result, 1)
			go func() {
				code, err := c.RunCommand(ctx, agent.Invocation{Stdout: io.Discard, Stderr: io.Discard})
				ended <- result{code, err}
			}()
			waitFor(t, "the command", begun)
			end(interrupt, c, stop)
			if name == "by the agent's ending" {
				select {
				case <-restored:
				default:
					t.Error("the agent ended before its command")
				}
			}
			waitFor(t, "what it takes back", restored)
			if r := waitFor(t, "the caller", ended); name == "by its caller" && (r.code != 130 || r.err != nil) {
				t.Errorf("exit code %d, %v", r.code, r.err)
			}
		})
	}
}

// An agent that runs no commands says so.
func TestNoCommands(t *testing.T) {
	c, _ := runner(t, nil)
	_, err := c.RunCommand(t.Context(), agent.Invocation{Stdout: io.Discard, Stderr: io.Discard})
	if err == nil || errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "runs no commands") {
		t.Errorf("error %v", err)
	}
}
