// Package lab plays several machines on one: network namespaces that a wire
// joins, with paths between them, and an agent in each of the two that are
// measured.
//
// What a lab is made of carries its name: the namespaces venturi.<lab>.m1,
// venturi.<lab>.m2 and so on, those of pods and switches below them, and the
// folder /run/venturi/<lab>. A lock in the folder is held for as long as the process
// that raised the lab lives. So whatever a killed run left is known by its
// name and by its open lock, and [Sweep] removes it; every [Up] sweeps first.
package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/internal/verr"
)

// DefaultName is the name of a lab that was given none.
const DefaultName = "lab"

// Options say what lab to raise.
type Options struct {
	Name  string   // empty: DefaultName
	Paths []string // as path.Arms takes them; one an arm
	Names []string // of the arms, where they are not to be called as their drivers
	Hosts int      // how many machines; 0: DefaultHosts
	Wire  Wire     // the zero value: DefaultWire
	// StackWire makes the machines' devices on the wire upon cards, which it joins by a name that
	// the machines' ends have in common; nil: they are cards themselves. Tests have VLANs there.
	StackWire func(ends []netcfg.VethEnd, join func(name string, ends []netcfg.VethEnd) error) error
	// Services is how many Services' worth of kube-proxy rules the machines'
	// packet filters carry; 0: no rules and no connection tracking.
	Services int
	Cores    Cores // nil: machines share all of them
	// Program starts this very program; daemons of paths are run by it.
	Program []string
	// AgentCommand starts an agent; the lab adds --machine, --socket and, for a
	// kept lab, --detach. Empty: no agents.
	AgentCommand []string
	// Keep lets the lab stay when the process ends, until it is taken down.
	Keep bool
}

// Bounds of the number of machines.
const (
	DefaultHosts = 2
	MaxHosts     = 250
)

// HostsHelp explains the option's number, for --help.
const HostsHelp = "machines; more than two (the default) are joined by a switch. Traffic is\nmeasured between the first two"

// Lab is a raised lab.
type Lab struct {
	Name     string    `json:"name"`
	Wire     string    `json:"wire"` // normal form of the options
	Services int       `json:"services,omitempty"`
	Machines []Machine `json:"machines"`
	Arms     []Arm     `json:"arms"`
	Guest    *Guest    `json:"guest,omitempty"` // the virtual machine that it is in; nil: this machine
	Cores    Cores     `json:"cores,omitempty"`
	// Unconfined is what Cores hold for, and could not be confined to them.
	Unconfined []string `json:"unconfined,omitempty"`

	claim        *Claim
	writer       *netcfg.Writer
	agents       []*netcfg.Child
	daemons      []daemon
	foreignNetns []*host.NetnsHandle
	say          func(format string, args ...any) // tells of waits; nil: nobody is told
}

// measured is how many of the machines have agents: the first ones. Traffic is
// measured between them; the others are there to be talked to.
const measured = 2

// Machine is one of the machines.
type Machine struct {
	Name      string       `json:"name"`
	Namespace string       `json:"namespace"` // file
	Addr      netip.Addr   `json:"addr"`      // on the wire
	Pods      []host.Named `json:"pods,omitempty"`
	Switches  []host.Named `json:"switches,omitempty"` // namespaces of switches that need their own
	Attached  []host.Named `json:"attached,omitempty"` // namespaces that are not the lab's
	Socket    string       `json:"socket,omitempty"`   // of its agent; empty: none
	AgentPid  int          `json:"agent_pid,omitempty"`
}

// Namespaces lists the machine's own namespace and those of its pods and switches,
// as facts about a machine want them.
func (m Machine) Namespaces() []host.Named {
	return slices.Concat([]host.Named{{Name: m.Name, Path: m.Namespace}}, m.Pods, m.Switches)
}

// Arm is one path, raised.
type Arm struct {
	Name     string    `json:"name"`
	Path     string    `json:"path"`              // name of the driver
	Options  string    `json:"options,omitempty"` // those that are not the driver's defaults
	Overhead int       `json:"overhead"`          // bytes that the path adds to each packet on the wire
	Ends     path.Ends `json:"ends"`
	// Versions of the programs that carry it, by the names of their projects in
	// lower case, such as "openvswitch": "3.1.0".
	Versions map[string]string `json:"versions,omitempty"`
	// Pins are the folders where the path's fast path keeps its tables, by machine;
	// nil: it has none.
	Pins []string `json:"pins,omitempty"`
}

// Client is the end of the first pod on the first machine, where the client is;
// Server is its counterpart on the second machine.
func (a Arm) Client() host.Endpoint { return a.Ends[0][0] }
func (a Arm) Server() host.Endpoint { return a.Ends[1][0] }

// WireDevice is the card of each machine, on the wire.
const WireDevice = "wire0"

// IsCard tells whether a device of a lab's machine is its network card on the wire.
func IsCard(device string) bool { return device == WireDevice }

var wireNet = netip.MustParsePrefix("10.200.0.0/24")

func machineName(i int) string { return fmt.Sprintf("m%d", i+1) }

// wireAddr is the address of a machine in the wire's network.
func wireAddr(network netip.Prefix, i int) netip.Addr {
	addr := network.Masked().Addr()
	for range i + 1 {
		addr = addr.Next()
	}
	return addr
}

// labOUI begins the MACs of a lab whose wire nobody shares.
var labOUI = [2]byte{0x0a, 0x76}

func wireMAC(oui [2]byte, i int) net.HardwareAddr {
	return net.HardwareAddr{oui[0], oui[1], 1, 0, 0, byte(i + 1)}
}

// Up raises a lab. When it fails or ctx ends in the middle, what was built is
// taken down again. Errors that the user can do something about are for a user.
func Up(ctx context.Context, o Options) (*Lab, error) {
	o = o.withDefaults()
	arms, err := o.check()
	if err != nil {
		return nil, err
	}
	return raise(ctx, o, func(b *builder) []step {
		return []step{
			b.machines,
			b.wire,
			func(ctx context.Context, _ Options) error { return b.paths(ctx, o, arms) },
			b.services,
			b.agents,
			func(context.Context, Options) error { return b.confined(o) },
		}
	})
}

// step is one of those in which a lab is built.
type step = func(context.Context, Options) error

// raise claims the lab's name, and builds it in steps.
func raise(ctx context.Context, o Options, steps func(*builder) []step) (*Lab, error) {
	claim, err := NewClaim(ctx, o.Name)
	if err != nil {
		return nil, err
	}
	l := &Lab{Name: o.Name, Wire: o.Wire.String(), Services: o.Services, Cores: o.Cores, claim: claim, say: sayOf(ctx)}
	if l.writer, err = netcfg.Owned(o.Name); err == nil {
		err = l.build(ctx, o, steps)
	}
	if err != nil {
		return nil, errors.Join(err, l.Down())
	}
	if o.Keep {
		claim.Release()
	}
	return l, nil
}

func (o Options) withDefaults() Options {
	if o.Name == "" {
		o.Name = DefaultName
	}
	if o.Wire == (Wire{}) {
		o.Wire = DefaultWire()
	}
	if o.Hosts == 0 {
		o.Hosts = DefaultHosts
	}
	return o
}

// Check tells whether such a lab can be raised here, and makes nothing.
func (o Options) Check() error {
	o = o.withDefaults()
	_, err := o.check()
	return err
}

// CheckAnywhere refuses what cannot be raised whatever the kernel, and makes nothing.
func (o Options) CheckAnywhere() error {
	o = o.withDefaults()
	_, err := o.arms()
	return err
}

// arms gives the paths that are wanted, and refuses what cannot be raised anywhere.
func (o *Options) arms() ([]path.Arm, error) {
	arms, err := path.Arms(o.Paths, o.Names)
	if err != nil {
		return nil, err
	}
	if o.Hosts < DefaultHosts || o.Hosts > MaxHosts {
		return nil, verr.New(verr.Usage, fmt.Sprintf("cannot raise a lab of %d machines", o.Hosts),
			fmt.Sprintf("a lab has %d to %d", DefaultHosts, MaxHosts), "give a number in that range")
	}
	if err := o.Cores.check(o.Hosts); err != nil {
		return nil, err
	}
	if err := path.CheckCapacity(len(arms), o.Hosts); err != nil {
		return nil, err
	}
	if err := path.Allocate(arms, o.Hosts); err != nil {
		return nil, err
	}
	for _, arm := range arms {
		if _, err := arm.MTU(o.Wire.MTU); err != nil {
			return nil, err
		}
	}
	return arms, checkServices(o.Services)
}

// check refuses what cannot be raised here, before anything is made.
func (o *Options) check() ([]path.Arm, error) {
	arms, err := o.arms()
	if err != nil {
		return nil, err
	}
	if err := o.Cores.checkHere(); err != nil {
		return nil, err
	}
	if err := needRoot("cannot raise a lab"); err != nil {
		return nil, err
	}
	needs := []feature.Need{feature.Veth, feature.Sysctls}
	if err := feature.RequireRights("cannot raise a lab", needs...); err != nil {
		return nil, err
	}
	if err := feature.Require("cannot raise a lab", needs...); err != nil {
		return nil, err
	}
	for _, arm := range arms {
		if err := arm.Check(); err != nil {
			return nil, err
		}
	}
	if o.Services > 0 {
		return arms, feature.Require("cannot write the rules of Services", feature.NAT)
	}
	return arms, nil
}

func (l *Lab) build(ctx context.Context, o Options, steps func(*builder) []step) error {
	b := builder{lab: l, keep: o.Keep, cores: o.Cores, foreignPaths: map[host.NamespaceID]string{}}
	defer b.close() // an open handle would keep a namespace beyond its deletion
	for _, step := range steps(&b) {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("raise lab %s: %w", l.Name, err)
		}
		if err := step(ctx, o); err != nil {
			var told *verr.Error
			if errors.As(err, &told) {
				return err // it says what could not be raised
			}
			return fmt.Errorf("raise lab %s: %w", l.Name, err)
		}
	}
	l.claim.state.Lab, l.claim.state.Keep = l, o.Keep
	return l.claim.save()
}

// Down takes the lab down: agents, everything else that runs in its
// namespaces, the namespaces, the folder. Doing it again does nothing.
func (l *Lab) Down() error {
	stopped := l.stopAgents()
	l.closeForeign()
	removed := l.remove()
	// Not under the lock on the table: one that does not end would hold up all other labs.
	return errors.Join(stopped, removed, l.reapDaemons())
}

// remove removes what the lab is made of. It is not bound to a context: when a run was
// interrupted, this still has to be done.
func (l *Lab) remove() error {
	defer l.claim.Release()
	ctx, cancel := context.WithTimeout(WithSay(context.Background(), l.say), tableLimit)
	defer cancel()
	table, err := lockTable(ctx)
	if err != nil {
		if ctx.Err() == nil {
			return err
		}
		return verr.New(verr.Busy, "cannot take down lab "+l.Name,
			fmt.Sprintf("%s, and has not finished within %v", tableHolder(), tableLimit),
			"see why that process does not go on, end it, and remove the lab with `venturi lab down`")
	}
	defer unlockInFolder(table)
	l.claim.unguard()
	return demolish(l.Name)
}

// Load reads what there is in a lab that another process raised.
func Load(name string) (*Lab, error) {
	s, err := readState(name)
	if err != nil {
		return nil, err
	}
	if s.Lab == nil {
		return nil, fmt.Errorf("read state of lab %s: it is not complete", name)
	}
	return s.Lab, nil
}

func (l *Lab) socket(machine string) string {
	return filepath.Join(folder(l.Name), machine+".sock")
}
