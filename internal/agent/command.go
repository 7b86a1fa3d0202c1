package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/venturi-net/venturi/internal/agent/agentpb"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/verr"
)

// Invocation is a command of this program, and its standard streams.
type Invocation struct {
	Args           []string // without the program's name
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// interruptGrace bounds how long a command may take to end that was interrupted: it may
// have settings to take back.
var interruptGrace = host.ScaleTimeout(30 * time.Second)

// RunCommand runs a command on the agent's machine, and gives its exit code. When ctx ends, the
// command is interrupted, and what it still says comes before the return. Error: the channel
// broke, or the agent runs no commands; the command interrupts itself then.
func (c *Client) RunCommand(ctx context.Context, cmd Invocation) (code int, err error) {
	call, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	stream, err := c.api.Command(call)
	if err != nil {
		return 0, c.callError(err)
	}
	var sending sync.Mutex
	sent := false // all of standard input: one message more would break the stream
	send := func(r *agentpb.CommandRequest) error {
		sending.Lock()
		defer sending.Unlock()
		if sent {
			return io.ErrClosedPipe
		}
		return stream.Send(r)
	}
	if err := send(&agentpb.CommandRequest{Args: cmd.Args}); err != nil {
		return 0, c.callError(err)
	}
	unhook := context.AfterFunc(ctx, func() {
		_ = send(&agentpb.CommandRequest{Interrupt: true}) // an error shows as the end of the replies
		time.AfterFunc(interruptGrace, hangUp)
	})
	defer unhook()
	if cmd.Stdin != nil {
		go func() {
			_, err := io.Copy(writerFunc(func(b []byte) error { return send(&agentpb.CommandRequest{Stdin: b}) }), cmd.Stdin)
			if err == nil {
				sending.Lock()
				defer sending.Unlock()
				sent = true
				_ = stream.CloseSend()
			}
		}()
	}
	for {
		reply, err := stream.Recv()
		if err != nil {
			return 0, c.callError(err)
		}
		if reply.GetEnded() {
			return int(reply.GetCode()), nil
		}
		_, outErr := cmd.Stdout.Write(reply.GetStdout())
		_, errErr := cmd.Stderr.Write(reply.GetStderr())
		if err := errors.Join(outErr, errErr); err != nil {
			return 0, fmt.Errorf("pass on what a command on %s says: %w", c.machine, err)
		}
	}
}

// writerFunc is a writer that hands on a copy of each part.
type writerFunc func([]byte) error

func (f writerFunc) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if err := f(append([]byte(nil), b...)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Command is of [agentpb.AgentServer].
func (s *server) Command(stream agentpb.Agent_CommandServer) error {
	first, err := stream.Recv()
	if err != nil {
		return fmt.Errorf("receive a command: %w", err)
	}
	ctx, end, err := s.beginCommand(stream.Context())
	if err != nil {
		return err
	}
	defer end()
	ctx, interrupt := context.WithCancel(ctx)
	defer interrupt()
	in, feed := io.Pipe()
	defer in.Close()
	go func() {
		for {
			req, err := stream.Recv()
			if err != nil {
				_ = feed.Close()
				return
			}
			if req.GetInterrupt() {
				interrupt()
			}
			if text := req.GetStdin(); len(text) > 0 {
				_, _ = feed.Write(text) // an error: the command has ended
			}
		}
	}()
	var sending sync.Mutex
	send := func(r *agentpb.CommandReply) error {
		sending.Lock()
		defer sending.Unlock()
		return stream.Send(r)
	}
	code := s.options.Run(ctx, Invocation{
		Args: first.GetArgs(), Stdin: in,
		Stdout: writerFunc(func(b []byte) error { return send(&agentpb.CommandReply{Stdout: b}) }),
		Stderr: writerFunc(func(b []byte) error { return send(&agentpb.CommandReply{Stderr: b}) }),
	})
	return send(&agentpb.CommandReply{Ended: true, Code: int64(code)})
}

// beginCommand counts a command as one that runs, until end is called. Its context ends
// when the agent does.
func (s *server) beginCommand(ctx context.Context) (_ context.Context, end func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.options.Run == nil {
		return nil, nil, verr.New(verr.Failed, "cannot run a command on "+s.options.Machine, "its agent runs no commands", "run it on that machine itself")
	}
	if s.closing {
		return nil, nil, errEnding
	}
	ctx, interrupt := context.WithCancel(ctx)
	s.commandCount++
	n := s.commandCount
	s.interrupts[n] = interrupt
	s.commands.Add(1)
	return ctx, func() {
		interrupt()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.interrupts, n)
		s.commands.Done()
	}, nil
}
