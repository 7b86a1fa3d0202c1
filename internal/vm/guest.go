package vm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/venturi-net/venturi/internal/guest"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/verr"
)

// pingInterval is how often a guest is asked whether it is alive.
const pingInterval = 5 * time.Second

// brokenGrace is how long qemu may stay when the channel is gone: it is torn down
// a moment later when the guest turned itself off.
const brokenGrace = 5 * time.Second

// Guest is a machine that runs.
type Guest struct {
	config  Config
	accel   Accel
	notKVM  string
	hello   guest.Hello
	child   *netcfg.Child
	session *yamux.Session
	console *tail
	qemuLog *tail // by qemu
	log     *os.File

	up           atomic.Bool // it answered once
	closing      atomic.Bool
	unresponsive atomic.Bool
	disconnected atomic.Bool // its channel broke, and it went on
	closeOnce    sync.Once
	done         chan struct{}
	err          error
}

// watch tidies up when qemu has ended.
func (g *Guest) watch() {
	<-g.child.Done
	g.session.Close()
	if g.log != nil {
		g.log.Close()
	}
	if !g.closing.Load() {
		g.err = g.post()
	}
	close(g.done)
}

// post tells how the machine ended by itself.
func (g *Guest) post() error {
	lines, how, said := g.console.lines(), g.child.Err(), strings.Join(g.qemuLog.lines(), "; ")
	why, do := "it turned itself off", "run the command again; if it happens again, try another kernel"
	switch {
	case g.unresponsive.Load():
		why = fmt.Sprintf("it hangs: it did not answer for %v", g.config.SilenceLimit)
	case g.disconnected.Load():
		why = "its channel broke"
	case panicked(lines) != "":
		why = "its kernel panicked: " + panicked(lines)
		return verr.Wrap(verr.Failed, g.config.describe()+" ended", fmt.Errorf("%s%w", saidOfFault(why, lines), errPanicked),
			"try another kernel, or report it to its maker")
	case mute(g.config, lines):
		return noModules(g.config)
	case gaveUp(lines) != "":
		why = gaveUp(lines)
	case how != nil && said != "" && !g.up.Load() && len(lines) == 0:
		return verr.New(verr.Failed, g.config.describe()+" ended", "qemu does not start it: "+said,
			"give it what it asks for: memory that it can have (some hundred MiB, and no more than is free), a tap that is there, a folder that can be read")
	case how != nil:
		why = fmt.Sprintf("qemu ended: %v", how)
		if said != "" {
			why += ": " + said
		}
	}
	return verr.New(verr.Failed, g.config.describe()+" ended", saidLast(why, lines), do)
}

// mute tells whether the guest found no channel because there are no modules.
func mute(c Config, lines []string) bool {
	return c.Kernel.Modules == "" && strings.Contains(gaveUp(lines), guest.NoChannel)
}

// noModules is the end of a guest without the drivers that it needs to be heard.
func noModules(c Config) error {
	k := c.Kernel
	return verr.New(verr.Missing, c.describe()+" ended",
		fmt.Sprintf("no modules of %s were found beside %s (looked in %s)", k.Release, k.Image, strings.Join(k.ModuleDirs(), ", ")),
		fmt.Sprintf("put them at lib/modules/%s beside it, or use a kernel that has virtio_pci, virtio_console, 9p and overlay built in", k.Release))
}

// keepAlive ends a guest that does not answer any more, or that nobody can reach
// because the channel broke.
func (g *Guest) keepAlive() {
	for {
		select {
		case <-g.done:
			return
		case <-g.session.CloseChan():
			select {
			case <-g.done:
			case <-time.After(brokenGrace):
				g.disconnected.Store(true)
				g.child.Stop(0)
			}
			return
		case <-time.After(pingInterval):
		}
		if _, err := g.session.Ping(); errors.Is(err, yamux.ErrTimeout) || errors.Is(err, yamux.ErrConnectionWriteTimeout) {
			g.unresponsive.Store(true)
			g.child.Stop(0)
			return
		}
	}
}

// Dial opens one more stream to the guest: of its agent, or one that a command
// runs on.
func (g *Guest) Dial(context.Context) (net.Conn, error) {
	conn, err := g.session.Open()
	if err != nil {
		return nil, g.callError(err)
	}
	return conn, nil
}

// callError is the error of a call that failed: the end of the guest, if it has ended
// or is about to.
func (g *Guest) callError(err error) error {
	if !g.session.IsClosed() {
		return err
	}
	// The channel breaks a moment before qemu is gone.
	select {
	case <-g.done:
	case <-time.After(time.Second):
	}
	select {
	case <-g.done:
		if g.err != nil {
			return g.err
		}
	default:
	}
	return err
}

// Run runs a command in the guest and gives its exit code: 128 and the number
// of the signal when one ended it. When ctx ends, the command is interrupted as
// by Ctrl-C, and Run waits until it has cleaned up. The error tells that it could
// not be started, or that its end is not known; it is one for users.
func (g *Guest) Run(ctx context.Context, c Command) (exit int, err error) {
	exit, err = guest.Run(ctx, g.Dial, c)
	if err != nil && ctx.Err() == nil && !errors.Is(err, guest.ErrNotStarted) {
		err = g.callError(err)
	}
	return exit, runError(c, err)
}

func runError(c Command, err error) error {
	what := "cannot run " + strings.Join(c.Args, " ") + " in the virtual machine"
	if errors.Is(err, guest.ErrNotStarted) {
		return verr.Wrap(verr.Missing, what, err, "name a program and a folder that this machine's file system has, outside of /run, /dev and /proc")
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	return verr.Wrap(verr.Failed, what, err, "run it again")
}

// Done is closed when the guest has ended and nothing is left of it.
func (g *Guest) Done() <-chan struct{} { return g.done }

// Ended tells how it ended by itself: an error for users, with the console's
// last lines; nil after Close. Call it when Done is closed.
func (g *Guest) Ended() error { return g.err }

// Accel is what it runs on.
func (g *Guest) Accel() Accel { return g.accel }

// NotKVM tells why it is not on KVM although this machine has the device, and
// nobody asked for emulation; empty: it is on KVM, or as it was asked for.
func (g *Guest) NotKVM() string { return g.notKVM }

// Clock is the clock source of its kernel.
func (g *Guest) Clock() string { return g.hello.Clock }

// Close ends the guest at once, and returns when nothing is left of it. What was
// written to Writable folders stays.
func (g *Guest) Close() error {
	g.closeOnce.Do(func() {
		g.closing.Store(true)
		g.child.Stop(0)
	})
	<-g.done
	return nil
}
