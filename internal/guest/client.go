package guest

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// ErrNotStarted is wrapped by the error of a command that could not be started.
var ErrNotStarted = errors.New("it could not be started")

// Greet asks a guest that just started what it is, on its first stream.
func Greet(conn net.Conn) (Hello, error) {
	var h Hello
	if err := writeLine(conn, header{Part: greeting}); err != nil {
		return h, err
	}
	err := readLine(bufio.NewReader(conn), &h)
	return h, err
}

// Run runs a command in a guest and gives its exit code: 128 and the number of
// the signal when one ended it. When ctx ends the command gets a SIGINT, and may
// take as long as it needs to clean up: on an emulated CPU that is a while, and
// who does not want to wait can end this process. How it ended then is no error.
// An error wraps ErrNotStarted, or tells that the end of the command is not known.
func Run(ctx context.Context, dial Dialer, c Command) (exit int, err error) {
	r := running{command: rand.Text()}
	defer r.close()
	for _, p := range c.parts() {
		if err := r.open(ctx, dial, p); err != nil {
			return -1, err
		}
	}
	if err := r.open(ctx, dial, control); err != nil {
		return -1, err
	}
	err = writeLine(r.streams[control], start{Args: c.Args, Env: c.Env, Dir: c.Dir, TTY: c.TTY, Parts: c.parts(), Joined: c.joined()})
	if err != nil {
		return -1, fmt.Errorf("ask for a command: %w", err)
	}
	if c.Stdin != nil {
		go func() {
			_, _ = io.Copy(r.streams[stdin], c.Stdin) // it may end before its input does
			r.streams[stdin].Close()
		}()
	}
	r.copy(stdout, c.Stdout)
	r.copy(stderr, c.Stderr)
	answered := make(chan struct{})
	go r.ask(ctx, c, answered)
	var a answer
	err = readLine(bufio.NewReader(r.streams[control]), &a)
	close(answered)
	if err != nil {
		r.giveUp()
	}
	r.copying.Wait()
	switch {
	case err != nil && ctx.Err() != nil:
		return -1, context.Cause(ctx)
	case err != nil:
		return -1, fmt.Errorf("wait for the end of %s: %w", c.Args[0], err)
	case a.Failed != "":
		return -1, fmt.Errorf("%w: %s", ErrNotStarted, a.Failed)
	}
	return a.Exit, nil
}

// parts are the standard streams that the command has.
func (c Command) parts() []part {
	var parts []part
	for _, p := range []struct {
		part  part
		there bool
	}{{stdin, c.Stdin != nil}, {stdout, c.Stdout != nil}, {stderr, c.Stderr != nil && !c.joined()}} {
		if p.there {
			parts = append(parts, p.part)
		}
	}
	return parts
}

// joined tells whether output and errors go to the same place, which two streams
// would write to at once, and in any order.
func (c Command) joined() (same bool) {
	defer func() { _ = recover() }() // of kinds that cannot be compared
	return c.Stdout != nil && c.Stdout == c.Stderr
}

// running is a command, seen from outside.
type running struct {
	command string // its name, which joins the streams
	streams map[part]net.Conn
	copying sync.WaitGroup
}

func (r *running) open(ctx context.Context, dial Dialer, p part) error {
	conn, err := dial(ctx)
	if err != nil {
		return fmt.Errorf("open a stream: %w", err)
	}
	if r.streams == nil {
		r.streams = map[part]net.Conn{}
	}
	r.streams[p] = conn
	if err := writeLine(conn, header{p, r.command}); err != nil {
		return fmt.Errorf("open a stream: %w", err)
	}
	return nil
}

func (r *running) close() {
	for _, s := range r.streams {
		s.Close()
	}
}

// giveUp ends every wait: closing a stream only tells the other end, which may
// hang.
func (r *running) giveUp() {
	for _, s := range r.streams {
		_ = s.SetDeadline(time.Now())
	}
}

// copy hands on what comes on a stream. When nobody takes it, it is thrown away:
// the command must not be held up by that.
func (r *running) copy(p part, to io.Writer) {
	from, ok := r.streams[p]
	if !ok {
		return
	}
	r.copying.Go(func() {
		if _, err := io.Copy(to, from); err != nil {
			_, _ = io.Copy(io.Discard, from)
		}
	})
}

// ask hands on sizes, and the end of ctx, until the answer is there.
func (r *running) ask(ctx context.Context, c Command, answered <-chan struct{}) {
	send := func(q request) { _ = writeLine(r.streams[control], q) } // an answer may cross it
	ended := ctx.Done()
	for {
		select {
		case <-answered:
			return
		case size, more := <-c.Resize:
			if !more {
				c.Resize = nil
				continue
			}
			send(request{Resize: &size})
		case <-ended:
			ended = nil
			send(request{Signal: int(syscall.SIGINT)})
		}
	}
}
