package path

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/ovs"
)

// ovsTunnelOptions are those of the tunnels of Open vSwitch.
func ovsTunnelOptions(port string) []Option {
	return ovsOptions(
		number("tunnels", 1, maxPods, "1", "tunnels, each between outer addresses and pods of its own; flows are distributed over them"),
		number("vni", 1, maxVNI, "1", "virtual network identifier, of all tunnels"),
		number("udp-port", 1, 65535, port, "destination UDP port of the tunnels"),
		onOff("csum", "off", "compute the checksum of the outer UDP header"),
	)
}

// ovsTunnel is a path over tunnels of one kind, as the switch calls it.
func ovsTunnel(kind string) func(context.Context, *Site) (Ends, error) {
	return func(ctx context.Context, s *Site) (Ends, error) { return ovsTunnelVariant(s, kind).up(ctx, s) }
}

func ovsTunnelVariant(s *Site, kind string) ovsVariant {
	return ovsVariant{
		pods:   s.Options.Int("tunnels"),
		uplink: func(h *ovsHost) (ovs.Port, []ovs.Bridge) { return h.tunnelPort(kind), h.underlay() },
		join:   func(ctx context.Context, h *ovsHost) error { return h.tunnelAddrs(ctx, s.Options.Int("tunnels")) },
		flows:  (*ovsHost).tunnelFlows,
	}
}

// tunnelPort is one port for all tunnels: flows say where each packet goes.
func (h *ovsHost) tunnelPort(kind string) ovs.Port {
	return ovs.Port{Name: "tunnel0", Type: kind, Number: ovsUplink, Options: map[string]string{
		"remote_ip": "flow",
		"key":       h.Options["vni"],
		"dst_port":  h.Options["udp-port"],
		"csum":      strconv.FormatBool(h.Options.Enabled("csum")),
	}}
}

// underlay is what carries the tunnels of the daemon's datapath: a bridge that
// has the card, and whose own port has the outer addresses. The kernel's needs
// none.
func (h *ovsHost) underlay() []ovs.Bridge {
	if !h.daemon {
		return nil
	}
	return []ovs.Bridge{{
		Name: ovsUnderlay, Datapath: ovsDaemon, MAC: h.tunnelMAC(h.machine, 0), Ports: []ovs.Port{ovsCardPort()},
	}}
}

// tunnelAddrs gives the switch the outer addresses of its tunnels, and tells it
// where those of the others are.
func (h *ovsHost) tunnelAddrs(ctx context.Context, tunnels int) error {
	device := ovsCard
	if h.daemon {
		device = ovsUnderlay
		if err := h.in.Up(device); err != nil {
			return err
		}
		err := h.sw.AddFlows(ctx, ovsUnderlay,
			fmt.Sprintf("in_port=%d,actions=LOCAL", ovsUplink), fmt.Sprintf("in_port=LOCAL,actions=output:%d", ovsUplink))
		if err != nil {
			return err
		}
		// The card is the switch's: the kernel does not answer there for addresses
		// that are behind the switch.
		err = h.in.Sysctl(netcfg.Sysctl{Name: "net/ipv4/conf/" + ovsCard + "/arp_ignore", Value: "8"})
		if err != nil {
			return err
		}
	}
	for n := range tunnels {
		if err := h.in.AddAddr(device, netip.PrefixFrom(h.outer(h.machine, n), Tunnels.Bits())); err != nil {
			return err
		}
	}
	for j := range h.otherMachines(h.machine) {
		for n := range tunnels {
			if err := h.tunnelPeer(ctx, device, j, n); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *ovsHost) tunnelPeer(ctx context.Context, device string, j, n int) error {
	if h.daemon {
		return h.sw.Reach(ctx, device, h.outer(j, n), h.tunnelMAC(j, 0))
	}
	return h.in.AddNeighbour(device, h.outer(j, n), h.mac(j, roleCard))
}

// tunnelFlows: what comes for an outer address goes to its pod; what a pod
// sends goes to the same tunnel's address on the other machine. It leaves from
// the first of the own addresses, as the route says, since no flow sets another.
func (h *ovsHost) tunnelFlows() (flows []string) {
	for n := range h.Options.Int("tunnels") {
		pod := ovsFirstPod + n
		flows = append(flows, fmt.Sprintf("in_port=%d,tun_dst=%s,actions=output:%d", ovsUplink, h.outer(h.machine, n), pod))
		for j := range h.otherMachines(h.machine) {
			match := fmt.Sprintf("in_port=%d", pod)
			if len(h.Machines) > 2 {
				// There is more than one machine that it may be for.
				match += fmt.Sprintf(",ip,nw_dst=%s", h.podAddr(j, n))
			}
			flows = append(flows, fmt.Sprintf("%s,actions=set_field:%s->tun_dst,output:%d", match, h.outer(j, n), ovsUplink))
		}
	}
	return flows
}
