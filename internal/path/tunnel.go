package path

import (
	"net"
	"net/netip"

	"github.com/venturi-net/venturi/internal/netcfg"
)

// What drivers of the kernel's tunnels share: their outer addresses, and the routes to
// the pods behind them.

// tunnelAddr is the outer address of the n-th of an arm's tunnels on a machine. A single
// tunnel has the machine's address on the wire, as Flannel's does; several have addresses
// of their own.
func (s *Site) tunnelAddr(i, n, tunnels int) netip.Addr {
	if tunnels == 1 {
		return s.Machines[i].Addr
	}
	return s.outer(i, n)
}

// nodeAddr is the outer address of all of an arm's packets from a machine: the machine's
// address on the wire for the first arm of its driver, one of their own for the others.
func (s *Site) nodeAddr(i int) netip.Addr {
	if s.Nth == 0 {
		return s.Machines[i].Addr
	}
	return s.outer(i, 0)
}

// addOuterAddr gives a machine the outer address that addrOf says it has, unless that is
// the one that it has on the wire, and tells it where those of the other machines are.
func (s *Site) addOuterAddr(i int, addrOf func(machine int) netip.Addr) error {
	m, local := s.Machines[i], addrOf(i)
	if local == m.Addr {
		return nil
	}
	if err := m.In.AddAddr(m.Wire, netip.PrefixFrom(local, Tunnels.Bits())); err != nil {
		return err
	}
	// As the lab does for the addresses on the wire: to ask for one would take
	// time out of the first measurement, and now and then of another.
	for j, other := range s.otherMachines(i) {
		if err := m.In.AddNeighbour(m.Wire, addrOf(j), other.MAC); err != nil {
			return err
		}
	}
	return nil
}

// routeBehind routes pods of another machine by a tunnel's device: hop is an address of
// that device's other end, and mac its MAC.
func (s *Site) routeBehind(i int, pods netip.Prefix, device string, hop netip.Addr, mac net.HardwareAddr) error {
	in := s.Machines[i].In
	if err := in.AddNeighbour(device, hop, mac); err != nil {
		return err
	}
	return in.AddRoute(netcfg.Route{Dst: pods, Via: hop, Device: device, OnLink: true})
}
