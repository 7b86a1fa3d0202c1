package lab

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/venturi-net/venturi/internal/change"
	"github.com/venturi-net/venturi/internal/machine"
	"github.com/venturi-net/venturi/internal/path"
)

// builder holds the namespaces of a lab open while it is being built.
type builder struct {
	lab     *Lab
	machine [2]*change.Namespace
	toClose []*change.Namespace
}

func (b *builder) close() {
	for _, n := range b.toClose {
		n.Close()
	}
}

// base is how every namespace of a lab begins. A new one takes some of its
// settings from the machine's own, and a measurement must not depend on those.
var base = []change.Setting{
	// A machine whose default is bbr would measure that algorithm's timers;
	// reno is the one that every kernel has and every namespace may use.
	{Name: "net.ipv4.tcp_congestion_control", Value: "reno"},
	// Connections rest while the other paths have their turn.
	{Name: "net.ipv4.tcp_slow_start_after_idle", Value: "0"},
	// No memory of earlier connections to the same address.
	{Name: "net.ipv4.tcp_no_metrics_save", Value: "1"},
	{Name: "net.ipv4.conf.all.rp_filter", Value: "0"},
	{Name: "net.ipv4.conf.default.rp_filter", Value: "0"},
	// IPv6 stays there for sockets, but devices get no address of it, so none
	// of its background chatter is on a wire.
	{Name: "net.ipv6.conf.all.addr_gen_mode", Value: "1", Optional: true},
	{Name: "net.ipv6.conf.default.addr_gen_mode", Value: "1", Optional: true},
	{Name: "net.ipv6.conf.default.accept_ra", Value: "0", Optional: true},
	{Name: "net.ipv6.conf.default.autoconf", Value: "0", Optional: true},
	{Name: "net.ipv6.conf.default.router_solicitations", Value: "0", Optional: true},
	{Name: "net.ipv6.conf.default.dad_transmits", Value: "0", Optional: true},
}

// create makes a namespace with the base settings.
func (b *builder) create(rest string) (*change.Namespace, error) {
	n, err := b.lab.writer.Create(b.lab.writer.Name(rest))
	if err != nil {
		return nil, err
	}
	b.toClose = append(b.toClose, n)
	return n, n.Sysctl(base...)
}

func (b *builder) machines(context.Context, Options) (err error) {
	for i, name := range machineNames {
		if b.machine[i], err = b.create(name); err != nil {
			return err
		}
		b.lab.Machines[i] = Machine{Name: name, Namespace: b.machine[i].Path(), Addr: wireAddrs[i]}
	}
	return nil
}

// wire joins the machines, and makes sure that the wire is what was asked for.
func (b *builder) wire(_ context.Context, o Options) error {
	err := change.AddVeth(
		change.VethEnd{In: b.machine[0], Name: wireDevice, MAC: wireMACs[0]},
		change.VethEnd{In: b.machine[1], Name: wireDevice, MAC: wireMACs[1]}, o.Wire.MTU)
	if err != nil {
		return err
	}
	for i, n := range b.machine {
		if err := n.Features(wireDevice, o.Wire.features()); err != nil {
			return fmt.Errorf("make wire %s: %w", o.Wire, err)
		}
		if err := n.AddAddr(wireDevice, netip.PrefixFrom(wireAddrs[i], wireNet.Bits())); err != nil {
			return err
		}
		if err := n.AddNeighbour(wireDevice, wireAddrs[1-i], wireMACs[1-i]); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) paths(ctx context.Context, wire Wire, arms []path.Arm) error {
	for _, arm := range arms {
		if err := ctx.Err(); err != nil {
			return err
		}
		site := &path.Site{Arm: arm.Name, Index: arm.Index, Nth: arm.Nth}
		for i, n := range b.machine {
			site.Machines[i] = path.Machine{
				Name: machineNames[i], In: n, Wire: wireDevice, Addr: wireAddrs[i], MTU: wire.MTU,
			}
		}
		site.Pod = func(i int) (*change.Namespace, error) { return b.pod(i, arm.Name) }
		from, to, err := arm.Driver.Up(ctx, site)
		if err != nil {
			return fmt.Errorf("raise path %s: %w", arm.Name, err)
		}
		b.lab.Arms = append(b.lab.Arms, Arm{
			Name: arm.Name, Path: arm.Driver.Name, Overhead: arm.Driver.Overhead, From: from, To: to,
		})
	}
	return nil
}

func (b *builder) pod(i int, arm string) (*change.Namespace, error) {
	name := machineNames[i] + "." + arm
	n, err := b.create(name)
	if err != nil {
		return nil, err
	}
	m := &b.lab.Machines[i]
	m.Pods = append(m.Pods, machine.Named{Name: m.Name + "/" + arm, Path: n.Path()})
	return n, nil
}
