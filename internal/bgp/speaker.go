// Package bgp is the BGP speaker of one machine: a process that announces the
// machine's blocks of pod addresses to its neighbours and installs the blocks
// of the others as routes of the kernel, as the daemon on a node of a Calico
// cluster does.
//
// The protocol is GoBGP's, as a library. The speaker lives in the machine's
// network namespace, is told what to do by a file ([Config]), says how things
// are in another ([State]), and ends when its standard input does: that is how
// it learns that its lab has gone.
package bgp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"runtime"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/verr"
)

// Options say which speaker to be.
type Options struct {
	Config string // file that holds a [Config]
	// Stdin is the lifeline if it is a pipe: the speaker ends when it reaches
	// its end. That of a lab which is kept is none, and the speaker goes on.
	Stdin io.Reader
	Log   io.Writer // gets what a person should know, such as sessions that fail
}

// gatherDelay is how long a change waits for others, so that a burst of routes is
// one state and not many.
const gatherDelay = 5 * time.Millisecond

// Main is the speaker: it speaks until ctx ends or the lifeline does, then
// removes the routes that it installed.
func Main(ctx context.Context, o Options) error {
	c, err := Load(o.Config)
	if err != nil {
		return verr.Wrap(verr.Usage, "cannot start a BGP speaker", err,
			"give --config the file of a speaker; venturi itself writes it when it needs one")
	}
	// A lab has dozens of speakers, and what one does takes next to no time: it
	// must not spread over the cores that traffic is measured on.
	runtime.GOMAXPROCS(1)
	ctx, cancel := host.WithLifeline(ctx, o.Stdin)
	defer cancel()
	if err := runSpeaker(ctx, c, o.Log); err != nil {
		do := "see that nothing else listens on " + c.Listen.String()
		if errors.Is(err, errState) {
			do = "see that " + filepath.Dir(c.State) + " can be written to, and that its file system has space left"
		}
		do += ", and run the command again"
		return verr.Wrap(verr.Failed, "the BGP speaker "+c.RouterID.String()+" ended badly", err, do)
	}
	return nil
}

func runSpeaker(ctx context.Context, c *Config, log io.Writer) error {
	space, err := netcfg.CurrentNetns()
	if err != nil {
		return err
	}
	defer space.Close()
	f := &fib{space: space, accepts: c.accepts}
	if err := f.scan(); err != nil {
		return err
	}
	f.sync(nil) // what a speaker that was killed left
	t := newTable(c)
	s, err := start(ctx, c, t, log)
	if err != nil {
		return err
	}
	go resend(ctx, s, t)
	err = follow(ctx, c, t, f, log)
	for _, problem := range f.sync(nil) {
		err = errors.Join(err, errors.New(problem))
	}
	s.Stop()
	return err
}

// follow carries what the table says into the kernel, and tells of it, until
// ctx ends. Whoever starts it waits for a first state. One that cannot be written later is no reason
// to withdraw the routes: it is tried again.
func follow(ctx context.Context, c *Config, t *table, f *fib, log io.Writer) error {
	tick := time.NewTicker(time.Duration(c.Scan) * time.Second)
	defer tick.Stop()
	var told *State
	failed := false
	for {
		peers, best := t.look()
		problems := f.sync(best)
		if now := (&State{Peers: peers, Routes: f.routes(), Problems: problems}); !reflect.DeepEqual(now, told) {
			err := now.write(c.State)
			switch {
			case err == nil:
				told, failed = now, false
			case told == nil:
				return err
			case !failed:
				failed = true
				fmt.Fprintf(log, "the state is out of date: %v; trying again\n", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.changed:
			time.Sleep(gatherDelay)
		case <-tick.C:
			if err := f.scan(); err != nil {
				return err
			}
		}
	}
}
