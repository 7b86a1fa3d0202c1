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

// Greet receives the greeting of a guest that just started, on its first stream.
func Greet(conn net.Conn) (Hello, error) {
	var h Hello
	if err := writeLine(conn, header{Part: greeting}); err != nil {
		return h, err
	}
	err := readLine(bufio.NewReader(conn), &h)
	return h, err
}

// Run runs a command in a guest and returns its exit code; a command that a signal ended has 128
// plus the signal. When ctx ends, the command gets a SIGINT and may take as long as it needs to
// clean up, which on an emulated CPU can be long. Its exit code is then returned without an error.
// An error wraps ErrNotStarted, or means that the command's end is unknown.
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
		return -1, fmt.Errorf("request a command: %w", err)
	}
	if c.Stdin != nil {
		go func() {
			_, _ = io.Copy(r.streams[stdin], c.Stdin) // the command may end before its input
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
		return -1, fmt.Errorf("wait for %s: %w", c.Args[0], err)
	case a.Failed != "":
		return -1, fmt.Errorf("%w: %s", ErrNotStarted, a.Failed)
	}
	return a.Exit, nil
}

// parts are the standard streams of the command.
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

// joined reports whether stdout and stderr go to the same writer. Two streams would write to it
// concurrently and out of order.
func (c Command) joined() (same bool) {
	defer func() { _ = recover() }() // writers of incomparable types
	return c.Stdout != nil && c.Stdout == c.Stderr
}

// running is the client's side of a running command.
type running struct {
	command string // its id, which joins the streams
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

// giveUp ends every wait. Closing a stream is not enough, because it only notifies the other end,
// which may hang.
func (r *running) giveUp() {
	for _, s := range r.streams {
		_ = s.SetDeadline(time.Now())
	}
}

// copy copies a stream to a writer. It discards what the writer does not take, so that the command
// is not blocked.
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

// ask forwards terminal sizes and the end of ctx, until the answer arrives.
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
