package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/verr"
)

// Names of the calls by which a controller elsewhere has this host's part of a lab raised.
// Bodies are JSON.
const (
	CallInspectCard   = "lab.card"     // InspectCard -> CardState
	CallCheck         = "lab.check"    // Part -> nothing: refuses what cannot be raised
	CallRaise         = "lab.raise"    // Part -> Lab
	CallDaemonExit    = "lab.daemon"   // string, an arm -> string, which daemon has exited; empty: none
	CallPins          = "lab.pins"     // string, a namespace's file -> string; see PinsOf
	CallFastPathState = "lab.fastpath" // string, a folder of pins -> fastpath.State or null; see FastPathState
	CallTakeDown      = "lab.down"     // nothing -> nothing
)

// InspectCard asks for the state of a card.
type InspectCard struct {
	Card SharedCard   `json:"card"`
	Net  netip.Prefix `json:"net"`
}

// Parts raises parts of labs for a controller that is elsewhere, one at a time, and takes the
// lock on measuring. A process that watches this one removes what it leaves when it is killed.
type Parts struct {
	Program []string     // starts this very program
	Version string       // of it
	Failure chan<- error // gets why a part is no longer what was raised, for a user, if it has room

	mu      sync.Mutex
	lab     *Lab
	locked  bool // or about to be
	watcher *netcfg.Child
	unwatch func() // ends the watch over the device on the wire
}

// Calls are those that a controller can make, by their names.
func (p *Parts) Calls() map[string]func(context.Context, []byte) ([]byte, error) {
	return map[string]func(context.Context, []byte) ([]byte, error){
		CallInspectCard:   agent.JSONCall(func(_ context.Context, c InspectCard) (CardState, error) { return c.Card.Inspect(c.Net) }),
		CallCheck:         agent.JSONCall(func(_ context.Context, p Part) (struct{}, error) { _, err := p.check(); return struct{}{}, err }),
		CallRaise:         agent.JSONCall(p.raise),
		CallDaemonExit:    agent.JSONCall(p.daemonExit),
		CallPins:          agent.JSONCall(func(_ context.Context, namespace string) (string, error) { return PinsOf(namespace), nil }),
		CallFastPathState: agent.JSONCall(func(_ context.Context, pins string) (*fastpath.State, error) { return FastPathState(pins) }),
		CallTakeDown:      agent.JSONCall(func(context.Context, struct{}) (struct{}, error) { return struct{}{}, p.Close() }),
	}
}

func (p *Parts) raise(ctx context.Context, part Part) (*Lab, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lab != nil {
		return nil, verr.New(verr.Busy, "cannot raise lab "+part.Name, "this agent has already raised one", "take that one down first")
	}
	if part.Self < 0 || part.Self >= len(part.Machines) {
		return nil, fmt.Errorf("raise machine %d of %d", part.Self, len(part.Machines))
	}
	part.Program, part.Version = p.Program, p.Version
	err := p.startWatcher()
	if err != nil {
		return nil, err
	}
	if err := p.watcher.WriteLine(part.Name); err != nil {
		return nil, fmt.Errorf("tell the watcher of lab %s: %w", part.Name, err)
	}
	if p.lab, err = upPart(ctx, part); err == nil {
		if err = p.watchWire(part); err != nil {
			err, p.lab = errors.Join(err, p.lab.Down()), nil
		}
	}
	if err != nil {
		p.releaseWatcher(err)
	}
	return p.lab, err
}

// watchWire watches over the part's device on the wire: an undo gives the card back that it is
// on, and what goes on without it measures nothing. The kernel tells of that, so that nothing
// runs beside a slice.
func (p *Parts) watchWire(part Part) error {
	ctx, cancel := context.WithCancel(context.Background())
	removed, err := netcfg.WatchRemoval(ctx, p.lab.Machines[part.Self].Namespace, WireDevice)
	if err != nil {
		cancel()
		return err
	}
	ended := make(chan struct{})
	p.unwatch = func() { cancel(); <-ended }
	go func() {
		defer close(ended)
		if _, ok := <-removed; ok {
			select {
			case p.Failure <- part.Card.removed():
			default: // it has had one, which ends the agent
			}
		}
	}()
	return nil
}

// removed is the error of a run whose card is gone.
func (c SharedCard) removed() error {
	what := "the device on network card " + c.Device + " is gone"
	if c.Take {
		what = "network card " + c.Device + " was moved out of the lab, as \"venturi undo\" does"
	}
	return verr.New(verr.Partial, "cannot go on measuring", what, "what was measured until then is reported; run the command again")
}

// Lock is [LockMeasure] for an agent.
func (p *Parts) Lock(ctx context.Context, wait bool, command string) (unlock func(), err error) {
	p.mu.Lock()
	err = p.startWatcher()
	p.locked = err == nil
	p.mu.Unlock()
	if err != nil {
		return nil, err
	}
	free, err := LockMeasure(ctx, wait, command, nil)
	if err != nil {
		p.unlocked()
		return nil, err
	}
	return func() { free(); p.unlocked() }, nil
}

func (p *Parts) unlocked() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.locked = false
	if p.lab == nil {
		p.releaseWatcher(nil)
	}
}

// startWatcher starts the watcher, unless it runs.
func (p *Parts) startWatcher() (err error) {
	if p.watcher == nil {
		p.watcher, err = netcfg.StartWatcher(append(slices.Clone(p.Program), "agent", "--watch"))
	}
	return err
}

func (p *Parts) daemonExit(_ context.Context, arm string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lab == nil {
		return "", nil
	}
	if err := p.lab.DaemonExit(arm); err != nil {
		return err.Error(), nil
	}
	return "", nil
}

// Close takes down what was raised. Doing it again does nothing.
func (p *Parts) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lab == nil {
		return nil
	}
	p.unwatch() // it would hold the namespace
	err := p.lab.Down()
	p.lab = nil
	p.releaseWatcher(err)
	return err
}

// releaseWatcher ends the watcher when there is nothing left to watch over. If a part failed to be
// taken down, the watcher tries again, for as long as that takes.
func (p *Parts) releaseWatcher(failed error) {
	switch {
	case p.watcher == nil:
		return
	case failed != nil:
		p.watcher.CloseLifeline()
	case p.locked:
		return
	default:
		p.watcher.Stop(agentStop)
	}
	p.watcher = nil
}

// removeTries is how often the watcher tries to remove the part of an agent that has died.
const removeTries = 20

// Watch waits until the process on the other side of in has ended, and removes what it left: the
// labs that it has named, a line each, and the lock on measuring.
func Watch(in io.Reader) error {
	named, _ := io.ReadAll(in) // an error is an end, too
	var failed []error
	for name := range strings.FieldsSeq(string(named)) {
		failed = append(failed, removeDead(name))
	}
	return errors.Join(append(failed, removeFreeLock(freeTries))...)
}

// removeDead removes a lab whose owner is about to end.
func removeDead(name string) (err error) {
	for range removeTries {
		err = withTable(context.Background(), func() error {
			info, err := inspect(name)
			if err != nil {
				return err
			}
			if info.Status == StatusDead {
				return demolish(name)
			}
			return errors.New("its owner is still running")
		})
		if err == nil {
			return nil
		}
		time.Sleep(time.Second / 4)
	}
	return fmt.Errorf("remove what is left of lab %s: %w", name, err)
}
