package k8s

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/venturi-net/venturi/internal/knob"
)

// ciliumDatapath are sizes and extras of Cilium's datapath.
func ciliumDatapath() []knob.Entry {
	return []knob.Entry{
		{
			Facts: knob.Facts{
				Name:     "cil.bigtcp",
				Title:    "Packets of more than 64 KiB inside the nodes (BIG TCP)",
				Values:   "ipv4, ipv6, both, off",
				Scope:    knob.ScopeManifest,
				Helps:    []knob.Benefit{knob.Throughput, knob.CPU},
				Risk:     "devices of tunnels could not be set up with it (cilium issue 46337), and it had no effect in others (issue 32942)",
				Needs:    "kernel 5.19 for IPv6 and 6.3 for IPv4, a NIC of mlx4, mlx5 or ice, no IPsec; in tunnels since Cilium 1.19",
				Grade:    knob.GradeC,
				Evidence: "Cilium's tuning guide for 100 Gb/s and more, without a number",
				Undo:     undoPods,
			},
			Knob: manifestKnob{
				open: ciliumSettings, keys: []string{"enable-ipv4-big-tcp", "enable-ipv6-big-tcp"}, read: readBigTCP, pairs: pairsBigTCP,
				trials: []string{"ipv4", "ipv6", "both", "off"},
			},
		},
		{
			Facts: knob.Facts{
				Name:     "cil.bwm",
				Title:    "Cilium's bandwidth manager: pacing of what pods send",
				Values:   "on, off",
				Scope:    knob.ScopeManifest,
				Helps:    []knob.Benefit{knob.Throughput},
				Risk:     "mq and fq qdiscs stay on the NICs when it is off again (cilium issue 20878), and it sets sysctls of the node",
				Needs:    "kube-proxy replacement",
				Grade:    knob.GradeC,
				Evidence: "Cilium's documentation, without a number",
				Undo:     undoCilium + "; the qdiscs on the NICs stay until they are set back",
			},
			Knob: toggleKnob(ciliumSettings, "enable-bandwidth-manager").annotated(func(s settings, r knob.Reading) knob.Reading {
				if r.Value == "on" {
					return needsReplacement(s, r)
				}
				return ciliumNeeds(r)
			}),
		},
		{
			Facts: knob.Facts{
				Name:     "cil.bbr",
				Title:    "Pods use BBR congestion control",
				Values:   "on, off",
				Scope:    knob.ScopeManifest,
				Helps:    []knob.Benefit{knob.Throughput},
				Risk:     "unfair to others on the same link, and more retransmits",
				Needs:    "kernel 5.18, the bandwidth manager (cil.bwm) and eBPF host routing (cil.hostroute); for lossy links, not inside a data centre",
				Grade:    knob.GradeC,
				Evidence: "Cilium's documentation, without a number",
				Undo:     undoPods,
			},
			Knob: toggleKnob(ciliumSettings, "enable-bbr").annotated(func(s settings, r knob.Reading) knob.Reading {
				switch {
				case r.Value != "on" || s.partial():
					return ciliumNeeds(r)
				case !isOn(s, "enable-bandwidth-manager"):
					r.Effective = "off"
					if !replacesKubeProxy(s) {
						r.First = append(r.First, "cil.kpr on")
					}
					r.First = append(r.First, "cil.bwm on")
					return ciliumNeeds(r, "it is nothing without the bandwidth manager (knob cil.bwm)")
				case !routesInBPF(s):
					return ciliumNeeds(r, "it needs eBPF host routing, which is not on by this file (knob cil.hostroute)")
				}
				return ciliumNeeds(r)
			}),
		},
		{
			Facts: mapFacts("cil.maps", "How much memory Cilium's maps may take", "a share, such as 0.0025 (Cilium's own) or 0.08"),
			Knob:  textKnob(ciliumSettings, "bpf-map-dynamic-size-ratio", shareOfMemory, "0.0025", "0.08").withNote("with 0.08 the guide also turns on cil.lru; " + restartCilium),
		},
		{
			Facts: mapFacts("cil.lru", "Cilium's connection maps have an LRU list per CPU", "on, off"),
			Knob:  toggleKnob(ciliumSettings, "bpf-distributed-lru").withNote("tables must be larger with it (cil.maps 0.08); " + restartCilium),
		},
		{
			Facts: mapFacts("cil.prealloc", "Cilium's maps are preallocated", "on, off"),
			Knob:  toggleKnob(ciliumSettings, "preallocate-bpf-maps").withNote(restartCilium),
		},
		{
			Facts: mapFacts("cil.clock", "Cilium uses a cheaper clock for its connection maps", "on, off"),
			Knob:  toggleKnob(ciliumSettings, "enable-bpf-clock-probe").withNote("entries from before are misread; " + restartCilium),
		},
		{
			Facts: knob.Facts{
				Name:     "cil.hubble",
				Title:    "Cilium exports flows to its observer (Hubble)",
				Values:   "on, off",
				Scope:    knob.ScopeManifest,
				Helps:    []knob.Benefit{knob.CPU, knob.Packets},
				Risk:     "flows can no longer be observed",
				Needs:    "nothing",
				Grade:    knob.GradeD,
				Evidence: "off gains 1 to 15 % according to Cilium's documentation, and nothing in a benchmark on TKE",
				Undo:     undoCilium,
			},
			Knob: toggleKnob(ciliumSettings, "enable-hubble").withNote(restartCilium),
		},
		{
			Facts: knob.Facts{
				Name:     "cil.monitor",
				Title:    "How often Cilium reports the same connection to its observers",
				Values:   "a time, such as 5s (Cilium's own) or 10s",
				Scope:    knob.ScopeManifest,
				Helps:    []knob.Benefit{knob.CPU},
				Risk:     "observers see less",
				Needs:    "Hubble or another observer; monitor-aggregation medium or higher",
				Grade:    knob.GradeD,
				Evidence: "Cilium's documentation suggests 10s to reduce Hubble's cost; see cil.hubble",
				Undo:     undoCilium,
			},
			Knob: textKnob(ciliumSettings, "monitor-aggregation-interval", timeSpan, "5s", "10s").withNote(restartCilium),
		},
	}
}

func mapFacts(name, title, values string) knob.Facts {
	return knob.Facts{
		Name: name, Title: title, Values: values,
		Scope:    knob.ScopeManifest,
		Helps:    []knob.Benefit{knob.Packets},
		Risk:     "memory; maps are recreated, which interrupts connections",
		Needs:    "many new connections a second",
		Grade:    knob.GradeC,
		Evidence: "in the profile of Cilium's tuning guide, without a number of its own",
		Undo:     undoCilium + "; connections are interrupted again",
	}
}

func shareOfMemory(value string) error {
	n, err := strconv.ParseFloat(value, 64)
	if err != nil || !(n > 0 && n <= 1) {
		return errors.New("want a share above 0 and up to 1")
	}
	return nil
}

func timeSpan(value string) error {
	if d, err := time.ParseDuration(value); err != nil || d <= 0 {
		return errors.New("want a time, such as 5s")
	}
	return nil
}

func readBigTCP(s settings) knob.Reading {
	_, four := s.get("enable-ipv4-big-tcp")
	_, six := s.get("enable-ipv6-big-tcp")
	r := knob.Reading{Value: "off"}
	switch on4, on6 := isOn(s, "enable-ipv4-big-tcp"), isOn(s, "enable-ipv6-big-tcp"); {
	case on4 && on6:
		r.Value = "both"
	case on4:
		r.Value = "ipv4"
	case on6:
		r.Value = "ipv6"
	case !four && !six:
		r.Value = defaultValue
	}
	if r.Value != "off" && r.Value != defaultValue && !routesInBPF(s) && !s.partial() {
		return ciliumNeeds(r, "it needs eBPF host routing, which is not on by this file (knob cil.hostroute)", "pods made before keep their size")
	}
	return ciliumNeeds(r, "pods made before keep their size")
}

func pairsBigTCP(_ settings, value string) ([]settingChange, error) {
	on, known := map[string][2]bool{"ipv4": {true, false}, "ipv6": {false, true}, "both": {true, true}, "off": {}}[value]
	if !known {
		return nil, errors.New("want ipv4, ipv6, both, off, or " + defaultValue)
	}
	return []settingChange{{key: "enable-ipv4-big-tcp", text: fmt.Sprint(on[0])}, {key: "enable-ipv6-big-tcp", text: fmt.Sprint(on[1])}}, nil
}
