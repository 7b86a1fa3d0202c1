package vm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/guest"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/verr"
)

// Start starts a machine and returns when its first process answers. When ctx
// ends before that, nothing is left. The error is one for users.
func Start(ctx context.Context, c Config) (*Guest, error) {
	if err := c.check(); err != nil {
		return nil, c.cannotStart(verr.Usage, err, "ask for a machine that can be, and run the command again")
	}
	if runtime.GOARCH != "amd64" {
		return nil, c.cannotStart(verr.Missing, fmt.Errorf("this machine is %s, and its programs run in no x86 guest", runtime.GOARCH), "use an x86 machine")
	}
	program, err := qemu.Find()
	if err != nil {
		lacks, get := qemu.Lack()
		return nil, c.cannotStart(verr.Missing, errors.New(lacks), get)
	}
	if c, err = c.withDefaults(); err != nil {
		return nil, err
	}
	if f, err := os.Open(c.Kernel.Image); err != nil {
		return nil, c.cannotStart(verr.Missing, fmt.Errorf("its kernel cannot be read: %w", err), "name a kernel that can be read: `venturi kernel ls` lists those that are kept")
	} else {
		f.Close()
	}
	if err := c.checkTaps(); err != nil {
		return nil, c.cannotStart(verr.Missing, err, "make the tap before the machine that uses it")
	}
	accel, notKVM, err := c.choose(ctx, program)
	if err != nil {
		return nil, err
	}
	g, err := c.start(ctx, program, accel, accel == TCG)
	if accel == TCG && (errors.Is(err, errPanicked) || errors.Is(err, errHung)) {
		// A sound kernel was seen to panic or to hang while it booted emulated, once in
		// hundreds of boots. One that is at fault does so again.
		g, err = c.start(ctx, program, accel, false)
	}
	if err == nil {
		g.notKVM = notKVM
	}
	return g, err
}

// start starts the machine on one kind of acceleration. If it may be started again, errHung ends it
// long before StartLimit.
func (c Config) start(ctx context.Context, program string, accel Accel, again bool) (*Guest, error) {
	c = c.withLimits(accel, runtime.NumCPU())
	modules, err := c.modules()
	if err != nil {
		return nil, c.cannotStart(verr.Missing, err, "use a kernel that has it: `venturi kernel fetch` gets Debian's, which do")
	}
	files, err := initramfs(c.Program[0], c.forGuest(), modules)
	if err != nil {
		return nil, c.cannotStart(verr.Failed, err, "see that the program's file and the kernel's modules can be read")
	}
	defer files.Close()
	g := &Guest{config: c, accel: accel, console: &tail{}, qemuLog: &tail{}, done: make(chan struct{})}
	if c.Console != "" {
		if g.log, err = os.OpenFile(c.Console, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
			return nil, c.cannotStart(verr.Failed, err, "name another file for the console")
		}
		g.console.to = g.log
	}
	if err := g.launch(program, files); err != nil {
		if g.log != nil {
			g.log.Close()
		}
		return nil, c.cannotStart(verr.Failed, err, "run the command again")
	}
	if err := g.greet(ctx, again); err != nil {
		g.Close()
		return nil, err
	}
	g.up.Store(true)
	g.console.forget() // how it booted says nothing of how it will end
	go g.keepAlive()
	return g, nil
}

// launch starts qemu with its end of the channel.
func (g *Guest) launch(program string, files *os.File) error {
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	defer theirs.Close()
	// Before anything goes over it the session is quiet, however long that takes.
	g.session, err = guest.Session(ours, false, g.config.SilenceLimit)
	if err != nil {
		ours.Close()
		return err
	}
	command := netcfg.BoundCommand{
		Args: append([]string{program}, g.config.arguments(g.accel)...),
		// What qemu would look for in a person's environment is not for it.
		Env:   []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "TMPDIR=/tmp"},
		Files: []*os.File{theirs, files}, Output: g.console, Error: io.Writer(g.qemuLog),
	}
	if g.child, err = command.Start(g.config.In); err != nil {
		g.session.Close()
		return err
	}
	go g.watch()
	return nil
}

func socketPair() (ours net.Conn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make the channel: %w", err)
	}
	near, far := os.NewFile(uintptr(fds[0]), "channel"), os.NewFile(uintptr(fds[1]), "channel")
	defer near.Close()
	ours, err = net.FileConn(near)
	if err != nil {
		far.Close()
		return nil, nil, fmt.Errorf("make the channel: %w", err)
	}
	return ours, far, nil
}

// errKVM is what qemu says when KVM cannot go on. It then stops the machine and
// stays.
const errKVM = "KVM internal error"

// kvmSilence is how long a machine on KVM may say nothing, and half of its StartLimit
// at most. Its kernel writes its first line after less than a second where nobody
// else wants the processors; where KVM is only a device file, it never does.
const kvmSilence = 30 * time.Second

// hangPart is the part of its StartLimit for which a machine that boots may say nothing.
var hangPart = time.Duration(4)

// errHung is of a machine that says nothing more while it boots.
var errHung = errors.New("it hangs while it boots")

// greet waits until the guest answers, and tells why it does not.
func (g *Guest) greet(ctx context.Context, again bool) error {
	heard := make(chan error, 1)
	conn, err := g.session.Open()
	if err == nil {
		go func() {
			var err error
			g.hello, err = guest.Greet(conn)
			conn.Close()
			heard <- err
		}()
	} else {
		heard <- err
	}
	begin, limit := time.Now(), time.After(g.config.StartLimit)
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		select {
		case err := <-heard:
			if err == nil {
				return nil
			}
			// The channel is gone, and soon qemu will be.
			heard = nil
		case <-g.done:
			return g.notUp()
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-limit:
			why := fmt.Sprintf("it did not get to its first process within %v", g.config.StartLimit)
			return verr.Wrap(verr.Failed, "cannot start "+g.config.describe(), stuck(saidLast(why, g.console.lines())),
				"try another kernel; on a machine that is very busy, try again later")
		case <-poll.C:
			if why := g.kvmGaveUp(time.Since(begin)); why != "" {
				return verr.Wrap(verr.Missing, "cannot start "+g.config.describe(), stuck(why), "let it be emulated")
			}
			if again && g.console.silence(begin) > g.config.StartLimit/hangPart {
				return errHung
			}
		}
	}
}

// kvmGaveUp tells why KVM will not get the machine any further; empty: it may.
func (g *Guest) kvmGaveUp(since time.Duration) string {
	silence := min(kvmSilence, g.config.StartLimit/2)
	switch {
	case g.accel != KVM:
	case lineWith(g.qemuLog.lines(), errKVM) != "":
		return "KVM gave up: " + g.qemuLog.lines()[0]
	case since > silence && len(g.console.lines()) == 0:
		return fmt.Sprintf("its kernel said nothing for %v", silence)
	}
	return ""
}

// notUp is how a machine ended before it answered.
func (g *Guest) notUp() error {
	if e := new(verr.Error); errors.As(g.err, &e) {
		e.Summary = "cannot start " + g.config.describe()
	}
	return g.err
}
