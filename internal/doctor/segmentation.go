package doctor

import (
	"maps"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/host"
)

// Offloads of segmentation.
const (
	gatherFeature     = "tx-scatter-gather"
	tsoFeature        = "tx-tcp-segmentation"
	tso6Feature       = "tx-tcp6-segmentation"
	gsoFeature        = "tx-generic-segmentation"
	tunnelFeature     = "tx-udp_tnl-segmentation"
	tunnelCsumFeature = "tx-udp_tnl-csum-segmentation"
)

var segmentationOff = Rule{
	Facts: Facts{
		Code:     "segmentation-off",
		Title:    "Large TCP packets are cut too early",
		Severity: Warning,
		Looks:    "scatter-gather, TSO and GSO of cards and virtual devices, but TUN and TAP: off, though the device supports them. A note for r8169, which leaves them off by itself",
		Effect:   Impact{"each packet of 1,500 bytes goes down the stack alone, instead of up to 64 KiB at once: several times less throughput per core", "kernel documentation of segmentation offloads; no isolated number was found", "C"},
		Knob:     "nic.seg",
		Do:       "somebody may have switched it off because the driver is broken (e1000e is known for it)",
	},
	Check: func(v *View) []Finding {
		return eachDevice(v, func(s *Netns, d *host.NetDevice) []Finding {
			off := disabledFeatures(d, gatherFeature, tsoFeature, tso6Feature, gsoFeature)
			if isTap(d) || len(off) == 0 {
				return nil
			}
			f := finding(s, d, features(d, off...))
			if d.Driver == "r8169" {
				f.Severity, f.Do = Note, "the driver begins with it off, as some of its chips stop sending with it: switch it on at your own risk"
				return []Finding{f}
			}
			f.Value = wordsOf(off, map[string]string{gatherFeature: "sg", tsoFeature: "tso", tso6Feature: "tso", gsoFeature: "gso"})
			return []Finding{f}
		})
	},
}

// wordsOf is the value of a knob that switches offloads on, in its words for them.
func wordsOf(off []string, words map[string]string) string {
	var parts []string
	for _, name := range off {
		if part := words[name] + "=on"; !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ",")
}

var tunnelSegmentationOff = Rule{
	Facts: Facts{
		Code:     "tunnel-segmentation-off",
		Title:    "A device does not segment packets inside tunnels, though it could",
		Severity: Warning,
		Looks:    "the offload " + tunnelFeature + " of the device below a vxlan or geneve tunnel, and of the cards below that: off",
		Effect:   Impact{"VXLAN on 10 Gbit/s and MTU 1500: 4 to 7 Gbit/s without, more than 8 with it", "vswitchzero, measured on ESXi", "B"},
		Knob:     "nic.tnl_seg",
		Do:       "old firmware of some cards sends wrong checksums with it: after the change, check whether retransmissions grow",
	},
	Check: func(v *View) (all []Finding) {
		for _, s := range v.Netns {
			under := s.tunnelCards()
			for _, index := range slices.Sorted(maps.Keys(under)) {
				d, tunnel := s.device(index), under[index]
				off := disabledFeatures(d, tunnelFeature, tunnelCsumFeature)
				if tunnel.Tunnel.Port == 0 || len(off) == 0 {
					continue
				}
				f := finding(s, d, features(d, off...), Evidence{"path of " + tunnel.Name, "it sends by " + d.Name})
				f.Value = wordsOf(off, map[string]string{tunnelFeature: "seg", tunnelCsumFeature: "csum"})
				all = append(all, f)
			}
		}
		return all
	},
}
