// Package fleet runs commands of this program on several machines at once: one stream to
// each by the user's own ssh, and an agent behind it that runs the command. What a command
// changes is in the journal of its machine, which can undo it without this one.
package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/remote"
	"github.com/venturi-net/venturi/internal/verr"
)

// Fleet is some machines that are reached.
type Fleet struct {
	machines []remote.Machine
	streams  []net.Conn
	agents   []*agent.Client
	live     []*agent.Liveness
	say      func(format string, args ...any)
}

// discardProgress is for a fleet whose caller is told nothing.
func discardProgress(string, ...any) {}

// Open reaches all machines at once. Error, for people: one of them cannot be reached.
func Open(ctx context.Context, machines []remote.Machine, o remote.Options, say func(format string, args ...any)) (*Fleet, error) {
	for _, m := range machines {
		say("reaching machine %s (%s)", m.Name, m.Host)
	}
	f, failed := reachEach(ctx, machines, func(i int) (net.Conn, error) { return remote.Open(ctx, machines[i], o) })
	for _, err := range failed {
		if err != nil {
			f.Close()
			return nil, err
		}
	}
	f.say = say
	return f, nil
}

// FromStreams is a fleet of those machines whose agents answer, over streams that it takes over.
// failed says of each machine why it is not in the fleet; nil: it is.
func FromStreams(ctx context.Context, names []string, streams []net.Conn) (f *Fleet, failed []error) {
	machines := machinesCalled(names)
	all, failed := reachEach(ctx, machines, func(i int) (net.Conn, error) { return streams[i], nil })
	f = &Fleet{say: discardProgress}
	for i, err := range failed {
		if err != nil {
			all.closeOne(i)
			continue
		}
		f.machines, f.streams = append(f.machines, machines[i]), append(f.streams, streams[i])
		f.agents, f.live = append(f.agents, all.agents[i]), append(f.live, all.live[i])
	}
	return f, failed
}

// machinesCalled are machines of which no more than their names is known.
func machinesCalled(names []string) []remote.Machine {
	machines := make([]remote.Machine, len(names))
	for i, name := range names {
		machines[i].Name = name
	}
	return machines
}

// reachEach speaks to all machines at once, each over the stream that reach gives. The loss of one
// is no concern of the others: failed has its error.
func reachEach(ctx context.Context, machines []remote.Machine, reach func(i int) (net.Conn, error)) (f *Fleet, failed []error) {
	n := len(machines)
	f = &Fleet{machines: machines, streams: make([]net.Conn, n), agents: make([]*agent.Client, n), live: make([]*agent.Liveness, n), say: discardProgress}
	failed = make([]error, n)
	var reaching sync.WaitGroup
	for i, m := range machines {
		reaching.Go(func() {
			if f.streams[i], failed[i] = reach(i); failed[i] != nil {
				f.streams[i] = nil
				return
			}
			if f.agents[i], failed[i] = agent.DialStream(ctx, f.streams[i], m.Name); failed[i] == nil {
				f.live[i], failed[i] = agent.WatchEach(ctx, f.agents[i])
			}
		})
	}
	reaching.Wait()
	return f, failed
}

// Agents are those of the machines, in their order.
func (f *Fleet) Agents() []*agent.Client { return f.agents }

// Close ends the agents.
func (f *Fleet) Close() {
	var closing sync.WaitGroup
	for i := range f.machines {
		closing.Go(func() { f.closeOne(i) })
	}
	closing.Wait()
}

// closeOne ends the agent of one machine, as far as there is one.
func (f *Fleet) closeOne(i int) {
	if i < len(f.live) && f.live[i] != nil {
		f.live[i].Close()
	}
	if c := f.agents[i]; c != nil {
		_ = c.Close()
	}
	if s := f.streams[i]; s != nil {
		_ = s.Close() // it is over, however ssh ends
	}
}

// Reply is what a command came to on one machine.
type Reply struct {
	Machine remote.Machine
	Code    int
	Stdout  []byte
	Stderr  string // but for the error
	Err     error  // for people: what the command ended with, or why there is no reply
}

// RemoteTxn is a transaction in another machine's journal, as far as it is read from here.
type RemoteTxn struct {
	ID      int    `json:"id"`
	Command string `json:"command"`
}

// Txns are those that a command has printed as JSON.
func (r Reply) Txns() ([]RemoteTxn, error) {
	var told struct {
		Txns []RemoteTxn `json:"transactions"`
	}
	err := json.Unmarshal(r.Stdout, &told)
	return told.Txns, err
}

// mostReply bounds what is kept of a command's output, and of its standard error; tests shorten it.
var mostReply = 64 << 20

func errLongReply() error { return fmt.Errorf("it is longer than %d bytes", mostReply) }

// replyText is output of a command. One that does not end ends the command.
type replyText struct{ text bytes.Buffer }

func (r *replyText) Write(b []byte) (int, error) {
	if r.text.Len()+len(b) > mostReply {
		return 0, errLongReply()
	}
	return r.text.Write(b)
}

func (r *replyText) Bytes() []byte  { return r.text.Bytes() }
func (r *replyText) String() string { return r.text.String() }

// Run runs a command on all machines at once, and waits for the replies.
func (f *Fleet) Run(ctx context.Context, args []string) []Reply {
	return f.RunEach(ctx, func(int) []string { return args })
}

// RunEach runs a command on each machine, whose arguments args gives for the nth; nil: none there.
func (f *Fleet) RunEach(ctx context.Context, args func(n int) []string) []Reply {
	replies := make([]Reply, len(f.machines))
	var running sync.WaitGroup
	for i := range f.machines {
		words := args(i)
		if words == nil {
			replies[i].Machine = f.machines[i]
			continue
		}
		running.Go(func() {
			var out replyText
			replies[i] = f.runOne(ctx, i, words, nil, &out)
			replies[i].Stdout = out.Bytes()
		})
	}
	running.Wait()
	return replies
}

// runOne runs a command on one machine.
func (f *Fleet) runOne(ctx context.Context, i int, args []string, stdin io.Reader, stdout io.Writer) Reply {
	a := Reply{Machine: f.machines[i]}
	var stderr replyText
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
