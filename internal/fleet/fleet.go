// Package fleet runs commands of this program on several machines at once: one stream to
// each by the user's own ssh, and an agent behind it that runs the command. What a command
// changes is in the journal of its machine, which can undo it without this one.
package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/remote"
	"github.com/venturi-net/venturi/internal/verr"
)

// Fleet is some machines that are reached.
type Fleet struct {
	machines []remote.Machine
	streams  []net.Conn
	agents   []*agent.Client
	live     *agent.Liveness
	say      func(format string, args ...any)
}

// discardProgress is for a fleet whose caller is told nothing.
func discardProgress(string, ...any) {}

// Open reaches all machines at once. Error, for people: one of them cannot be reached.
func Open(ctx context.Context, machines []remote.Machine, o remote.Options, say func(format string, args ...any)) (*Fleet, error) {
	for _, m := range machines {
		say("reaching machine %s (%s)", m.Name, m.Host)
	}
	f, err := open(ctx, machines, func(i int) (net.Conn, error) { return remote.Open(ctx, machines[i], o) })
	if err == nil {
		f.say = say
	}
	return f, err
}

// FromStreams is a fleet of machines to whose agents there are streams, which it takes over.
func FromStreams(ctx context.Context, names []string, streams []net.Conn) (*Fleet, error) {
	machines := make([]remote.Machine, len(names))
	for i, name := range names {
		machines[i].Name = name
	}
	return open(ctx, machines, func(i int) (net.Conn, error) { return streams[i], nil })
}

// open speaks to all machines at once, each over the stream that reach gives.
func open(ctx context.Context, machines []remote.Machine, reach func(i int) (net.Conn, error)) (f *Fleet, err error) {
	f = &Fleet{machines: machines, streams: make([]net.Conn, len(machines)), agents: make([]*agent.Client, len(machines)), say: discardProgress}
	defer func() {
		if err != nil {
			f.Close()
			f = nil
		}
	}()
	var g errgroup.Group
	for i, m := range machines {
		g.Go(func() (err error) {
			stream, err := reach(i)
			if err != nil {
				return err
			}
			f.streams[i] = stream
			f.agents[i], err = agent.DialStream(ctx, stream, m.Name)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return f, err // it is closed above
	}
	f.live, err = agent.WatchEach(ctx, f.agents...)
	return f, err
}

// Agents are those of the machines, in their order.
func (f *Fleet) Agents() []*agent.Client { return f.agents }

// Close ends the agents.
func (f *Fleet) Close() {
	if f.live != nil {
		f.live.Close()
	}
	var closing sync.WaitGroup
	for i := range f.machines {
		closing.Go(func() {
			if c := f.agents[i]; c != nil {
				_ = c.Close()
			}
			if s := f.streams[i]; s != nil {
				_ = s.Close() // it is over, however ssh ends
			}
		})
	}
	closing.Wait()
}

// Reply is what a command came to on one machine.
type Reply struct {
	Machine remote.Machine
	Code    int
	Stdout  []byte
	Stderr  string // but for the error
	Err     error  // for people: what the command ended with, or why there is no reply
}

// Run runs a command on all machines at once, and waits for the replies.
func (f *Fleet) Run(ctx context.Context, args []string) []Reply {
	return f.RunEach(ctx, func(int) []string { return args })
}

// RunEach runs a command on each machine, whose arguments args gives for the nth.
func (f *Fleet) RunEach(ctx context.Context, args func(n int) []string) []Reply {
	replies := make([]Reply, len(f.machines))
	var running sync.WaitGroup
	for i := range f.machines {
		running.Go(func() {
			var out bytes.Buffer
			replies[i] = f.runOne(ctx, i, args(i), nil, &out)
			replies[i].Stdout = out.Bytes()
		})
	}
	running.Wait()
	return replies
}

// runOne runs a command on one machine.
func (f *Fleet) runOne(ctx context.Context, i int, args []string, stdin io.Reader, stdout io.Writer) Reply {
	a := Reply{Machine: f.machines[i]}
	var stderr bytes.Buffer
	a.Code, a.Err = f.agents[i].RunCommand(ctx, agent.Invocation{Args: args, Stdin: stdin, Stdout: stdout, Stderr: &stderr})
	a.Stderr = stderr.String()
	if a.Err != nil || a.Code == verr.OK || a.Code == verr.Findings {
		return a
	}
	said := verr.Parse(a.Code, a.Stderr)
	if said == nil {
		said = verr.New(a.Code, "the command failed", strings.TrimSpace(a.Stderr), "run it on that machine to see more")
	} else {
		a.Stderr, _ = verr.Split(a.Stderr)
	}
	a.Err = &commandError{said}
	return a
}

// commandError is what a command ended with on a machine, which it does not name.
type commandError struct{ error }

// Unwrap gives that.
func (e *commandError) Unwrap() error { return e.error }

// Failed is what went wrong on the machines, with their names; the same on several is one
// error. nil: nothing did.
func Failed(replies []Reply) error {
	type told struct {
		names []string
		said  verr.Error
	}
	var failed []error
	var all []*told
	for _, r := range replies {
		var of *commandError
		var said *verr.Error
		if !errors.As(r.Err, &of) || !errors.As(of, &said) {
			failed = append(failed, r.Err)
			continue
		}
		at := slices.IndexFunc(all, func(t *told) bool { return t.said.Error() == said.Error() && t.said.Code == said.Code })
		if at < 0 {
			at = len(all)
			all = append(all, &told{said: *said})
		}
		all[at].names = append(all[at].names, r.Machine.Name)
	}
	for _, t := range all {
		t.said.Summary = strings.Join(t.names, ", ") + ": " + t.said.Summary
		failed = append(failed, &t.said)
	}
	return errors.Join(failed...)
}

// named says of which machine an error is, also where only its three parts are shown.
func named(machine string, err error) error {
	var said *verr.Error
	if !errors.As(err, &said) {
		return fmt.Errorf("%s: %w", machine, err)
	}
	of := *said
	of.Summary, of.Err = machine+": "+said.Summary, err
	return &of
}
