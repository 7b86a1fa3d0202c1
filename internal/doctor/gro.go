package doctor

import (
	"slices"

	"github.com/venturi-net/venturi/internal/host"
)

const (
	groFeature = "rx-gro"
	lroFeature = "rx-lro"
)

var groOff = Rule{
	Facts: Facts{
		Code:     "gro-off",
		Title:    "Received packets are not merged",
		Severity: Warning,
		Looks:    "GRO of cards and tunnels, and of a veth that carries tunnels and receives segmented packets: off. A veth is created without it, and needs none where packets arrive whole",
		Effect:   Impact{"each packet of 1,500 bytes goes up the stack alone: several times more CPU per received byte; through a TUN device 2.9 became 12.5 Gbit/s with merging for UDP", "wireguard-go, as an analogy; kernel documentation of segmentation offloads", "B"},
		Knob:     "nic.gro", Value: "on",
		Do: "some eBPF programs want small packets (Calico's bpfDisableGROForIfaces)",
	},
	Check: func(v *View) []Finding {
		return eachDevice(v, func(s *Netns, d *host.NetDevice) []Finding {
			if len(disabledFeatures(d, groFeature)) == 0 {
				return nil
			}
			found := []Evidence{features(d, groFeature)}
			if !d.Card && d.Tunnel == nil {
				why, merges := v.comesCut(s, d)
				if !merges {
					return nil
				}
				found = append(found, why)
			}
			return []Finding{finding(s, d, found...)}
		})
	},
}

// comesCut tells why a veth would do well to merge what it receives.
func (v *View) comesCut(s *Netns, d *host.NetDevice) (Evidence, bool) {
	_, peer := v.peer(s, d)
	tunnel := s.tunnelCarriers()[d.Index]
	if peer == nil || tunnel == nil {
		return Evidence{}, false
	}
	if tso := peer.Features[tsoFeature]; tso.Settable && !tso.On {
		return Evidence{"ethtool features of " + peer.Name + ", its other end", tsoFeature + ": off, so packets come cut; " + tunnel.Name + " receives by it"}, true
	}
	if peer.Features[groFeature].On {
		return Evidence{"ethtool features of " + peer.Name + ", its other end", groFeature + ": on; " + tunnel.Name + " receives by it"}, true
	}
	return Evidence{}, false
}

var lroForwarding = Rule{
	Facts: Facts{
		Code:     "lro-forwarding",
		Title:    "A card merges packets in a way that forwarding cannot undo",
		Severity: Error,
		Looks:    "LRO on a card that is a port of a bridge or switch, itself or below a bond or VLAN, or in a namespace that forwards",
		Effect:   Impact{"merged packets are larger than the MTU of the next device, and are dropped", "kernel documentation: LRO must be off where packets are forwarded or bridged; the kernel switches it off, so somebody switched it on again", "C"},
		Knob:     "nic.lro", Value: "off",
	},
	Check: func(v *View) []Finding {
		return eachDevice(v, func(s *Netns, d *host.NetDevice) []Finding {
			if !d.Features[lroFeature].On {
				return nil
			}
			port, bridge := s.bridgePort(d)
			if !s.forwards() && port == nil {
				return nil
			}
			found := []Evidence{features(d, lroFeature)}
			if s.forwards() {
				found = append(found, sysctl("net.ipv4.ip_forward", s.Sysctls))
			}
			if port != nil {
				found = append(found, Evidence{"master of " + port.Name, bridge.Name + " (" + bridge.Kind + ")"})
			}
			return []Finding{finding(s, d, found...)}
		})
	},
}

// bridgePort gives the port of a bridge or switch that is a device, or stands on it, and
// the bridge; nil: there is none. The ports of a bond may merge what the machine itself receives.
func (s *Netns) bridgePort(d *host.NetDevice) (port, bridge *host.NetDevice) {
	for i := range s.Devices {
		port, bridge = &s.Devices[i], s.device(s.Devices[i].Master)
		if bridge != nil && (bridge.Kind == "bridge" || bridge.Kind == "openvswitch") && slices.Contains(s.lowerDevices(port), d) {
			return port, bridge
		}
	}
	return nil, nil
}
