// Package agent is the process on a machine: traffic ends and meters live in
// it, and the controller speaks to it over gRPC.
//
// In the lab the channel is a unix socket. Whoever can speak to an agent can
// make it send traffic as root, so there are two walls: the socket is mode
// 0600 in a folder that nobody else may enter, and each connection's peer must
// be root or the agent's own user. The agent ends when its standard input
// does: that is how it learns that its controller died.
package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"

	"github.com/venturi-net/venturi/internal/agent/agentpb"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/load/engine"
	"github.com/venturi-net/venturi/internal/verr"
)

// Protocol is the version of agent.proto's meaning. It grows when an old
// controller and a new agent would misunderstand each other.
const Protocol = 7

// maxMessage bounds a message, in bytes. A slice is about 1 KiB, a long series
// tens of thousands of slices; gRPC's own limit of 4 MiB is too low for that.
const maxMessage = 256 << 20

// window is how much either end takes before it says so. That it is set keeps gRPC from
// measuring the line: the answers to its pings would pass a round trip later, beside a slice.
const window = 1 << 30

// stopGrace is how long an agent that was told to end waits for its series to
// reach the next slice boundary.
var stopGrace = 5 * time.Second

// Options say which agent to be.
type Options struct {
	Machine string // name of the machine it is on
	Socket  string // path of its unix socket; the folder must be private
	Version string // of the program
	// Stdin is the lifeline: the agent ends when it reaches its end. nil is
	// the same as Detach.
	Stdin io.Reader
	// Cores are those that its machine is confined to, of which alone it reads CPU time; none:
	// the machine has all of the host's.
	Cores []int
	// Detach leaves the agent running when its controller dies.
	Detach bool
	// Lock makes sure that nobody else measures on the machine; nil: whoever started the
	// agent has.
	Lock func(ctx context.Context, wait bool, command string) (unlock func(), err error)
	// Run runs a command line of this program; nil: the agent runs none.
	Run func(context.Context, Invocation) (code int)
	// Calls are those that the program adds to the agent's own, by their names. Bodies are
	// JSON, and errors are for a user.
	Calls map[string]func(ctx context.Context, body []byte) ([]byte, error)
	// Close ends what the calls began; nil: nothing.
	Close func() error
	// Failure ends the agent: its controller gets the error, which is for a user. nil: nothing does.
	Failure <-chan error
	// Engine replaces the load engine in tests.
	Engine Engine
}

// Engine is what offers the traffic: package engine, but for tests.
type Engine struct {
	Serve func(load.Plan, engine.SliceObserver, engine.GuestDialer) (engine.GuestServer, error)
	Run   func(context.Context, load.Plan, engine.SliceObserver, engine.GuestDialer) ([]load.SliceResult, error)
}

func (e Engine) orLoad() Engine {
	if e.Serve == nil {
		e.Serve = func(p load.Plan, probe engine.SliceObserver, guests engine.GuestDialer) (engine.GuestServer, error) {
			return engine.Serve(p, probe, guests)
		}
	}
	if e.Run == nil {
		e.Run = engine.Run
	}
	return e
}

// Main is the agent: it serves until ctx ends or the lifeline does, then ends
// what still runs and removes its socket.
func Main(ctx context.Context, o Options) error {
	l, err := Listen(o.Socket)
	if err != nil {
		return verr.Wrap(verr.Failed, "cannot start the agent of "+o.Machine, err,
			"give --socket a path in a folder that you own, with mode 0700, where no other agent listens")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if o.Stdin != nil && !o.Detach {
		go func() {
			io.Copy(io.Discard, o.Stdin)
			cancel()
		}()
	}
	return Serve(ctx, l, o)
}

// Serve is the agent behind a listener whose peers are known to be allowed: it
// serves until ctx ends, then ends what still runs and closes the listener. Of
// the options, those of the socket and the lifeline are not used.
func Serve(ctx context.Context, l net.Listener, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := newServer(o)
	s.abandon = func() {
		s.mu.Lock()
		s.abandoned = true
		s.mu.Unlock()
		cancel()
	}
	g := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage),
		grpc.InitialWindowSize(window), grpc.InitialConnWindowSize(window),
		grpc.UnaryInterceptor(withDetails), grpc.StreamInterceptor(streamWithDetails))
	agentpb.RegisterAgentServer(g, s)
	halted, served := make(chan bool, 1), make(chan error, 1)
	go func() {
		<-ctx.Done()
		s.stopAll()
		halted <- halt(g, s.unheard.Load())
	}()
	go func() { served <- g.Serve(l) }()
	var err error
	select {
	case err = <-served:
		cancel()
		<-halted
	case whole := <-halted:
		if whole {
			err = <-served
		}
	}
	s.commands.Wait() // what they have begun they take back
	s.close()
	err = ignoreStopped(err)
	if o.Close != nil {
		err = errors.Join(err, o.Close())
	}
	s.release()
	if err != nil {
		return verr.Wrap(verr.Failed, "the agent of "+o.Machine+" failed", err, "run the command again")
	}
	return nil
}

// halt lets calls that are under way answer, but not for ever: one that never
// returns is left behind, and ends with the process. Where nobody hears the answers, it only
// ends the calls; false: the channel does not end, because it takes nothing more.
func halt(g *grpc.Server, unheard bool) (whole bool) {
	stop, ended := g.GracefulStop, make(chan struct{})
	if unheard {
		stop = g.Stop // the other one waits for an acknowledgement
	}
	go func() {
		stop()
		close(ended)
	}()
	select {
	case <-ended:
		return true
	case <-time.After(stopGrace):
	}
	if !unheard {
		g.Stop()
	}
	return !unheard
}

func ignoreStopped(err error) error {
	if errors.Is(err, grpc.ErrServerStopped) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Listen opens a unix socket so that it is at no time open to others, and
// refuses a folder that is. Peers who are neither root nor this process' user
// are hung up on. Closing it removes it.
func Listen(socket string) (net.Listener, error) {
	if err := private(socket); err != nil {
		return nil, err
	}
	if err := removeStale(socket); err != nil {
		return nil, err
	}
	l, err := listenClosed(socket)
	if err != nil {
		return nil, err
	}
	return &guarded{UnixListener: l, allow: allowedPeer}, nil
}

// removeStale removes the socket that a killed agent left, and refuses to take
// over one that answers or a file that is not a socket.
func removeStale(socket string) error {
	info, err := os.Lstat(socket)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for an old socket: %w", err)
	}
	if info.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("%s is there and is not a socket", socket)
	}
	if c, err := net.Dial("unix", socket); err == nil {
		c.Close()
		return fmt.Errorf("another agent listens on %s", socket)
	}
	if err := os.Remove(socket); err != nil {
		return fmt.Errorf("remove old socket: %w", err)
	}
	return nil
}
