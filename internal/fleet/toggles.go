package fleet

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/remote"
	"github.com/venturi-net/venturi/internal/search"
	"github.com/venturi-net/venturi/internal/tune"
)

// Attach makes a fleet of machines whose agents somebody else has opened, and closes.
func Attach(names []string, agents []*agent.Client) *Fleet {
	return &Fleet{machines: machinesCalled(names), agents: agents, streams: make([]net.Conn, len(names)), say: discardProgress}
}

// MachineToggles turn candidates on and off on all machines at once. Each machine has its own
// transaction, and takes back what it tried when it loses us.
type MachineToggles struct {
	fleet   *Fleet
	args    []string // of the command that serves toggles
	members []*member
	fit     []tune.Candidate
}

// Toggles are those that a command serves on each machine.
func (f *Fleet) Toggles(args []string) *MachineToggles { return &MachineToggles{fleet: f, args: args} }

// member is one machine's toggles.
type member struct {
	machine    remote.Machine
	remote     *tune.StreamToggles
	replies    *replyReader // that remote reads
	candidates []tune.Candidate
	stdin      *io.PipeWriter
	stdout     *io.PipeReader
	ended      chan struct{}
	result     Reply
	resultTold bool // as the error of a call
}

// replyReader bounds what is read of one reply of a command that gives many.
type replyReader struct {
	from io.Reader
	left int // whoever asks for a reply sets it
}

func (r *replyReader) Read(b []byte) (int, error) {
	if r.left == 0 {
		return 0, errLongReply()
	}
	n, err := r.from.Read(b[:min(len(b), r.left)])
	r.left -= n
	return n, err
}

// onAll does something that is one reply long on all machines at once, and gives what went wrong.
func (t *MachineToggles) onAll(do func(m *member) error) error {
	failed := make([]error, len(t.members))
	var running sync.WaitGroup
	for i, m := range t.members {
		running.Go(func() {
			m.replies.left = mostReply
			if failed[i] = do(m); failed[i] == nil {
				return
			}
			select { // the command knows better why
			case <-m.ended:
				if m.result.Err != nil {
					failed[i], m.resultTold = Failed([]Reply{m.result}), true
				}
			default:
				failed[i] = named(m.machine.Name, failed[i])
			}
		})
	}
	running.Wait()
	return errors.Join(failed...)
}

// Prepare is of [tune.Toggles].
func (t *MachineToggles) Prepare(ctx context.Context) (fit []tune.Candidate, unfit []search.Row, err error) {
	for i, machine := range t.fleet.machines {
		in, stdin := io.Pipe()
		stdout, out := io.Pipe()
		replies := &replyReader{from: stdout}
		m := &member{machine: machine, remote: tune.DialToggles(stdin, replies), replies: replies, stdin: stdin, stdout: stdout, ended: make(chan struct{})}
		t.members = append(t.members, m)
		go func() {
			m.result = t.fleet.runOne(ctx, i, t.args, in, out)
			close(m.ended)
			_ = in.Close()
			_ = out.Close()
		}()
	}
	rows := make([][]search.Row, len(t.members))
	err = t.onAll(func(m *member) (err error) {
		i := slices.Index(t.members, m)
		m.candidates, rows[i], err = m.remote.Prepare(ctx)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	for _, m := range t.members {
		for _, c := range m.candidates {
			if !slices.ContainsFunc(t.fit, func(other tune.Candidate) bool { return other.Name == c.Name }) {
				t.fit = append(t.fit, c)
			}
		}
	}
	for i, m := range t.members {
		for _, row := range rows[i] {
			if !slices.ContainsFunc(t.fit, func(c tune.Candidate) bool { return c.Name == row.Knob }) {
				row.Reason = m.machine.Name + ": " + row.Reason
				unfit = append(unfit, row)
			}
		}
	}
	return t.fit, unfit, nil
}

// Switch is of [tune.Toggles].
func (t *MachineToggles) Switch(ctx context.Context, to search.Subset) error {
	return t.onAll(func(m *member) error {
		var own search.Subset
		for i, c := range m.candidates {
			if slices.ContainsFunc(to, func(k int) bool { return t.fit[k].Name == c.Name }) {
				own = append(own, i)
			}
		}
		return m.remote.Switch(ctx, own)
	})
}

// Close is of [tune.Toggles].
func (t *MachineToggles) Close() error {
	for _, m := range t.members {
		_ = m.stdin.Close()
		go func() { _, _ = io.Copy(io.Discard, m.stdout) }()
	}
	var replies []Reply
	for _, m := range t.members {
		<-m.ended
		if !m.resultTold {
			replies = append(replies, m.result)
		}
	}
	return Failed(replies)
}

// Commands are what would make a candidate's changes, by the machines that have it.
func (t *MachineToggles) Commands(candidate string) map[string][]string {
	all := map[string][]string{}
	for _, m := range t.members {
		for _, c := range m.candidates {
			if c.Name == candidate {
				all[m.machine.Name] = c.Commands(true)
			}
		}
	}
	return all
}
