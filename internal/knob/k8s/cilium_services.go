package k8s

import (
	"errors"

	"github.com/venturi-net/venturi/internal/knob"
)

// ciliumServices are what Cilium does of kube-proxy's work, and how.
func ciliumServices() []knob.Entry {
	return []knob.Entry{
		{
			Facts: knob.Facts{
				Name:     "cil.kpr",
				Title:    "Cilium replaces kube-proxy",
				Values:   "on, off (true and false, or strict and disabled in older files)",
				Scope:    knob.ScopeManifest,
				Helps:    []knob.Benefit{knob.Latency},
				Risk:     "Services stop when it does not work; kube-proxy itself is removed last, by a person, and its manifest kept",
				Needs:    "the agents know the API server's address themselves (k8sServiceHost) before kube-proxy is removed",
				Grade:    knob.GradeD,
				Evidence: "needed by eBPF host routing; a benchmark on TKE found iptables faster with few Services (14 % on kept connections, 2.2 times on short ones), Cilium from about 20,000",
				Undo:     undoCilium + "; kube-proxy must be back before",
			},
			Knob: manifestKnob{
				open: ciliumSettings, keys: []string{"kube-proxy-replacement"}, read: readReplacement, pairs: pairsReplacement, trials: []string{"on", "off"},
			},
		},
		{
			Facts: knob.Facts{
				Name:     "cil.noct",
				Title:    "Cilium installs rules that keep pods' packets out of the host's connection tracking",
				Values:   "on, off",
				Scope:    knob.ScopeManifest,
				Helps:    []knob.Benefit{knob.CPU},
				Risk:     "host rules that match the connection state do not match these packets",
				Needs:    "native routing and kube-proxy replacement; useful only without eBPF host routing",
				Grade:    knob.GradeC,
				Evidence: "Cilium's tuning guide, without a number",
				Undo:     undoCilium,
			},
			Knob: toggleKnob(ciliumSettings, "install-no-conntrack-iptables-rules").annotated(func(s settings, r knob.Reading) knob.Reading {
				switch {
				case r.Value != "on" || s.partial():
					return ciliumNeeds(r)
				case !isNative(s) || !replacesKubeProxy(s):
					return ciliumNeeds(r, "the agents refuse it without native routing (cil.native) and kube-proxy-replacement (cil.kpr)")
				case routesInBPF(s):
					return ciliumNeeds(r, "it does nothing more here: eBPF host routing is on, and packets of pods do not pass those rules")
				}
				return ciliumNeeds(r)
			}),
		},
		{
			Facts: knob.Facts{
				Name:     "cil.xdp",
				Title:    "Cilium forwards packets of Services on other nodes in the NIC's driver (XDP)",
				Values:   "native, best-effort, disabled",
				Scope:    knob.ScopeManifest,
				Helps:    []knob.Benefit{knob.Packets},
				Risk:     "drivers limit the MTU and may reset the NIC when a program is attached",
				Needs:    "a driver with native XDP, kube-proxy replacement; for traffic from outside the cluster only",
				Grade:    knob.GradeC,
				Evidence: "Cilium's documentation, without a number",
				Undo:     undoCilium,
			},
			Knob: choiceKnob(ciliumSettings, "bpf-lb-acceleration", []string{"native", "native"}, []string{"best-effort", "best-effort"}, []string{"disabled", "disabled"}).annotated(needsReplacement),
		},
		{
			Facts: knob.Facts{
				Name:     "cil.dsr",
				Title:    "How replies of Services return to clients outside the cluster",
				Values:   "dsr (straight to the client), snat (by the node that received the request), hybrid",
				Scope:    knob.ScopeManifest,
				Helps:    []knob.Benefit{knob.Latency, knob.Throughput},
				Risk:     "networks that check source addresses, or drop IP options, drop the packets",
				Needs:    "kube-proxy replacement, native routing (or dsr in Geneve); a network that accepts the packets",
				Grade:    knob.GradeC,
				Evidence: "Cilium's documentation, without a number",
				Undo:     undoCilium,
			},
			Knob: choiceKnob(ciliumSettings, "bpf-lb-mode", []string{"dsr", "dsr"}, []string{"snat", "snat"}, []string{"hybrid", "hybrid"}).annotated(needsReplacement),
		},
	}
}

func needsReplacement(s settings, r knob.Reading) knob.Reading {
	if !replacesKubeProxy(s) && !s.partial() {
		return ciliumNeeds(r, "it needs kube-proxy-replacement, which is not on in this file (knob cil.kpr)")
	}
	return ciliumNeeds(r)
}

func readReplacement(s settings) knob.Reading {
	text, there := s.get("kube-proxy-replacement")
	switch {
	case !there:
		return ciliumNeeds(knob.Reading{Value: defaultValue})
	case text == "true" || text == "strict":
		return ciliumNeeds(knob.Reading{Value: "on"}, "kube-proxy goes last, by hand, when Services work without it; keep its manifest")
	case text == "false" || text == "disabled":
		return ciliumNeeds(knob.Reading{Value: "off"})
	}
	return ciliumNeeds(knob.Reading{Value: text}, "agents since 1.14 know only true and false")
}

// pairsReplacement keeps to the words of the release that the file is of: each
// refuses those of the other.
func pairsReplacement(s settings, value string) ([]settingChange, error) {
	words := knob.Truth
	switch now, _ := s.get("kube-proxy-replacement"); now {
	case "strict", "disabled", "partial", "probe":
		words = knob.OnOff{On: "strict", Off: "disabled"}
	}
	text, known := words.Text(value)
	if !known {
		return nil, errors.New("want on, off, or " + defaultValue)
	}
	return []settingChange{{key: "kube-proxy-replacement", text: text}}, nil
}
