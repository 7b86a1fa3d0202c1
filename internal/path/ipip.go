package path

import (
	"context"
	"fmt"
	"net/netip"

	"golang.org/x/net/ipv4"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/verr"
)

// ipip is routed with a second IP header on the way between machines, as Calico
// with ipipMode Always or CrossSubnet: one device without another end on each
// machine, and routes to the other machines' blocks by it whose next hop, the
// other machine, is where the outer header leads. As with Calico the pods' MTU
// leaves room for that header on all ways, also those that go without it.
//
// The machines of a lab are in one subnet, so mode=cross-subnet puts no header
// on there, unless subnets says that they are dealt out to several: then each
// has for this path an address in the subnet of its own, and the wire stands
// for the router between them. It adds no hop, as switches that route do not.
var ipip = Driver{
	Name:    "ipip",
	Summary: "as routed, with a second IP header between the machines (IPIP)",
	Example: "Calico with IPIP",
	Options: []Option{
		choice("mode", []string{ipipAlways, ipipCross}, ipipAlways,
			"between which machines packets get the header: all, or only those in different subnets"),
		number("subnets", 1, maxSubnets, "1", "subnets, which the machines join in turn: m1 the first, m2 the second"),
		mtu,
	},
	CheckHosts: ipipCheckHosts,
	// The two machines between which is measured are in two subnets if there are
	// two.
	Overhead: func(v Values) int {
		if v["mode"] == ipipCross && v.Int("subnets") == 1 {
			return 0
		}
		return ipipOverhead
	},
	MTU:   func(wire int, _ Values) int { return wire - ipipOverhead },
	Needs: func(Values) []feature.Need { return []feature.Need{feature.IPIP} },
	Up: func(ctx context.Context, s *Site) (Ends, error) {
		return s.onePod(ctx, s.routedPod, s.ipipUnderlay, s.ipipDevice)
	},
}

const (
	ipipAlways   = "always"
	ipipCross    = "cross-subnet"
	ipipOverhead = ipv4.HeaderLen
	maxSubnets   = 16
)

// ipipCheckHosts: a subnet is as large as a block.
func ipipCheckHosts(a Arm, hosts int) error {
	const room = blockSize - 2
	subnets := a.Options.Int("subnets")
	if subnets == 1 || hosts <= subnets*room {
		return nil
	}
	return verr.New(verr.Usage, fmt.Sprintf("cannot raise path %s with subnets=%d on %d machines", a.Name, subnets, hosts),
		fmt.Sprintf("a subnet has room for %d", room),
		fmt.Sprintf("give subnets=%d or more, or subnets=1, the subnet of the wire", (hosts+room-1)/room))
}

// ipipNode is the address of a machine that the arm's outer headers have, in
// its subnet.
func (s *Site) ipipNode(i int) netip.Prefix {
	if subnets := s.Options.Int("subnets"); subnets > 1 {
		subnet := s.blockIn(Tunnels, i%subnets)
		return netip.PrefixFrom(nthAddr(subnet, 1+i/subnets), blockBits)
	}
	return netip.PrefixFrom(s.nodeAddr(i), Tunnels.Bits())
}

// ipipInOneSubnet tells whether two machines are.
func (s *Site) ipipInOneSubnet(i, j int) bool {
	subnets := s.Options.Int("subnets")
	return i%subnets == j%subnets
}

// ipipUnderlay gives a machine its address, and tells it where those of the
// others are.
func (s *Site) ipipUnderlay(i int) error {
	m, own := s.Machines[i], s.ipipNode(i)
	if own.Addr() == m.Addr {
		return nil
	}
	if err := m.In.AddAddr(m.Wire, own); err != nil {
		return err
	}
	known := map[netip.Prefix]bool{own.Masked(): true}
	for j, other := range s.otherMachines(i) {
		there := s.ipipNode(j)
		if subnet := there.Masked(); !known[subnet] {
			if err := m.In.AddRoute(netcfg.Route{Dst: subnet, Device: m.Wire}); err != nil {
				return err
			}
			known[subnet] = true
		}
		// As the lab does for the addresses on the wire: see addOuterAddr.
		if err := m.In.AddNeighbour(m.Wire, there.Addr(), other.MAC); err != nil {
			return err
		}
	}
	return nil
}

func (s *Site) ipipTunnel() string { return fmt.Sprintf("ipip%d", s.Index) }

// ipipDevice makes the device of one machine and the routes to the blocks of
// the others. A namespace can have one such device for each local address.
func (s *Site) ipipDevice(i int) error {
	m, device := s.Machines[i], s.ipipTunnel()
	err := m.In.AddIPIP(netcfg.IPIP{Name: device, MTU: s.MTU, Local: s.ipipNode(i).Addr(), Device: m.Wire})
	if err != nil {
		return err
	}
	// The machine's own packets to pods come from here: it is one of its block.
	if err := m.In.AddAddr(device, hostPrefix(s.block(i).Addr())); err != nil {
		return err
	}
	for j := range s.otherMachines(i) {
		route := netcfg.Route{Dst: s.block(j), Via: s.ipipNode(j).Addr(), Device: device, OnLink: true}
		if s.Options["mode"] == ipipCross && s.ipipInOneSubnet(i, j) {
			route.Device, route.OnLink = m.Wire, false
		}
		if err := m.In.AddRoute(route); err != nil {
			return err
		}
	}
	return nil
}
