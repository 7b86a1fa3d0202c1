package vm

import (
	"context"
	"io"
	"net"
	"sync"
	"time"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/guest"
	"github.com/venturi-net/venturi/internal/verr"
)

// Serve gives other processes access to the guest: each connection to the unix socket becomes a
// stream, until ctx or the guest ends. Then the socket is removed. Its folder must be private; only
// root and this process' user may connect. The error says how the guest ended, for users.
func (g *Guest) Serve(ctx context.Context, socket string) error {
	l, err := agent.Listen(socket)
	if err != nil {
		return verr.Wrap(verr.Failed, "cannot open "+g.config.describe()+" to others", err,
			"name a socket in a folder of yours with mode 0700, where nobody else listens")
	}
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(both, func() { l.Close() })
	go func() {
		select {
		case <-g.done:
			cancel()
		case <-both.Done():
		}
	}()
	var open sync.WaitGroup
	for {
		conn, broken := l.Accept()
		if err = broken; err != nil {
			break
		}
		inner, broken := g.session.Open()
		if err = broken; err != nil {
			conn.Close()
			break
		}
		open.Go(func() { join(both, conn, inner) })
	}
	stopped := ctx.Err() != nil
	cancel()
	open.Wait()
	return g.served(stopped, err)
}

// served returns the result of serving: err is no error if it was told to end, or the guest was
// closed.
func (g *Guest) served(told bool, err error) error {
	if g.session.IsClosed() {
		err = g.callError(err)
	}
	select {
	case <-g.done:
		return g.err
	default:
	}
	if told {
		return nil
	}
	return verr.Wrap(verr.Failed, "lost the socket of "+g.config.describe()+"", err, "start it again")
}

// join copies between a connection and a stream until both directions have ended, or ctx has.
func join(ctx context.Context, outer, inner net.Conn) {
	stop := context.AfterFunc(ctx, func() {
		// A stream's Close ends one direction, and a guest that hangs leaves the other open.
		_ = inner.SetDeadline(time.Now())
		outer.Close()
		inner.Close()
	})
	defer stop()
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(inner, outer)
		inner.Close()
	})
	_, err := io.Copy(outer, inner)
	if half, ok := outer.(interface{ CloseWrite() error }); ok && err == nil {
		_ = half.CloseWrite()
	} else {
		outer.Close() // the reader has gone
	}
	both.Wait()
	outer.Close()
}

// RemoteGuest is a guest that another process holds, behind the socket of its [Guest.Serve].
type RemoteGuest struct{ Socket string }

// Dial is like [Guest.Dial].
func (r RemoteGuest) Dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", r.Socket)
	if err != nil {
		return nil, verr.Wrap(verr.Failed, "cannot reach the virtual machine on "+r.Socket, err, "check that the process that holds it still runs")
	}
	return conn, nil
}

// Run is like [Guest.Run].
func (r RemoteGuest) Run(ctx context.Context, c Command) (exit int, err error) {
	exit, err = guest.Run(ctx, r.Dial, c)
	return exit, runError(c, err)
}

// HoldOptions say which machine to hold for other processes.
type HoldOptions struct {
	Config string // file with a [Config] as JSON
	Socket string // for [Guest.Serve]
	// Stdin is the lifeline: the machine ends at its end of file. nil: it ends with ctx only.
	Stdin io.Reader
}

// Hold starts a machine and serves it until ctx, the lifeline or the machine ends. If the machine
// ended by itself, the error says why, for users.
func Hold(ctx context.Context, o HoldOptions) error {
	c, err := ReadConfig(o.Config)
	if err != nil {
		return verr.Wrap(verr.Usage, "cannot hold a virtual machine", err, "name a config file that venturi wrote")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if o.Stdin != nil {
		go func() {
			_, _ = io.Copy(io.Discard, o.Stdin)
			cancel()
		}()
	}
	g, err := Start(ctx, c)
	if err != nil && ctx.Err() != nil && verr.Code(err) != verr.Usage {
		return nil // it was told to end; a config that is wrong is said all the same
	}
	if err != nil {
		return err
	}
	defer g.Close()
	return g.Serve(ctx, o.Socket)
}
