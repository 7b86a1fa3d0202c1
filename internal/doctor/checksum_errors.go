package doctor

import (
	"fmt"

	"github.com/venturi-net/venturi/internal/host"
)

var tunnelChecksumErrors = Rule{
	Facts: Facts{
		Code:     "tunnel-checksum-errors",
		Title:    "TCP loses packets where a tunnel leaves checksums to the device below it",
		Severity: Warning,
		Looks:    "two readings: a tunnel has " + txChecksum + " on, and a namespace receives wrong checksums, or sends at least 2 % of TCP's segments (and 20) again",
		Effect:   Impact{"200 Mbit/s with it, more than 9 Gbit/s without, on vxlan.calico and kernel 6.12; 63 s stalls", "Calico issues 11435 and 3145", "B"},
		Knob:     "virt.tx_csum", Value: "off",
		Do: "retransmissions have other causes too: try it (on ipip and gre devices with knob nic.csum), and keep it only if they end (venturi tune --prove does so)",
	},
	Check: func(v *View) []Finding {
		var evidence []Evidence
		for _, s := range v.Netns {
			evidence = append(evidence, v.troubles(s)...)
		}
		if len(evidence) == 0 {
			return nil
		}
		return eachDevice(v, func(s *Netns, d *host.NetDevice) []Finding {
			if d.Tunnel == nil || !d.Features[txChecksum].On {
				return nil
			}
			f := finding(s, d, append([]Evidence{features(d, txChecksum)}, evidence...)...)
			if !hasChecksumKnob(d) {
				f.Knob, f.Value = "nic.csum", "tx=off"
			}
			return []Finding{f}
		})
	},
}

const (
	manyAgain  = 20   // segments sent again in the time between two readings
	shareAgain = 0.02 // of all that are sent
)

// troubles are signs in a namespace's counters that packets arrive broken.
func (v *View) troubles(s *Netns) (found []Evidence) {
	if !v.hasInterval() {
		return nil
	}
	for _, name := range []string{"Tcp/InCsumErrors", "Udp/InCsumErrors"} {
		if n := v.protocolGrew(s, name); n > 0 {
			found = append(found, counted("/proc/net/snmp of "+s.name(), name, n, v.seconds()))
		}
	}
	again, sent := v.protocolGrew(s, "Tcp/RetransSegs"), v.protocolGrew(s, "Tcp/OutSegs")
	if again >= manyAgain && float64(again) >= shareAgain*float64(sent) {
		found = append(found, counted("/proc/net/snmp of "+s.name(), fmt.Sprintf("Tcp/RetransSegs (of %d sent)", sent), again, v.seconds()))
	}
	return found
}
