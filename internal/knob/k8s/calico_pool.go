package k8s

import (
	"errors"
	"strings"

	"github.com/venturi-net/venturi/internal/knob"
)

const (
	undoCalico = "the file gets its old bytes back; apply it: Felix applies it at once"
	ownCalico  = "where Calico was installed by its operator, the Installation owns this, and writes it again"
)

// calicoPool finds an IPPool: what its addresses are sent by.
func calicoPool(f manifest) (settings, error) { return calicoObject(f, "IPPool") }

func calicoObject(f manifest, kind string) (settings, error) {
	o, err := f.findOne(kind, "")
	if err != nil {
		return nil, err
	}
	return mappingSettings{f: f, pos: o.pos, keys: nestedKey("spec")}, nil
}

// calicoPoolKnobs are those of addresses of pods.
func calicoPoolKnobs() []knob.Entry {
	return []knob.Entry{
		{
			Facts: knob.Facts{
				Name:     "cal.encap",
				Title:    "Which packets of pods Calico encapsulates",
				Values:   "ipip-always, ipip-crosssubnet, vxlan-always, vxlan-crosssubnet, never; or always, crosssubnet with the present tunnel",
				Scope:    knob.ScopeManifest,
				Helps:    []knob.Benefit{knob.Latency, knob.Throughput, knob.CPU},
				Risk:     "nodes whose network does not know the pods' addresses do not reach each other; clouds drop IPIP and unknown addresses",
				Needs:    "crosssubnet: nodes of one subnet on one layer 2 segment; never: BGP sessions with all nodes or with the network's routers",
				Grade:    knob.GradeB,
				Evidence: "IPIP to none took latency from 21.4 to 19.3 microseconds, TCP of 1 KiB from 1.45 to 3.76 Gb/s and of 4 KiB from 2.94 to 6.56 (25G, once in Kube-OVN's documentation)",
				Undo:     undoCalico + "; old routes drain",
			},
			Knob: manifestKnob{
				open: calicoPool, keys: []string{"ipipMode", "vxlanMode"}, read: readEncap, pairs: pairsEncap, trials: []string{"crosssubnet", "never"},
			},
		},
		{
			Facts: knob.Facts{
				Name:       "cal.nat",
				Title:      "Calico masquerades what pods send outside the cluster",
				Values:     "on, off",
				Scope:      knob.ScopeManifest,
				Helps:      []knob.Benefit{knob.CPU, knob.Packets},
				Risk:       "off, pods reach nothing outside a network that does not route their addresses",
				Needs:      "a network that routes the pods' addresses",
				Grade:      knob.GradeC,
				Evidence:   "Calico's documentation, without a number",
				Undo:       undoCalico,
				ManualOnly: "off, pods reach nothing outside unless the whole network routes their addresses: only a person can know that",
			},
			Knob: toggleKnob(calicoPool, "natOutgoing").withNote(ownCalico),
		},
	}
}

// poolMode is what a pool says of one kind of tunnel.
func poolMode(s settings, key string) string {
	text, there := s.get(key)
	if !there {
		return "Never"
	}
	return text
}

func readEncap(s settings) knob.Reading {
	r := knob.Reading{Value: defaultValue, Note: ownCalico}
	_, four := s.get("ipipMode")
	_, five := s.get("vxlanMode")
	ipip, vxlan := poolMode(s, "ipipMode"), poolMode(s, "vxlanMode")
	switch {
	case ipip != "Never" && vxlan != "Never":
		r.Value = "ipip-" + strings.ToLower(ipip) + "+vxlan-" + strings.ToLower(vxlan)
		r.Note = "Calico refuses a pool with two tunnels"
	case ipip != "Never":
		r.Value = "ipip-" + strings.ToLower(ipip)
	case vxlan != "Never":
		r.Value = "vxlan-" + strings.ToLower(vxlan)
	case four || five:
		r.Value = "never"
	default:
		r.Note = "Calico's own is no tunnel; " + ownCalico
	}
	return r
}

func pairsEncap(s settings, value string) ([]settingChange, error) {
	kind, when, both := strings.Cut(value, "-")
	if !both {
		when = kind
		kind = "ipip"
		if poolMode(s, "vxlanMode") != "Never" {
			kind = "vxlan"
		}
	}
	text, known := map[string]string{"always": "Always", "crosssubnet": "CrossSubnet", "never": "Never"}[when]
	if !known || kind != "ipip" && kind != "vxlan" || both && when == "never" {
		return nil, errors.New("want ipip-always, ipip-crosssubnet, vxlan-always, vxlan-crosssubnet, always, crosssubnet, never, or " + defaultValue)
	}
	var pairs []settingChange
	for _, k := range []string{"ipip", "vxlan"} {
		_, there := s.get(k + "Mode")
		switch {
		case k == kind:
			pairs = append(pairs, settingChange{key: k + "Mode", text: text})
		case there:
			pairs = append(pairs, settingChange{key: k + "Mode", text: "Never"})
		}
	}
	return pairs, nil
}
