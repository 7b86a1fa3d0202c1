package lab

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/internal/verr"
)

// daemon is a process that a path needs.
type daemon struct {
	arm, machine string
	child        *netcfg.Child
}

// paths builds all arms at once: most of the time goes by in waiting for
// daemons to start.
func (b *builder) paths(ctx context.Context, o Options, arms []path.Arm) error {
	b.lab.Arms = make([]Arm, len(arms))
	group, building := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, arm := range arms {
		group.Go(func() error {
			if building.Err() != nil {
				return nil // another path has failed, or ctx has ended
			}
			err := b.path(building, o, arm, &b.lab.Arms[i])
			if err == nil || ctx.Err() != nil {
				return err
			}
			return verr.Wrap(verr.Failed, "cannot raise path "+arm.Name, err, "try it alone with: venturi lab up "+arm.Spec())
		})
	}
	err := group.Wait()
	b.lab.sortPods()
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// atOnce is how many paths are built at once: enough to fill the time in which
// each waits for its daemons, and few enough that none waits for the cores so
// long that it seems to hang.
const atOnce = 16

// path builds one arm.
func (b *builder) path(ctx context.Context, o Options, arm path.Arm, made *Arm) error {
	mtu, err := arm.MTU(o.Wire.MTU)
	if err != nil {
		return err
	}
	*made = Arm{
		Name: arm.Name, Path: arm.Driver.Name, Options: arm.GivenOptions(), Overhead: arm.Overhead(), Versions: map[string]string{},
	}
	made.Ends, err = arm.Driver.Up(ctx, b.site(arm, mtu, o, made))
	return err
}

// site is where one arm is built; what is noted of it goes into made.
func (b *builder) site(arm path.Arm, mtu int, o Options, made *Arm) *path.Site {
	s := &path.Site{Arm: arm.Name, Index: arm.Index, Nth: arm.Nth, Options: arm.Options, VNI: arm.VNI, Port: arm.Port, MTU: mtu, Machines: b.peers, OUI: b.oui}
	s.Env = path.Env{
		Pod:         func(i, n int) (*netcfg.Namespace, error) { return b.pod(i, n, arm.Name) },
		SwitchNetns: func(i int, name string) (*netcfg.Namespace, error) { return b.switchNetns(i, arm.Name+"."+name) },
		Cards: func(ends []netcfg.VethEnd, senders func(int) []net.HardwareAddr) error {
			if !arm.Driver.OwnCard {
				return fmt.Errorf("give path %s its own network card: its driver does not declare that it needs one", arm.Name)
			}
			if err := b.joinCards(fmt.Sprintf("card%d", arm.Index), ends, senders); err != nil {
				return err
			}
			b.noteCards(made, ends)
			return nil
		},
		HoldNetns: func(i int, path string) (string, error) { return b.hold(i, arm.Name, path) },
		Folder:    func(i int) (string, error) { return b.folder(i, arm.Name) },
		Start: func(i int, in *netcfg.Namespace, c netcfg.Command) (*netcfg.Child, error) {
			return b.start(i, arm.Name, in, c)
		},
		Program:  o.Program,
		Settings: baseSettings,
		Keep:     b.keep,
		Report: func(component, version string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			made.Versions[component] = version
		},
		Pins: func(i int, folder string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			if made.Pins == nil {
				made.Pins = make([]string, len(b.machine))
			}
			made.Pins[i] = folder
		},
	}
	return s
}

// noteCards notes the cards of an arm.
func (b *builder) noteCards(made *Arm, ends []netcfg.VethEnd) {
	cards := make([]ArmCard, len(ends))
	for i, end := range ends {
		if end.In != nil { // else it is another host's
			cards[i] = ArmCard{end.In.Path(), end.Name}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	made.Cards = cards
}

// pod makes the n-th pod of an arm on a machine. The first is called as the
// arm, the next one arm.p2.
func (b *builder) pod(i, n int, arm string) (*netcfg.Namespace, error) {
	if n > 0 {
		arm = fmt.Sprintf("%s.p%d", arm, n+1)
	}
	made, named, err := b.createFor(i, arm)
	if err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.lab.Machines[i].Pods = append(b.lab.Machines[i].Pods, named)
	}
	return made, err
}

func (b *builder) switchNetns(i int, name string) (*netcfg.Namespace, error) {
	made, named, err := b.createFor(i, name)
	if err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.spaces = append(b.spaces, made)
		b.lab.Machines[i].Switches = append(b.lab.Machines[i].Switches, named)
	}
	return made, err
}

// createFor makes a namespace that belongs to a machine.
func (b *builder) createFor(i int, name string) (*netcfg.Namespace, host.Named, error) {
	machine := b.lab.Machines[i].Name
	n, err := b.create(machine + "." + name)
	if err != nil {
		return nil, host.Named{}, err
	}
	return n, host.Named{Name: machine + "/" + name, Path: n.Path()}, nil
}

// hold opens a namespace that an arm does not own. There is nobody to hold it
// open for a lab that is kept: the path stays what it was. However often and by
// whatever names it is asked for, a namespace has one path, by which everybody
// sees that it is the same and that its ports are taken.
func (b *builder) hold(i int, arm, path string) (string, error) {
	id, err := host.ID(path)
	if err != nil {
		return "", err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	known, ok := b.foreignPaths[id]
	if !ok {
		if known, err = b.keepOpen(path); err != nil {
			return "", err
		}
		b.foreignPaths[id] = known
	}
	m := &b.lab.Machines[i]
	m.Attached = append(m.Attached, host.Named{Name: m.Name + "/" + arm, Path: known})
	return known, nil
}

// keepOpen gives the path by which a namespace is found for as long as the lab
// is up.
func (b *builder) keepOpen(path string) (string, error) {
	if b.keep {
		return path, nil
	}
	held, err := host.OpenNetns(path)
	if err != nil {
		return "", err
	}
	b.lab.foreignNetns = append(b.lab.foreignNetns, held)
	return held.Path(), nil
}

// closeForeign closes the namespaces that are not the lab's.
func (l *Lab) closeForeign() {
	for _, h := range l.foreignNetns {
		_ = h.Close() // a descriptor of a namespace has nothing to lose
	}
	l.foreignNetns = nil
}

// folder makes an arm's folder on a machine. It is in one of the machine's, so
// that an arm may have any name: what the lab itself keeps is beside that.
func (b *builder) folder(i int, arm string) (string, error) {
	path := filepath.Join(folder(b.lab.Name), b.lab.Machines[i].Name, arm)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", fmt.Errorf("make folder for daemons: %w", err)
	}
	return path, nil
}

func (b *builder) start(i int, arm string, in *netcfg.Namespace, c netcfg.Command) (*netcfg.Child, error) {
	c.Detach = b.keep
	child, err := in.Start(c)
	if err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.lab.daemons = append(b.lab.daemons, daemon{arm, b.lab.Machines[i].Name, child})
	}
	return child, err
}

// DaemonExit tells which daemon of an arm has ended while the lab is up, and how; nil:
// none that this process started.
func (l *Lab) DaemonExit(arm string) error {
	for _, d := range l.daemons {
		if d.arm != arm {
			continue
		}
		select {
		case <-d.child.Done:
			return fmt.Errorf("on %s %w", d.machine, d.child.ExitError())
		default:
		}
	}
	return nil
}

// reapDaemons waits for the daemons that this process started, when they have
// been ended.
func (l *Lab) reapDaemons() error {
	var children []*netcfg.Child
	for _, d := range l.daemons {
		children = append(children, d.child)
	}
	l.daemons = nil
	return stopAll(children)
}

// sortPods puts what was noted while paths were built at once into the order
// in which it is shown.
func (l *Lab) sortPods() {
	byName := func(a, b host.Named) int { return strings.Compare(a.Name, b.Name) }
	for i := range l.Machines {
		slices.SortFunc(l.Machines[i].Pods, byName)
		slices.SortFunc(l.Machines[i].Switches, byName)
	}
}
