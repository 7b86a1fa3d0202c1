package doctor

import (
	"fmt"

	"github.com/venturi-net/venturi/internal/host"
)

func mtuOf(s *Netns, d *host.NetDevice) Evidence {
	return Evidence{"MTU of " + d.Name + " in " + s.name(), fmt.Sprint(d.MTU)}
}

var mtuPair = Rule{
	Facts: Facts{
		Code:     "mtu-pair",
		Title:    "The two ends of a veth pair have different MTUs",
		Severity: Error,
		Looks:    "the MTUs of both ends of each veth or netkit pair, also where the ends are in different namespaces",
		Effect:   Impact{"what the larger end sends beyond the smaller MTU is silently dropped", "kernel: a veth drops what its other end would not accept; mismatches of pods in Calico issues 8868 and 5575", "B"},
		Knob:     "nic.mtu",
	},
	Check: func(v *View) []Finding {
		return eachDevice(v, func(s *Netns, d *host.NetDevice) []Finding {
			there, peer := v.peer(s, d)
			if peer == nil || !peer.Up || d.MTU <= peer.MTU {
				return nil
			}
			f := finding(s, d, mtuOf(s, d), mtuOf(there, peer))
			f.Value = fmt.Sprint(peer.MTU)
			return []Finding{f}
		})
	},
}

var mtuBridge = Rule{
	Facts: Facts{
		Code:     "mtu-bridge",
		Title:    "A bridge leads into a device with a smaller MTU than its other ports have",
		Severity: Error,
		Looks:    "the MTUs of all ports of a Linux bridge: a tunnel, card or other uplink with a smaller MTU than a port of a pod or virtual machine. Where only pods differ it is a note",
		Effect:   Impact{"a bridge silently drops what is too large for a port: connections hang as soon as they send much", "kernel: a bridge sends no message that a packet is too big; Calico issues 8868 and 5575", "B"},
		Knob:     "nic.mtu",
		Do:       "the MTU of the pods' own devices must go down with it",
	},
	Check: func(v *View) (all []Finding) {
		for _, s := range v.Netns {
			for i := range s.Devices {
				if b := &s.Devices[i]; b.Kind == "bridge" && b.Up {
					all = append(all, bridgeMTU(s, b)...)
				}
			}
		}
		return all
	},
}

// bridgeMTU compares the ports of a bridge: each that is too large is named.
func bridgeMTU(s *Netns, bridge *host.NetDevice) (all []Finding) {
	var least *host.NetDevice
	var ports []*host.NetDevice
	for i := range s.Devices {
		d := &s.Devices[i]
		if d.Master != bridge.Index || !d.Up {
			continue
		}
		ports = append(ports, d)
		if least == nil || d.MTU < least.MTU || d.MTU == least.MTU && isLeaf(least) {
			least = d
		}
	}
	for _, d := range ports {
		if d.MTU == least.MTU || !isLeaf(d) {
			continue
		}
		f := finding(s, d, mtuOf(s, d), mtuOf(s, least), Evidence{"ports of " + bridge.Name, d.Name + " and " + least.Name})
		f.Value = fmt.Sprint(least.MTU)
		if isLeaf(least) {
			f.Severity = Note
		}
		all = append(all, f)
	}
	return all
}

// isLeaf tells whether a pod or a virtual machine is behind a device.
func isLeaf(d *host.NetDevice) bool {
	return d.Kind == "veth" || d.Kind == "netkit" || isTap(d)
}

// isTap tells whether a program is behind a device, such as QEMU: it says which offloads
// of sending it takes, and nobody else can switch the others on.
func isTap(d *host.NetDevice) bool { return d.Kind == "tun" || d.Kind == "tuntap" }

var mtuTunnel = Rule{
	Facts: Facts{
		Code:     "mtu-tunnel",
		Title:    "A tunnel's packets do not fit into the device below",
		Severity: Error,
		Looks:    "the MTU of each tunnel, and what it adds, against the MTU of the device below. Where Open vSwitch chooses the tunnel for each packet, the MTUs of the switch's ports",
		Effect:   Impact{"every full packet is fragmented, or lost: an overlay adds 50 bytes (VXLAN, Geneve without options) or 20 (IPIP), and 20 more over IPv6", "kernel documentation; no isolated number was found", "C"},
		Knob:     "nic.mtu",
		Do:       "the MTU of the pods' devices must go down with it, or raise that of the device below",
	},
	Check: func(v *View) []Finding {
		return eachDevice(v, func(s *Netns, d *host.NetDevice) []Finding {
			below := s.carrier(d)
			if d.Tunnel == nil || below == nil {
				return nil
			}
			if d.Tunnel.Shared {
				return switchMTU(s, d, below)
			}
			return tooLarge(s, d, d, below)
		})
	},
}

func tooLarge(s *Netns, d, tunnel, below *host.NetDevice) []Finding {
	room := below.MTU - tunnel.Tunnel.Overhead
	if d.MTU <= room {
		return nil
	}
	f := finding(s, d, mtuOf(s, d), mtuOf(s, below), Evidence{"what " + tunnel.Name + " adds", fmt.Sprintf("%d bytes", tunnel.Tunnel.Overhead)})
	f.Value = fmt.Sprint(room)
	return []Finding{f}
}

// switchMTU looks at the ports of the switch that uses a tunnel; one that also
// has a card as a port may serve pods whose packets go by that.
func switchMTU(s *Netns, tunnel, below *host.NetDevice) (all []Finding) {
	if m := s.device(tunnel.Master); m == nil || m.Kind != "openvswitch" {
		return nil
	}
	for i := range s.Devices {
		if d := &s.Devices[i]; d.Master == tunnel.Master && d.Card {
			return nil
		}
	}
	for i := range s.Devices {
		if d := &s.Devices[i]; d.Master == tunnel.Master && d.Up && isLeaf(d) {
			all = append(all, tooLarge(s, d, tunnel, below)...)
		}
	}
	return all
}
