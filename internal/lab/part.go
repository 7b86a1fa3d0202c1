package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/internal/verr"
)

// A lab may be spread over real hosts: each builds its own machine, and the wire is the
// network that joins one card of each. All that a host needs to know of the others is
// computed or told: names, addresses and MACs.

// Part is what a host needs to know to raise its machine of such a lab.
type Part struct {
	Name     string        `json:"name"`
	Paths    []string      `json:"paths"`
	Names    []string      `json:"names"`
	Services int           `json:"services,omitempty"`
	Machines []PartMachine `json:"machines"`
	Self     int           `json:"own"` // which of the machines is on this host
	Card     SharedCard    `json:"card"`
	Net      netip.Prefix  `json:"net"` // of the machines' addresses on the wire
	MTU      int           `json:"mtu"` // of the wire, bytes
	OUI      [2]byte       `json:"oui"` // of all MACs, so that two labs in one network differ

	Program []string `json:"-"` // starts this very program
	Version string   `json:"-"` // of it
}

// PartMachine is a machine of a lab that is spread over hosts.
type PartMachine struct {
	Name string           `json:"name"`
	MAC  net.HardwareAddr `json:"mac,omitempty"` // of its device on the wire; nil: it is computed
}

// SharedCard is a network card of a host, which lends the lab a macvlan or an ipvlan, or
// itself.
type SharedCard struct {
	Device string `json:"device"`
	IPVLAN bool   `json:"ipvlan,omitempty"` // the network allows the card one MAC
	Take   bool   `json:"take,omitempty"`   // the card itself becomes the lab's, for as long as that is up
}

// CardState is what the others need to know of a host's card.
type CardState struct {
	MAC net.HardwareAddr `json:"mac"`
	MTU int              `json:"mtu"` // bytes
}

// String names the kind of device.
func (c SharedCard) String() string {
	if c.Take {
		return c.Device + " itself"
	}
	if c.IPVLAN {
		return c.Device + " by ipvlan"
	}
	return c.Device + " by macvlan"
}

// WireNet is the network of the machines' addresses when the user names none.
func WireNet() netip.Prefix { return wireNet }

// ParseNet reads the network of the addresses that so many machines have on the wire. Errors are for
// a user.
func ParseNet(text string, machines int) (netip.Prefix, error) {
	p, err := wireNet, error(nil)
	if text != "" {
		p, err = netip.ParsePrefix(text)
	}
	if err == nil {
		err = checkNet(p, machines)
	}
	if err != nil {
		return p, verr.Wrap(verr.Usage, fmt.Sprintf("cannot use --net %q", text), err, "name an unused network, such as "+wireNet.String())
	}
	return p.Masked(), nil
}

// specialNets are those whose addresses are none of a machine on a wire.
var specialNets = []struct {
	net  netip.Prefix
	what string
}{
	{path.Pods, "used for pods"},
	{path.Tunnels, "used for tunnels"},
	{netip.MustParsePrefix("0.0.0.0/8"), "which stands for no address"},
	{netip.MustParsePrefix("127.0.0.0/8"), "the loopback network"},
	{netip.MustParsePrefix("169.254.0.0/16"), "the link-local network"},
	{netip.MustParsePrefix("224.0.0.0/4"), "for multicast"},
}

func checkNet(p netip.Prefix, machines int) error {
	if !p.Addr().Is4() || p.Bits() > 29 || p.Bits() < 8 {
		return errors.New("it is not an IPv4 network of /8 to /29")
	}
	for _, s := range specialNets {
		if p.Overlaps(s.net) {
			return fmt.Errorf("it overlaps %s, %s", s.net, s.what)
		}
	}
	if most := 1<<(32-p.Bits()) - 2; machines > most { // without that of the network, and for broadcasts
		return fmt.Errorf("it has addresses for %d machines, and %d have network cards", most, machines)
	}
	return nil
}

// Inspect tells what others need to know of the card, and refuses one that cannot be
// shared. It changes nothing. Errors are for a user.
func (c SharedCard) Inspect(network netip.Prefix) (s CardState, err error) {
	refuse := func(why, do string) (CardState, error) {
		return s, verr.New(verr.Usage, "cannot build on network card "+c.Device, why, do)
	}
	links, err := host.Links()
	if err != nil {
		return s, err
	}
	var names []string
	for _, l := range links {
		a := l.Attrs()
		if a.Flags&net.FlagLoopback == 0 && len(a.HardwareAddr) == 6 {
			names = append(names, a.Name)
		}
		if a.Name != c.Device {
			continue
		}
		switch {
		case a.Flags&net.FlagLoopback != 0 || len(a.HardwareAddr) != 6:
			return refuse("it is no Ethernet device", "name a network card")
		case a.Flags&net.FlagUp == 0 && !c.Take:
			return refuse("it is down", "bring it up there: ip link set dev "+c.Device+" up")
		case a.MasterIndex != 0:
			return refuse("it is a port of a bridge, a bond or a switch", "name that device, or a card that belongs to none")
		}
		s = CardState{MAC: a.HardwareAddr, MTU: a.MTU}
	}
	if s.MAC == nil {
		return refuse("there is no such device", "name one of "+strings.Join(names, ", "))
	}
	addrs, err := host.Addresses()
	if err != nil {
		return s, err
	}
	for _, a := range addrs {
		if network.Contains(a.Addr) && !(c.Take && a.Device == c.Device) {
			return refuse(fmt.Sprintf("the network %s of the machines' addresses holds %s of this host", network, a), "give another network with --net")
		}
	}
	if c.Take {
		return s, c.checkTake()
	}
	return s, nil
}

// options are those of an ordinary lab.
func (p Part) options() Options {
	return Options{Name: p.Name, Paths: p.Paths, Names: p.Names, Hosts: len(p.Machines),
		Wire: Wire{MTU: p.MTU}, Services: p.Services, Program: p.Program}
}

// upPart raises this host's machine of a lab that is spread over hosts. When it fails or ctx
// ends in the middle, what was built is taken down again.
func upPart(ctx context.Context, p Part) (*Lab, error) {
	arms, err := p.check()
	if err != nil {
		return nil, err
	}
	o := p.options()
	return raise(ctx, o, func(b *builder) []step {
		return []step{
			func(context.Context, Options) error { return b.ownMachine(p) },
			func(ctx context.Context, _ Options) error { return b.realWire(ctx, p) },
			func(ctx context.Context, _ Options) error { return b.paths(ctx, o, arms) },
			b.services,
		}
	})
}

// check refuses what cannot be raised here, before anything is made. Errors are for a user.
func (p Part) check() ([]path.Arm, error) {
	o := p.options()
	arms, err := o.check()
	if err != nil {
		return nil, err
	}
	return arms, feature.Require("cannot build on network card "+p.Card.Device, p.needs(arms)...)
}

// needs is what the part's devices on the card need.
func (p Part) needs(arms []path.Arm) []feature.Need {
	switch {
	case p.Card.IPVLAN:
		return []feature.Need{feature.IPVLAN}
	case !p.Card.Take || slices.ContainsFunc(arms, func(a path.Arm) bool { return a.Driver.OwnCard }):
		return []feature.Need{feature.MACVLAN}
	}
	return nil
}

// ownMachine makes the machine that is on this host.
func (b *builder) ownMachine(p Part) error {
	b.machine = make([]*netcfg.Namespace, len(p.Machines))
	for i, m := range p.Machines {
		b.lab.Machines = append(b.lab.Machines, Machine{Name: m.Name, Addr: wireAddr(p.Net, i)})
	}
	n, err := b.create(p.Machines[p.Self].Name)
	if err != nil {
		return err
	}
	b.machine[p.Self], b.lab.Machines[p.Self].Namespace = n, n.Path()
	return b.lab.claim.guard(n)
}

// realWire makes the machine's device on the wire.
func (b *builder) realWire(ctx context.Context, p Part) error {
	b.lab.Wire = fmt.Sprintf("%s, mtu=%d", p.Card, p.MTU)
	b.oui = p.OUI
	for i, m := range p.Machines {
		peer := path.Machine{Name: m.Name, In: b.machine[i], Wire: WireDevice, MAC: m.MAC, Addr: wireAddr(p.Net, i), MTU: p.MTU}
		if peer.MAC == nil {
			peer.MAC = wireMAC(p.OUI, i)
		}
		b.peers = append(b.peers, peer)
	}
	own := b.peers[p.Self]
	b.joinCards = func(name string, ends []netcfg.VethEnd, senders func(int) []net.HardwareAddr) error {
		if p.Card.Take {
			return p.addCard(own.In, WireDevice, ends, senders)
		}
		return p.addCard(nil, p.Card.Device, ends, senders)
	}
	var err error
	if p.Card.Take {
		err = b.takeCard(ctx, p)
	} else {
		err = own.In.AddCard(nil, p.Card.Device, netcfg.Card{Name: WireDevice, IPVLAN: p.Card.IPVLAN, MAC: own.MAC, MTU: p.MTU})
	}
	if err != nil {
		return err
	}
	return b.addressWire(ctx, p.Net)
}

// addCard gives this host's machine one more device on its card, which is in a namespace of
// the lab, or with nil in the host's own.
func (p Part) addCard(in *netcfg.Namespace, card string, ends []netcfg.VethEnd, senders func(machine int) []net.HardwareAddr) error {
	own := ends[p.Self]
	c := netcfg.Card{Name: own.Name, MAC: own.MAC, MTU: p.MTU}
	if senders != nil {
		for i := range p.Machines {
			if i != p.Self {
				c.Senders = append(c.Senders, senders(i)...)
			}
		}
	}
	return own.In.AddCard(in, card, c)
}

// CheckSpread refuses paths that cannot be spread over hosts, or not by ipvlans. Errors are
// for a user.
func CheckSpread(arms []path.Arm, ipvlan bool) error {
	for _, a := range arms {
		what := "cannot raise path " + a.Name + " between real machines"
		switch d := a.Driver; {
		case d.OneHost:
			instead := "choose a path that can be built there, such as ovs-geneve or ovs-vlan"
			if d.InVMs {
				instead = "start the virtual machines yourself and name them as machines, as in --machines a=...,b=...,v1=ssh://root@VM1,v2=ssh://root@VM2 host host:v1,v2"
			}
			return verr.New(verr.Usage, what, "it needs machines that are namespaces of one host", instead+"; or measure it in a lab, without --machines")
		case ipvlan && (d.OwnCard || d.Overhead == nil && d.Name != "host"):
			return verr.New(verr.Usage, what+" by ipvlan", "an ipvlan device accepts only packets to its own addresses and the card's MAC address, and this path sends others",
				"choose a tunnel, such as vxlan or geneve, or share the card by macvlan if the network allows several MAC addresses")
		}
	}
	return nil
}
