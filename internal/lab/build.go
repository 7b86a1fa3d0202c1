package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/path"
)

// builder holds the namespaces of a lab open while it is being built.
type builder struct {
	lab       *Lab
	keep      bool
	machine   []*netcfg.Namespace // by index; nil: another host's
	peers     []path.Machine      // as drivers see them
	oui       [2]byte             // of all MACs
	joinCards func(name string, ends []netcfg.VethEnd, senders func(machine int) []net.HardwareAddr) error
	wired     Wire
	cores     Cores
	unsteered error // why no softirqs are steered to them

	mu           sync.Mutex // paths are built at once, and all they ask for is noted here
	toClose      []*netcfg.Namespace
	spaces       []*netcfg.Namespace // of switches
	fabric       *netcfg.Namespace   // nil as long as there is none
	foreignPaths map[host.NamespaceID]string
}

func (b *builder) close() {
	for _, n := range b.toClose {
		n.Close()
	}
}

// baseSettings is how every namespace of a lab begins. A new one takes some of its
// settings from the machine's own, and a measurement must not depend on those.
var baseSettings = []netcfg.Sysctl{
	// A machine whose default is bbr would measure that algorithm's timers;
	// reno is the one that every kernel has and every namespace may use.
	{Name: "net.ipv4.tcp_congestion_control", Value: "reno"},
	// Connections rest while the other paths have their turn.
	{Name: "net.ipv4.tcp_slow_start_after_idle", Value: "0"},
	// No memory of earlier connections to the same address.
	{Name: "net.ipv4.tcp_no_metrics_save", Value: "1"},
	{Name: "net.ipv4.conf.all.rp_filter", Value: "0"},
	{Name: "net.ipv4.conf.default.rp_filter", Value: "0"},
	// Where the host has br_netfilter, a new namespace lets all that a bridge forwards go through the
	// packet filter, which the paths over a bridge would pay for there alone. See [builder.services].
	{Name: "net.bridge.bridge-nf-call-iptables", Value: "0", Optional: true},
	{Name: "net.bridge.bridge-nf-call-ip6tables", Value: "0", Optional: true},
	{Name: "net.bridge.bridge-nf-call-arptables", Value: "0", Optional: true},
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
func (b *builder) create(rest string) (*netcfg.Namespace, error) {
	n, err := b.lab.writer.Create(b.lab.writer.Name(rest))
	if err != nil {
		return nil, err
	}
	b.confine(n, rest)
	b.mu.Lock()
	b.toClose = append(b.toClose, n)
	b.mu.Unlock()
	return n, n.Sysctl(baseSettings...)
}

func (b *builder) machines(ctx context.Context, o Options) error {
	for i := range o.Hosts {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := b.create(machineName(i))
		if err != nil {
			return err
		}
		if i == 0 {
			if err := b.lab.claim.guard(n); err != nil {
				return err
			}
		}
		b.machine = append(b.machine, n)
		b.lab.Machines = append(b.lab.Machines, Machine{Name: machineName(i), Namespace: n.Path(), Addr: wireAddr(wireNet, i)})
	}
	return nil
}

// wire joins the machines, and tells each where the others are.
func (b *builder) wire(ctx context.Context, o Options) error {
	b.wired = o.Wire
	b.oui, b.joinCards = labOUI, func(name string, ends []netcfg.VethEnd, _ func(int) []net.HardwareAddr) error {
		return b.join(name, ends)
	}
	ends := make([]netcfg.VethEnd, len(b.machine))
	for i, n := range b.machine {
		ends[i] = netcfg.VethEnd{In: n, Name: WireDevice, MAC: wireMAC(labOUI, i)}
		b.peers = append(b.peers, path.Machine{
			Name: machineName(i), In: n, Wire: WireDevice, MAC: ends[i].MAC, Addr: wireAddr(wireNet, i), MTU: o.Wire.MTU,
		})
	}
	err := error(nil)
	if o.StackWire != nil {
		err = o.StackWire(ends, b.join)
	} else {
		err = b.join(WireDevice, ends)
	}
	if err != nil {
		return err
	}
	return b.addressWire(ctx, wireNet)
}

// addressWire gives the machines that are here their addresses on the wire, and tells
// each where the others are.
func (b *builder) addressWire(ctx context.Context, network netip.Prefix) error {
	for i, m := range b.peers {
		if err := ctx.Err(); err != nil {
			return err
		}
		if m.In == nil {
			continue
		}
		if err := m.In.AddAddr(WireDevice, netip.PrefixFrom(m.Addr, network.Bits())); err != nil {
			return err
		}
		for j, other := range b.peers {
			if j == i {
				continue
			}
			if err := m.In.AddNeighbour(WireDevice, other.Addr, other.MAC); err != nil {
				return err
			}
		}
	}
	return nil
}

// join makes a network card for each end and joins them: two by a cable, more
// by a switch, which is a bridge of that name in a namespace of its own. It
// makes sure that the cards are what the wire was asked to be.
func (b *builder) join(name string, ends []netcfg.VethEnd) error {
	if len(ends) == 2 {
		if err := netcfg.AddVeth(ends[0], ends[1], b.wired.MTU); err != nil {
			return err
		}
		if err := b.setOffloads(ends...); err != nil {
			return err
		}
		return b.steer(ends...)
	}
	fabric, err := b.fabricNetns()
	if err != nil {
		return err
	}
	if err := fabric.AddBridge(name, nil, b.wired.MTU); err != nil {
		return err
	}
	for i, end := range ends {
		// The kernel merges what a card receives only when the other side of the
		// cable does not, so the switch's ports are like the cards.
		port := netcfg.VethEnd{In: fabric, Name: fmt.Sprintf("%s.%d", name, i+1)}
		if err := netcfg.AddVeth(end, port, b.wired.MTU); err != nil {
			return err
		}
		if err := fabric.Enslave(port.Name, name, false); err != nil {
			return err
		}
		if err := b.setOffloads(end, port); err != nil {
			return err
		}
	}
	// The ports are the switch's, which receives on the sender's core.
	return b.steer(ends...)
}

// setOffloads lets devices have the offloads of the wire, and its bounds.
func (b *builder) setOffloads(ends ...netcfg.VethEnd) error {
	for _, end := range ends {
		err := end.In.Features(end.Name, b.wired.features())
		if err == nil && b.wired.GSOMax != maxGSO {
			err = end.In.SetGSOMaxSize(end.Name, b.wired.GSOMax)
		}
		if err != nil {
			return fmt.Errorf("make wire %s: %w", b.wired, err)
		}
	}
	return nil
}

// steer lets the cores of the machines carry what their cards receive.
func (b *builder) steer(ends ...netcfg.VethEnd) error {
	isolatedCPUs := host.Reader{}.IsolatedCPUs()
	for _, end := range ends {
		cpus, err := b.wired.receiveCPUs(end.In.CPUs(), isolatedCPUs)
		if err == nil && len(cpus) > 0 {
			err = end.In.SteerReceive(end.Name, cpus)
		}
		isolated := errors.Is(err, netcfg.ErrIsolated)
		switch {
		case b.wired.RSS == RSSNone && (isolated || errors.Is(err, netcfg.ErrNoRPS)): // only for the machine's cores
			b.mu.Lock()
			b.unsteered = err
			b.mu.Unlock()
		case isolated:
			return badRSS(b.wired, err.Error())
		case err != nil:
			return fmt.Errorf("make wire %s: %w", b.wired, err)
		}
	}
	return nil
}

// fabricNetns is the namespace of the switches between machines. The wire is its
// first user, before paths are built at once.
func (b *builder) fabricNetns() (n *netcfg.Namespace, err error) {
	if b.fabric == nil {
		b.fabric, err = b.create("fabric")
	}
	return b.fabric, err
}
