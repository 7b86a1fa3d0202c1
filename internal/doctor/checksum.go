package doctor

import (
	"github.com/venturi-net/venturi/internal/host"
)

// Offloads of sending that a device may have for checksums. A card has the
// first, or one for each family.
const (
	txChecksum   = "tx-checksum-ip-generic"
	txChecksumV4 = "tx-checksum-ipv4"
	txChecksumV6 = "tx-checksum-ipv6"
	rxChecksum   = "rx-checksum"
)

var tunnelChecksumOff = Rule{
	Facts: Facts{
		Code:     "tunnel-checksum-off",
		Title:    "A tunnel computes checksums in software, and so cannot pass on large packets",
		Severity: Warning,
		Looks:    "the offload " + txChecksum + " of vxlan, geneve, ipip and gre devices: off, though the device supports it",
		Effect:   Impact{"a significant loss where the card below works: each packet is segmented and checksummed before the tunnel", "Kube-OVN FAQ; for the opposite see tunnel-checksum-errors", "B"},
		Knob:     "virt.tx_csum", Value: "on",
		Do: "somebody may have switched it off because the card below breaks checksums (Calico does): after the change, check whether retransmissions grow",
	},
	Check: func(v *View) []Finding {
		return eachDevice(v, func(s *Netns, d *host.NetDevice) []Finding {
			if d.Tunnel == nil || len(disabledFeatures(d, txChecksum)) == 0 {
				return nil
			}
			f := finding(s, d, features(d, txChecksum))
			if !hasChecksumKnob(d) {
				f.Knob, f.Value = "nic.csum", "tx=on"
			}
			return []Finding{f}
		})
	},
}

// hasChecksumKnob tells whether virt.tx_csum is for a tunnel; for others, nic.csum is.
func hasChecksumKnob(tunnel *host.NetDevice) bool {
	return tunnel.Kind == "vxlan" || tunnel.Kind == "geneve"
}

var virtualChecksumOff = Rule{
	Facts: Facts{
		Code:     "virtual-checksum-off",
		Title:    "A virtual device computes checksums in software, and so cannot pass on large packets",
		Severity: Warning,
		Looks:    "the offload " + txChecksum + " of veth, bridge and other virtual devices that are not tunnels, TUN or TAP devices: off, though the device supports it. Not where Open vSwitch forwards in its own process, which needs it off",
		Effect:   Impact{"segmentation goes with it, so throughput of TCP drops to that of single packets", "the kernel's rule that no large packet is sent without checksum offload; no isolated number was found", "C"},
		Knob:     "nic.csum", Value: "tx=on",
	},
	Check: func(v *View) []Finding {
		return eachDevice(v, func(s *Netns, d *host.NetDevice) []Finding {
			if d.Tunnel != nil || d.Card || isTap(d) || len(disabledFeatures(d, txChecksum)) == 0 {
				return nil
			}
			if there, _ := v.peer(s, d); there != nil && there.deviceByName(userspaceSwitch) != nil {
				return nil // it computes no checksums itself
			}
			return []Finding{finding(s, d, features(d, txChecksum))}
		})
	},
}

// userspaceSwitch is the device by which Open vSwitch shows that it forwards in
// its own process.
const userspaceSwitch = "ovs-netdev"

var cardChecksumOff = Rule{
	Facts: Facts{
		Code:     "nic-checksum-off",
		Title:    "A network card leaves checksums to the CPU",
		Severity: Warning,
		Looks:    "a card's checksum offloads: off, though it supports them",
		Effect:   Impact{"CPU for each byte, and without transmit checksums no segmentation offload", "kernel documentation of segmentation offloads; no isolated number was found", "C"},
		Knob:     "nic.csum", Value: "on",
		Do: "somebody may have switched it off because the card is broken: after the change, check whether retransmissions grow",
	},
	Check: func(v *View) []Finding {
		return eachDevice(v, func(s *Netns, d *host.NetDevice) []Finding {
			off := disabledFeatures(d, txChecksum, txChecksumV4, txChecksumV6, rxChecksum)
			if !d.Card || len(off) == 0 {
				return nil
			}
			return []Finding{finding(s, d, features(d, off...))}
		})
	},
}

// eachDevice collects what check finds of all devices that are up.
func eachDevice(v *View, check func(*Netns, *host.NetDevice) []Finding) (all []Finding) {
	for _, s := range v.Netns {
		for i := range s.Devices {
			if s.Devices[i].Up {
				all = append(all, check(s, &s.Devices[i])...)
			}
		}
	}
	return all
}
