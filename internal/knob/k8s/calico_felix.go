package k8s

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/knob"
)

// calicoFelix finds the FelixConfiguration: how Calico's agent works on all nodes.
func calicoFelix(f manifest) (settings, error) { return calicoObject(f, "FelixConfiguration") }

// calicoFelixKnobs are those of Calico's agent.
func calicoFelixKnobs() []knob.Entry {
	return []knob.Entry{
		{
			Facts: knob.Facts{
				Name:     "cal.bpf",
				Title:    "Calico's datapath is eBPF instead of iptables",
				Values:   "on, off",
				Scope:    knob.ScopeManifest,
				Helps:    []knob.Benefit{knob.Latency, knob.CPU},
				Risk:     "open connections are reset; other iptables rules do not see pods' packets",
				Needs:    "kernel 5.3 or newer; Felix knows the API server's address itself, and kube-proxy is off",
				Grade:    knob.GradeC,
				Evidence: "Calico's documentation, without a number",
				Undo:     undoCalico + ", and open connections are reset; kube-proxy must be back before",
			},
			Knob: toggleKnob(calicoFelix, "bpfEnabled").withNote("kube-proxy must go when it is on, and be back before it is off; " + ownCalico),
		},
		{
			Facts: felix("cal.bpf_dsr", "How replies of Services return to clients outside the cluster", "dsr (straight to the client), tunnel (by the node that received the request)",
				"networks that check source addresses drop the packets", []knob.Benefit{knob.Latency, knob.Throughput}),
			Knob: onlyInBPF(choiceKnob(calicoFelix, "bpfExternalServiceMode", []string{"dsr", "DSR"}, []string{"tunnel", "Tunnel"})),
		},
		{
			Facts: felix("cal.bpf_ctlb", "Addresses of Services are translated when a socket connects instead of in each packet", "tcp, all, off",
				"programs with long-lived connections do not notice that a backend is gone (all: UDP too)", []knob.Benefit{knob.Latency, knob.CPU}),
			Knob: onlyInBPF(choiceKnob(calicoFelix, "bpfConnectTimeLoadBalancing", []string{"tcp", "TCP"}, []string{"all", "Enabled"}, []string{"off", "Disabled"})),
		},
		{
			Facts: felix("cal.bpf_peer", "Packets enter a pod without passing the host's end of its device", "on, l2 (for such devices only), off",
				"captures on the host's end do not see them", []knob.Benefit{knob.Latency, knob.CPU}),
			Knob: onlyInBPF(choiceKnob(calicoFelix, "bpfRedirectToPeer", []string{"on", "Enabled"}, []string{"l2", "L2Only"}, []string{"off", "Disabled"})),
		},
		{
			Facts: felix("cal.bpf_attach", "How Calico attaches its programs to devices", "tcx, tc",
				"tcx needs kernel 6.6", []knob.Benefit{knob.CPU}),
			Knob: onlyInBPF(choiceKnob(calicoFelix, "bpfAttachType", []string{"tcx", "TCX"}, []string{"tc", "TC"})),
		},
		{
			Facts: felix("cal.hostct", "The host's own traffic is not tracked where Calico's programs know it", "on, off",
				"host rules that match the connection state do not match", []knob.Benefit{knob.CPU, knob.Packets}),
			Knob: onlyInBPF(toggleKnob(calicoFelix, "bpfHostConntrackBypass")),
		},
		{
			Facts: knob.Facts{
				Name:     "cal.flowtable",
				Title:    "Packets of known connections skip most of netfilter (nftables' flow table)",
				Values:   "on, off",
				Scope:    knob.ScopeManifest,
				Helps:    []knob.Benefit{knob.Throughput, knob.CPU},
				Risk:     "packet and connection limits and DSCP marks have no effect for them (calico issue 13495)",
				Needs:    "a Calico that knows nftablesFlowTableOffload, in nftables mode; nodes that forward",
				Grade:    knob.GradeC,
				Evidence: "Calico's source, without a number",
				Undo:     undoCalico,
			},
			Knob: choiceKnob(calicoFelix, "nftablesFlowTableOffload", []string{"on", "All"}, []string{"off", "Disabled"}).annotated(func(s settings, r knob.Reading) knob.Reading {
				r.Note = ownCalico
				if mode, _ := s.get("nftablesMode"); r.Value == "on" && mode != "Enabled" {
					r.Note = "only where Felix is in nftables mode, and the file does not set nftablesMode to Enabled; " + r.Note
				}
				if on := isOn(s, "bpfEnabled"); r.Value == "on" && on {
					r.Effective, r.Note = "off", "the eBPF datapath is on in this file (knob cal.bpf): it has no flow table"
				}
				return r
			}),
		},
		{
			Facts: knob.Facts{
				Name:     "cal.tnl_csum",
				Title:    "Felix offloads the checksums of its VXLAN device",
				Values:   "off (offloading is broken), on (it works)",
				Scope:    knob.ScopeManifest,
				Helps:    []knob.Benefit{knob.Throughput, knob.Drops},
				Risk:     "off, checksums cost CPU where the NIC would compute them correctly",
				Needs:    "bad checksums or retransmits on the VXLAN device; try virt.tx_csum on one node first; this makes it permanent",
				Grade:    knob.GradeB,
				Evidence: "200 Mb/s to more than 9 Gb/s on kernel 6.12 (calico issue 11435)",
				Undo:     undoCalico + "; the device's feature stays as it is until Felix restarts",
			},
			Knob: manifestKnob{open: calicoFelix, keys: []string{detectKey}, read: readTunnelChecksum, pairs: pairsTunnelChecksum, trials: []string{"off", "on"}},
		},
		{
			Facts: knob.Facts{
				Name:       "cal.mtu",
				Title:      "MTU of Calico's VXLAN devices",
				Values:     "bytes, such as 8950",
				Scope:      knob.ScopeManifest,
				Helps:      []knob.Benefit{knob.Throughput, knob.CPU},
				Risk:       "packets that a part of the path cannot carry are lost",
				Needs:      "a probed path to every node; pods keep their MTU until they are recreated",
				Grade:      knob.GradeC,
				Evidence:   "Calico's documentation, without a number",
				Undo:       undoCalico + "; pods created meanwhile keep their MTU",
				ManualOnly: "a node that cannot carry it is cut off: probe the path to all of them first",
			},
			Knob: textKnob(calicoFelix, "vxlanMTU", knob.Number(576, 65535)).withNote("pods keep their MTU until they are made anew; " + ownCalico),
		},
	}
}

// felix are the facts of what belongs to Calico's eBPF datapath.
func felix(name, title, values, risk string, helps []knob.Benefit) knob.Facts {
	return knob.Facts{
		Name: name, Title: title, Values: values,
		Scope:    knob.ScopeManifest,
		Helps:    helps,
		Risk:     risk,
		Needs:    "Calico's eBPF datapath (cal.bpf)",
		Grade:    knob.GradeC,
		Evidence: "Calico's documentation, without a number",
		Undo:     undoCalico,
	}
}

// onlyInBPF is for what does nothing while Calico's eBPF datapath is off.
func onlyInBPF(k manifestKnob) manifestKnob {
	return k.annotated(func(s settings, r knob.Reading) knob.Reading {
		r.Note = ownCalico
		if !isOn(s, "bpfEnabled") {
			r.Note = "it does nothing while the eBPF datapath is off, as it is by this file (knob cal.bpf); " + r.Note
		}
		return r
	})
}

// detectKey is where Felix is told what it would find out: "A=true,B=false".
const (
	detectKey      = "featureDetectOverride"
	checksumBroken = "ChecksumOffloadBroken"
)

// override gives the parts of it, without the one that is ours, and that one's text.
func override(s settings) (others []string, ours string) {
	text, _ := s.get(detectKey)
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch {
		case name == checksumBroken:
			ours = value
		case name != "":
			others = append(others, strings.TrimSpace(part))
		}
	}
	return others, ours
}

// checksumWorks is what [checksumBroken] says.
var checksumWorks = knob.OnOff{On: "false", Off: "true"}

func readTunnelChecksum(s settings) knob.Reading {
	r := knob.Reading{Value: defaultValue, Note: ownCalico}
	_, ours := override(s)
	if isBroken, err := strconv.ParseBool(ours); err == nil {
		r.Value = checksumWorks.Parse(strconv.FormatBool(isBroken))
	}
	return r
}

func pairsTunnelChecksum(s settings, value string) ([]settingChange, error) {
	others, _ := override(s)
	text, known := checksumWorks.Text(value)
	if !known {
		return nil, errors.New("want off, on, or " + defaultValue)
	}
	return []settingChange{{key: detectKey, text: strings.Join(slices.Concat(others, []string{checksumBroken + "=" + text}), ",")}}, nil
}
