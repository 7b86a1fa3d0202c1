package knob

import (
	"errors"
)

// ciliumServices are what Cilium does of kube-proxy's work, and how.
func ciliumServices() []Entry {
	return []Entry{
		{
			Facts: Facts{
				Name:     "cil.kpr",
				Title:    "Cilium replaces kube-proxy",
				Values:   "on, off (true and false, or strict and disabled in older files)",
				Scope:    ScopeManifest,
				Helps:    []Effect{Latency},
				Risk:     "Services stop when it does not work; kube-proxy itself is removed last, by a person, and its manifest kept",
				Needs:    "the agents know the API server's address themselves (k8sServiceHost) before kube-proxy is removed",
				Grade:    GradeD,
				Evidence: "needed by eBPF host routing; a benchmark on TKE found iptables faster with few Services (14 % on kept connections, 2.2 times on short ones), Cilium from about 20,000",
				Undo:     undoCilium + "; kube-proxy must be back before",
			},
			Knob: inManifest{
				open: ciliumIn, keys: []string{"kube-proxy-replacement"}, read: readReplacement, pairs: pairsReplacement, trials: []string{"on", "off"},
			},
		},
		{
			Facts: Facts{
				Name:     "cil.noct",
				Title:    "Cilium installs rules that keep pods' packets out of the host's connection tracking",
				Values:   "on, off",
				Scope:    ScopeManifest,
				Helps:    []Effect{CPU},
				Risk:     "host rules that match the connection state do not match these packets",
				Needs:    "native routing and kube-proxy replacement; useful only without eBPF host routing",
				Grade:    GradeC,
				Evidence: "Cilium's tuning guide, without a number",
				Undo:     undoCilium,
			},
			Knob: toggleIn(ciliumIn, "install-no-conntrack-iptables-rules").judged(func(s fileSettings, r Reading) Reading {
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
			Facts: Facts{
				Name:     "cil.xdp",
				Title:    "Cilium forwards packets of Services on other nodes in the NIC's driver (XDP)",
				Values:   "native, best-effort, disabled",
				Scope:    ScopeManifest,
				Helps:    []Effect{Packets},
				Risk:     "drivers limit the MTU and may reset the NIC when a program is attached",
				Needs:    "a driver with native XDP, kube-proxy replacement; for traffic from outside the cluster only",
				Grade:    GradeC,
				Evidence: "Cilium's documentation, without a number",
				Undo:     undoCilium,
			},
			Knob: choiceIn(ciliumIn, "bpf-lb-acceleration", []string{"native", "native"}, []string{"best-effort", "best-effort"}, []string{"disabled", "disabled"}).judged(needsReplacement),
		},
		{
			Facts: Facts{
				Name:     "cil.dsr",
				Title:    "How replies of Services return to clients outside the cluster",
				Values:   "dsr (straight to the client), snat (by the node that received the request), hybrid",
				Scope:    ScopeManifest,
				Helps:    []Effect{Latency, Throughput},
				Risk:     "networks that check source addresses, or drop IP options, drop the packets",
				Needs:    "kube-proxy replacement, native routing (or dsr in Geneve); a network that accepts the packets",
				Grade:    GradeC,
				Evidence: "Cilium's documentation, without a number",
				Undo:     undoCilium,
			},
			Knob: choiceIn(ciliumIn, "bpf-lb-mode", []string{"dsr", "dsr"}, []string{"snat", "snat"}, []string{"hybrid", "hybrid"}).judged(needsReplacement),
		},
	}
}

func needsReplacement(s fileSettings, r Reading) Reading {
	if !replacesKubeProxy(s) && !s.partial() {
		return ciliumNeeds(r, "it needs kube-proxy-replacement, which is not on in this file (knob cil.kpr)")
	}
	return ciliumNeeds(r)
}

func readReplacement(s fileSettings) Reading {
	text, there := s.get("kube-proxy-replacement")
	switch {
	case !there:
		return ciliumNeeds(Reading{Value: asDefault})
	case text == "true" || text == "strict":
		return ciliumNeeds(Reading{Value: "on"}, "kube-proxy goes last, by hand, when Services work without it; keep its manifest")
	case text == "false" || text == "disabled":
		return ciliumNeeds(Reading{Value: "off"})
	}
	return ciliumNeeds(Reading{Value: text}, "agents since 1.14 know only true and false")
}

// pairsReplacement keeps to the words of the release that the file is of: each
// refuses those of the other.
func pairsReplacement(s fileSettings, value string) ([]filePair, error) {
	words := map[string]string{"on": "true", "off": "false"}
	switch now, _ := s.get("kube-proxy-replacement"); now {
	case "strict", "disabled", "partial", "probe":
		words = map[string]string{"on": "strict", "off": "disabled"}
	}
	if words[value] == "" {
		return nil, errors.New("want on, off, or " + asDefault)
	}
	return []filePair{{key: "kube-proxy-replacement", text: words[value]}}, nil
}
