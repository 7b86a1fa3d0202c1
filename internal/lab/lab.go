// Package lab plays two machines on one: network namespaces that a wire joins,
// with paths between them, and an agent in each.
//
// What a lab is made of carries its name: the namespaces venturi.<lab>.m1 and
// venturi.<lab>.m2, those of pods below them, and the folder
// /run/venturi/<lab>. A lock in the folder is held for as long as the process
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

	"github.com/venturi-net/venturi/internal/change"
	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/machine"
	"github.com/venturi-net/venturi/internal/path"
)

// DefaultName is the name of a lab that was given none.
const DefaultName = "lab"

// Options say what lab to raise.
type Options struct {
	Name  string   // empty: DefaultName
	Paths []string // names of path drivers, one an arm; a name may come again
	Wire  Wire     // the zero value: DefaultWire
	// Services is how many Services' worth of kube-proxy rules the machines'
	// packet filters carry; 0: no rules and no connection tracking.
	Services int
	// AgentCommand starts an agent; the lab adds --machine, --socket and, for a
	// kept lab, --detach. Empty: no agents.
	AgentCommand []string
	// Keep lets the lab stay when the process ends, until it is taken down.
	Keep bool
}

// Lab is a raised lab.
type Lab struct {
	Name     string     `json:"name"`
	Wire     string     `json:"wire"` // normal form of the options
	Services int        `json:"services,omitempty"`
	Machines [2]Machine `json:"machines"`
	Arms     []Arm      `json:"arms"`

	claim  *Claim
	writer *change.Writer
	agents []*change.Child
}

// Machine is one of the two machines.
type Machine struct {
	Name      string          `json:"name"`
	Namespace string          `json:"namespace"` // file
	Addr      netip.Addr      `json:"addr"`      // on the wire
	Pods      []machine.Named `json:"pods,omitempty"`
	Socket    string          `json:"socket,omitempty"` // of its agent; empty: none
	AgentPid  int             `json:"agent_pid,omitempty"`
}

// Spaces lists the machine's own namespace and those of its pods, as facts
// about a machine want them.
func (m Machine) Spaces() []machine.Named {
	return append([]machine.Named{{Name: m.Name, Path: m.Namespace}}, m.Pods...)
}

// Arm is one path, raised.
type Arm struct {
	Name     string           `json:"name"`
	Path     string           `json:"path"`     // name of the driver
	Overhead int              `json:"overhead"` // bytes a packet on the wire
	From     machine.Endpoint `json:"from"`
	To       machine.Endpoint `json:"to"`
}

// The wire: its device on each machine, and the machines' addresses on it.
const wireDevice = "wire0"

var (
	machineNames = [2]string{"m1", "m2"}
	wireNet      = netip.MustParsePrefix("10.200.0.0/24")
	wireAddrs    = [2]netip.Addr{netip.MustParseAddr("10.200.0.1"), netip.MustParseAddr("10.200.0.2")}
	wireMACs     = [2]net.HardwareAddr{{0x0a, 0x76, 1, 0, 0, 1}, {0x0a, 0x76, 1, 0, 0, 2}}
)

// Up raises a lab. When it fails or ctx ends in the middle, what was built is
// taken down again. Errors that the user can do something about are for a user.
func Up(ctx context.Context, o Options) (*Lab, error) {
	if o.Name == "" {
		o.Name = DefaultName
	}
	if o.Wire == (Wire{}) {
		o.Wire = DefaultWire()
	}
	arms, err := o.check()
	if err != nil {
		return nil, err
	}
	claim, err := NewClaim(ctx, o.Name)
	if err != nil {
		return nil, err
	}
	l := &Lab{Name: o.Name, Wire: o.Wire.String(), Services: o.Services, claim: claim}
	if l.writer, err = change.Owned(o.Name); err == nil {
		err = l.build(ctx, o, arms)
	}
	if err != nil {
		return nil, errors.Join(err, l.Down())
	}
	if o.Keep {
		claim.Release()
	}
	return l, nil
}

// Check tells whether such a lab can be raised here, and makes nothing.
func (o Options) Check() error {
	_, err := o.check()
	return err
}

// check refuses what cannot be raised, before anything is made.
func (o *Options) check() ([]path.Arm, error) {
	arms, err := path.Arms(o.Paths)
	if err != nil {
		return nil, err
	}
	if err := checkServices(o.Services); err != nil {
		return nil, err
	}
	if err := needRoot("cannot raise a lab"); err != nil {
		return nil, err
	}
	if err := feature.Require("cannot raise a lab", feature.Veth); err != nil {
		return nil, err
	}
	for _, arm := range arms {
		if err := arm.Driver.Check(); err != nil {
			return nil, err
		}
	}
	if o.Services > 0 {
		return arms, feature.Require("cannot write the rules of Services", feature.NAT)
	}
	return arms, nil
}

func (l *Lab) build(ctx context.Context, o Options, arms []path.Arm) error {
	b := builder{lab: l}
	defer b.close() // an open handle would keep a namespace beyond its deletion
	steps := []func(context.Context, Options) error{
		b.machines,
		b.wire,
		func(ctx context.Context, _ Options) error { return b.paths(ctx, o.Wire, arms) },
		b.services,
		b.agents,
	}
	for _, step := range steps {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("raise lab %s: %w", l.Name, err)
		}
		if err := step(ctx, o); err != nil {
			return fmt.Errorf("raise lab %s: %w", l.Name, err)
		}
	}
	l.claim.state.Lab, l.claim.state.Kept = l, o.Keep
	return l.claim.save()
}

// Down takes the lab down: agents, everything else that runs in its
// namespaces, the namespaces, the folder. Doing it again does nothing.
func (l *Lab) Down() error {
	l.stopAgents()
	// Not bound to a context: when a run was interrupted, this still has to be done.
	return withTable(context.Background(), func() error {
		defer l.claim.Release()
		return demolish(l.Name)
	})
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
