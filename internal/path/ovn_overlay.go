package path

import (
	"context"
	"net/netip"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/ovn"
)

// ovnOverlay is OVN over Geneve. The subnet has a router as its gateway, as
// the first subnet of Kube-OVN has; pods of one subnet do not pass it.
var ovnOverlay = Driver{
	Name:     "ovn-overlay",
	Summary:  "pods on a logical switch of OVN, Geneve between the machines",
	Example:  "Kube-OVN's overlay",
	OneHost:  true,
	OwnCard:  true,
	Options:  ovnOptions("on", onOff("csum", "on", "compute the checksum of the outer UDP header")),
	Resolve:  ovsSettle,
	Overhead: func(Values) int { return geneveOverhead + ovnOption },
	MTU:      ovsMTU(geneveOverhead + ovnOption),
	MinMTU:   ovnLeast,
	Needs:    func(v Values) []feature.Need { return ovnNeeds(v, feature.Geneve) },
	Up: func(ctx context.Context, s *Site) (Ends, error) {
		gateway, gatewayMAC := s.gateway(0), s.mac(0, roleGateway)
		return ovnVariant{
			network: ovn.Network{Router: &ovn.Router{MAC: gatewayMAC, Addr: netip.PrefixFrom(gateway, Pods.Bits())}},
			bridges: (*ovsHost).underlay,
			join:    func(ctx context.Context, h *ovsHost) error { return h.tunnelAddrs(ctx, 1) },
			pod: func(pod *netcfg.Namespace, device string) error {
				if err := pod.AddNeighbour(device, gateway, gatewayMAC); err != nil {
					return err
				}
				return pod.AddRoute(netcfg.Route{Dst: defaultDst, Via: gateway, Device: device})
			},
			chassis: func(_ *ovsHost, c *ovn.Chassis) { c.Csum = s.Options.Enabled("csum") },
		}.up(ctx, s)
	},
}

// ovnOption is the Geneve option by which OVN says between which logical ports
// a packet is: a header and a value, 4 bytes each.
const ovnOption = 8
