package k8s

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/venturi-net/venturi/internal/knob"
)

// ciliumRouting are how packets get from node to node, and from pod to node.
func ciliumRouting() []knob.Entry {
	return []knob.Entry{
		{
			Facts: knob.Facts{
				Name:     "cil.native",
				Title:    "Cilium sends packets of pods as they are, without a tunnel",
				Values:   "native, native,cidr=10.244.0.0/16 (which destinations are pods), native,direct=off (something else provides the routes), tunnel",
				Scope:    knob.ScopeManifest,
				Helps:    []knob.Benefit{knob.Latency, knob.Throughput, knob.CPU},
				Risk:     "where the network between the nodes does not know the pods' addresses, their packets are lost",
				Needs:    "nodes on one layer 2 segment, or a network that routes the pods' addresses",
				Grade:    knob.GradeC,
				Evidence: "Cilium's tuning guide, without a number; saves the 50 bytes of VXLAN",
				Undo:     undoPods,
			},
			Knob: manifestKnob{
				open: ciliumSettings, keys: []string{"routing-mode", "tunnel", "auto-direct-node-routes"},
				read: readNative, pairs: pairsNative, trials: []string{"native", "tunnel"},
			},
		},
		{
			Facts: knob.Facts{
				Name:     "cil.masq",
				Title:    "Cilium masquerades in eBPF instead of iptables",
				Values:   "on, off",
				Scope:    knob.ScopeManifest,
				Helps:    []knob.Benefit{knob.Latency, knob.CPU},
				Risk:     "masquerading differs in details: only devices that Cilium manages do it",
				Needs:    "kube-proxy replacement; eBPF host routing needs it",
				Grade:    knob.GradeC,
				Evidence: "Cilium's tuning guide, without a number",
				Undo:     undoCilium,
			},
			Knob: toggleKnob(ciliumSettings, "enable-bpf-masquerade").annotated(func(s settings, r knob.Reading) knob.Reading {
				if r.Value == "on" && !replacesKubeProxy(s) && !s.partial() {
					return ciliumNeeds(r, "it needs kube-proxy-replacement, which is not on in this file (knob cil.kpr)")
				}
				return ciliumNeeds(r)
			}),
		},
		{
			Facts: knob.Facts{
				Name:     "cil.hostroute",
				Title:    "Cilium lets packets bypass the host's network stack (eBPF host routing)",
				Values:   "on, off; the inverse of enable-host-legacy-routing",
				Scope:    knob.ScopeManifest,
				Helps:    []knob.Benefit{knob.Latency, knob.Throughput, knob.CPU},
				Risk:     "iptables rules of the host and of service meshes have no effect",
				Needs:    "kernel 5.10; kube-proxy replacement (cil.kpr) and masquerading in eBPF (cil.masq), otherwise it stays off whatever is set",
				Grade:    knob.GradeB,
				Evidence: "Cilium's benchmark (100G, Cilium 1.9.6): pods reach node-to-node throughput with it; the figures are in graphs only",
				Undo:     undoCilium,
			},
			Knob: choiceKnob(ciliumSettings, "enable-host-legacy-routing", []string{"on", "false"}, []string{"off", "true"}).annotated(judgeHostRouting),
		},
		{
			Facts: knob.Facts{
				Name:     "cil.netkit",
				Title:    "What kind of device Cilium gives to pods",
				Values:   "netkit, veth",
				Scope:    knob.ScopeManifest,
				Helps:    []knob.Benefit{knob.Latency, knob.Throughput},
				Risk:     "beta; the cluster's DNS failed with it in one report (cilium issue 34543)",
				Needs:    "kernel 6.8, eBPF host routing, no transparent proxy; only pods created afterwards have such devices",
				Grade:    knob.GradeB,
				Evidence: "12 % more connections a second (ByteDance, reported by Isovalent)",
				Undo:     undoPods,
			},
			Knob: choiceKnob(ciliumSettings, "datapath-mode", []string{"netkit", "netkit"}, []string{"veth", "veth"}).annotated(func(s settings, r knob.Reading) knob.Reading {
				if r.Value == "netkit" && !routesInBPF(s) && !s.partial() {
					return ciliumNeeds(r, "it needs eBPF host routing, which is not on by this file (knob cil.hostroute)", "only pods made afterwards have it")
				}
				return ciliumNeeds(r, "only pods made afterwards have it")
			}),
		},
	}
}

func readNative(s settings) knob.Reading {
	mode, there := s.get("routing-mode")
	old, older := s.get("tunnel")
	var r knob.Reading
	switch {
	case there:
		r.Value = mode
	case older && old == "disabled":
		r.Value = "native"
	case older:
		r.Value = "tunnel"
	default:
		r.Value = defaultValue
	}
	var notes []string
	if there && older {
		notes = append(notes, "the file has routing-mode and the old key tunnel: newer agents refuse that, older ones know tunnel only")
	}
	if r.Value == "native" && !isOn(s, "auto-direct-node-routes") && !s.partial() {
		notes = append(notes, "auto-direct-node-routes is not on: somebody else must route the pods' addresses")
	}
	return ciliumNeeds(r, notes...)
}

func pairsNative(s settings, value string) ([]settingChange, error) {
	mode, options, _ := strings.Cut(value, ",")
	_, newer := s.get("routing-mode")
	_, older := s.get("tunnel")
	key, text, direct := "routing-mode", mode, "true"
	if older && !newer {
		key, text = "tunnel", map[string]string{"native": "disabled", "tunnel": "vxlan"}[mode]
		if now, _ := s.get("tunnel"); mode == "tunnel" && now != "disabled" {
			text = now // geneve stays geneve
		}
	}
	var more []settingChange
	for option := range strings.SplitSeq(options, ",") {
		name, with, _ := strings.Cut(option, "=")
		_, err := netip.ParsePrefix(with)
		switch {
		case option == "":
		case mode == "native" && name == "cidr" && err == nil:
			more = append(more, settingChange{key: "ipv4-native-routing-cidr", text: with})
		case mode == "native" && name == "direct" && (with == "on" || with == "off"):
			direct, _ = knob.Truth.Text(with)
		default:
			return nil, fmt.Errorf("%q is no option of %s: want cidr=NETWORK or direct=on|off", option, mode)
		}
	}
	switch mode {
	case "native":
		_, told := s.get("ipv4-native-routing-cidr")
		masquerades, there := s.get("enable-ipv4-masquerade")
		if len(more) == 0 && !told && !s.partial() && !(there && masquerades == "false") {
			return nil, errors.New("the agents would not start: the file does not say which destinations need no masquerading (ipv4-native-routing-cidr); add it: native,cidr=10.244.0.0/16")
		}
	case "tunnel":
		direct = "false" // such routes and a tunnel exclude each other
		if _, there := s.get("auto-direct-node-routes"); !there {
			return []settingChange{{key: key, text: text}}, nil
		}
	default:
		return nil, errors.New("want native, tunnel, or " + defaultValue)
	}
	return append(more, settingChange{key: key, text: text}, settingChange{key: "auto-direct-node-routes", text: direct}), nil
}

// judgeHostRouting says what the setting comes to: it is named the other way
// round, and does nothing by itself.
func judgeHostRouting(s settings, r knob.Reading) knob.Reading {
	if r.Value == "off" {
		return ciliumNeeds(r, `enable-host-legacy-routing is "true": packets take the host's stack`)
	}
	var missing, first []string
	if !replacesKubeProxy(s) {
		first = append(first, "cil.kpr on")
		missing = append(missing, "kube-proxy-replacement (knob cil.kpr)")
	}
	if !masqueradesInBPF(s) {
		first = append(first, "cil.masq on")
		missing = append(missing, "enable-bpf-masquerade (knob cil.masq)")
	}
	switch {
	case s.partial():
		return ciliumNeeds(r, "it is in effect only where the ConfigMap has kube-proxy-replacement and enable-bpf-masquerade on: the file does not say")
	case len(missing) == 0:
		return ciliumNeeds(r, "cilium status says \"Host Routing: BPF\" when it is in effect")
	case r.Value == "on":
		r.Effective, r.First = "off", first
	}
	return ciliumNeeds(r, "packets take the host's stack all the same: "+strings.Join(missing, " and ")+" is not on in this file")
}
