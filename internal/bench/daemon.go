package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// fastDaemon is the fast path's daemon on one machine, which the cycles stop and start.
type fastDaemon struct {
	space    *netcfg.Namespace
	program  []string
	pins     string
	config   string
	pid      int
	started  []*netcfg.Child
	attached []string // pins of the programs that belong there
}

// daemonTimeout bounds every wait for a daemon, and for its effect.
var daemonTimeout = host.ScaleTimeout(30 * time.Second)

const daemonPoll = 5 * time.Millisecond

// daemonOf finds the daemon that a lab has started.
func daemonOf(l *lab.Lab, program []string, arm lab.Arm, i int) (*fastDaemon, error) {
	at := l.Machines[i].Namespace
	d := &fastDaemon{program: program, pins: arm.Pins[i], config: filepath.Join(filepath.Dir(arm.Pins[i]), "fast.json")}
	var err error
	if d.space, err = l.Open(i); err != nil {
		return nil, err
	}
	id, err := host.ID(at)
	if err != nil {
		return nil, err
	}
	pids, err := host.Reader{}.ProcessesIn(id)
	if err != nil {
		return nil, err
	}
	for _, pid := range pids {
		if slices.Contains(host.Reader{}.Command(pid), d.config) {
			d.pid = pid
			return d, nil
		}
	}
	return nil, fmt.Errorf("there is no daemon with config %s", d.config)
}

// start starts another daemon; with replace, while there is one.
func (d *fastDaemon) start(replace bool) error {
	args := append(slices.Clone(d.program), "fastpath", "--config", d.config)
	if replace {
		args = append(args, "--replace")
	}
	child, err := d.space.Start(netcfg.Command{Args: args, Log: d.log()})
	if err != nil {
		return err
	}
	d.started = append(d.started, child)
	d.pid = child.Pid
	return nil
}

// log is the file of what the daemons that were started here have said.
func (d *fastDaemon) log() string { return filepath.Join(filepath.Dir(d.config), "again.log") }

// send sends a signal to the daemon.
func (d *fastDaemon) send(s syscall.Signal) error {
	p, err := os.FindProcess(d.pid)
	if err != nil {
		return err
	}
	return p.Signal(s)
}

// awaitExit waits until a process has exited, and has let go of its locks.
func awaitExit(ctx context.Context, pid int) error {
	return poll(ctx, fmt.Sprintf("process %d ends", pid), func() (bool, error) { return host.HasExited(pid) })
}

// end stops the daemon with a signal, and waits until it has exited. A daemon that is
// killed leaves all programs attached; one that is asked to stop leaves none.
func (d *fastDaemon) end(ctx context.Context, s syscall.Signal) error {
	if err := d.send(s); err != nil {
		return err
	}
	if err := awaitExit(ctx, d.pid); err != nil {
		return err
	}
	attached, err := bpf.Attached(d.pins)
	if err != nil {
		return err
	}
	if s == syscall.SIGKILL != (len(attached) > 0) {
		return fmt.Errorf("after %v there is attached: %v", s, attached)
	}
	return nil
}

// killSoon kills the daemon at a random time within a limit, whatever it is doing.
func (d *fastDaemon) killSoon(ctx context.Context, limit time.Duration) error {
	_ = host.Sleep(ctx, rand.N(limit))
	if err := d.send(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return awaitExit(ctx, d.pid)
}

// checkAttached waits until exactly those programs are attached that were before the
// cycles: a daemon that has just started may still be replacing some.
func (d *fastDaemon) checkAttached(ctx context.Context) error {
	var now []string
	err := poll(ctx, "the programs of before are attached", func() (same bool, err error) {
		now, err = bpf.Attached(d.pins)
		return slices.Equal(now, d.attached), err
	})
	if err != nil {
		return fmt.Errorf("%w (attached is %v, and was %v)", err, now, d.attached)
	}
	return nil
}

// readCounts reads the fast path's counters; they are zero if there is no fast path.
func (d *fastDaemon) readCounts() (of [bpf.Counts]uint64, err error) {
	stats, err := fastpath.ReadStats(d.pins)
	if errors.Is(err, os.ErrNotExist) {
		return of, nil
	}
	for _, s := range stats {
		of[s.Count] = s.Packets
	}
	return of, err
}

// awaitCarrying waits until the fast path has carried further packets, both ways.
func (d *fastDaemon) awaitCarrying(ctx context.Context) error {
	const some = 20
	before, err := d.readCounts()
	if err != nil {
		return err
	}
	first := before
	var now [bpf.Counts]uint64
	err = poll(ctx, "packets are carried again", func() (ok bool, err error) {
		now, err = d.readCounts()
		if now[bpf.CarriedOut] < before[bpf.CarriedOut] {
			before = now // it was taken away, and begun anew
		}
		return now[bpf.CarriedOut] >= before[bpf.CarriedOut]+some && now[bpf.CarriedIn] >= before[bpf.CarriedIn]+some, err
	})
	if err != nil {
		said, _ := os.ReadFile(d.log())
		return fmt.Errorf("%w (counted by reason: %v, before: %v; the daemon said %q)", err, now, first, said)
	}
	return nil
}

// poll waits until a condition holds.
func poll(ctx context.Context, what string, is func() (bool, error)) error {
	for end := time.Now().Add(daemonTimeout); ; {
		ok, err := is()
		switch {
		case err != nil:
			return err
		case ok:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case time.Now().After(end):
			return fmt.Errorf("timed out after %v: %s", daemonTimeout, what)
		}
		time.Sleep(daemonPoll)
	}
}

// close ends the daemons that were started here.
func (d *fastDaemon) close() {
	for _, c := range d.started {
		c.Stop(daemonTimeout)
	}
	d.space.Close()
}
