package path

import (
	"context"
	"fmt"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// vxlanDev is a vxlan device on the machine itself, with the address on it: no
// bridge, no pod, no forwarding. What it costs beyond the host network is the
// encapsulation alone.
var vxlanDev = Driver{
	Name:        "vxlan-dev",
	Summary:     "a kernel vxlan device on the machine itself: encapsulation alone",
	Example:     "`ip link add type vxlan` between two hosts",
	Options:     vxlanOptions("4789", "UDP port; 4789 is the assigned one"),
	Resolve:     checkVNIs,
	KernelVXLAN: true,
	Overhead:    func(Values) int { return vxlanOverhead },
	Needs:       func(Values) []feature.Need { return []feature.Need{feature.VXLAN} },
	Up: func(ctx context.Context, s *Site) (Ends, error) {
		return s.buildMachines(ctx, func(i int) ([]host.Endpoint, error) {
			return eachPod(s.Options.Int("tunnels"), func(n int) (host.Endpoint, error) { return s.vxlanEnd(i, n) })
		})
	},
}

func (s *Site) vxlanEnd(i, n int) (host.Endpoint, error) {
	in := s.Machines[i].In
	end := s.podEndpoint(i, n, in)
	end.Device = fmt.Sprintf("vxlan%d.%d", s.Index, n)
	if err := s.vxlanDevice(i, n, end.Device); err != nil {
		return end, err
	}
	if err := in.AddAddr(end.Device, hostPrefix(end.Addr)); err != nil {
		return end, err
	}
	for j := range s.otherMachines(i) {
		there := s.podAddr(j, n)
		if err := in.AddNeighbour(end.Device, there, s.tunnelMAC(j, n)); err != nil {
			return end, err
		}
		if err := in.AddRoute(netcfg.Route{Dst: hostPrefix(there), Device: end.Device}); err != nil {
			return end, err
		}
	}
	return end, nil
}
