package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

var rssIgnoresPorts = Rule{
	Facts: Facts{
		Code:     "rss-ignores-ports",
		Title:    "All packets of a tunnel arrive on one queue of the card",
		Severity: Warning,
		Looks:    "the receive hash of a card with several queues that a tunnel over UDP uses, itself or through a bond, VLAN, bridge or switch: addresses only. Tunnels put the flow into the source port",
		Effect:   Impact{"VXLAN reached 2 to 3 of 10 Gbit/s with hashes of addresses only (ixgbe)", "Cumulus knowledge base", "B"},
		Knob:     "nic.rss_udp", Value: "sdfn",
		Do: "fragments of UDP packets may then be reordered",
	},
	Check: func(v *View) (all []Finding) {
		for _, s := range v.Netns {
			under := s.tunnelCards()
			for _, index := range slices.Sorted(maps.Keys(under)) {
				d, tunnel := s.device(index), under[index]
				if !d.Card || d.Queues < 2 || tunnel.Tunnel.Port == 0 {
					continue
				}
				path := Evidence{"path of " + tunnel.Name, fmt.Sprintf("UDP port %d, received by %s with %d queues", tunnel.Tunnel.Port, d.Name, d.Queues)}
				read := "ethtool receive hash of " + d.Name + " for udp4"
				switch {
				case d.UDPHash == nil:
					f := finding(s, d, Evidence{read, "could not tell: the driver does not say"}, path)
					f.Severity = Note
					f.Do = "if the card does not take it, as a virtio card whose host offers no RSS, spread packets by software: venturi knob set net.rps all --dev DEVICE"
					all = append(all, f)
				case !slices.Contains(d.UDPHash, "sport"):
					all = append(all, finding(s, d, Evidence{read, strings.Join(d.UDPHash, ", ")}, path))
				}
			}
		}
		return all
	},
}
