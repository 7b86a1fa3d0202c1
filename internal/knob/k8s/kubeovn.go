package k8s

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/verr"
)

// How changes of Kube-OVN come into effect, and how they go.
const (
	undoController = "the file gets its old bytes back; apply it and wait until the controller has rewritten OVN's tables"
	undoAgent      = "the file gets its old bytes back; apply it and let the DaemonSet roll out again"
	rollController = "in effect when the controller has restarted with it: kubectl -n kube-system rollout status deploy/kube-ovn-controller"
	rollAgent      = "in effect on a node when its kube-ovn-cni has restarted with it: kubectl -n kube-system rollout status ds/kube-ovn-cni"
)

// kubeOVNController finds the arguments of Kube-OVN's controller.
func kubeOVNController(f manifest) (settings, error) {
	s, err := f.argumentsOf("Deployment", "kube-ovn-controller", "kube-ovn-controller")
	if err != nil {
		return nil, err
	}
	return s, nil
}

// kubeOVNAgent finds the arguments of Kube-OVN's agent on the nodes.
func kubeOVNAgent(f manifest) (settings, error) {
	s, err := f.argumentsOf("DaemonSet", "kube-ovn-cni", "cni-server")
	if err != nil {
		return nil, err
	}
	return s, nil
}

// kubeOVNKnobs are arguments of Kube-OVN's programs.
func kubeOVNKnobs() []knob.Entry {
	return []knob.Entry{
		{
			Facts: knob.Facts{
				Name:     "kubeovn.lb",
				Title:    "OVN balances the load of Services; off, kube-proxy does it",
				Values:   "on, off",
				Scope:    knob.ScopeManifest,
				Helps:    []knob.Benefit{knob.CPU, knob.Latency, knob.Packets},
				Risk:     "off, Services stop in underlay subnets and in custom VPCs",
				Needs:    "kube-proxy (or another that serves Services) on every node; overlay subnets of the default VPC only",
				Grade:    knob.GradeB,
				Evidence: "about 20 % of the CPU that traffic costs (Kube-OVN's documentation): it sends every packet through connection tracking and the pipeline again",
				Undo:     undoController + "; the rows of load_balancer must be as many as before",
			},
			Knob: toggleKnob(kubeOVNController, "enable-lb").withNote(rollController + "; off, kube-proxy must serve the Services, and underlay subnets and VPCs of one's own have none"),
		},
		{
			Facts: knob.Facts{
				Name:     "kubeovn.ct_skip",
				Title:    "Destinations to which OVN does not track connections",
				Values:   "networks, separated by commas: 10.16.0.0/16,fd00:10:16::/112",
				Scope:    knob.ScopeManifest,
				Helps:    []knob.Benefit{knob.CPU, knob.Packets},
				Risk:     "network policies and Services have no effect for them",
				Needs:    "a Kube-OVN of late 2025 or newer: older controllers do not start with an unknown argument",
				Grade:    knob.GradeC,
				Evidence: "Kube-OVN's documentation, without a number",
				Undo:     undoController,
			},
			Knob: textKnob(kubeOVNControllerText, "skip-conntrack-dst-cidrs", networkList).withNote(rollController + "; policies and Services do not hold for these networks"),
		},
		{
			Facts: knob.Facts{
				Name:     "kubeovn.lb_local",
				Title:    "OVN's load balancer prefers backends on the same node",
				Values:   "on, off",
				Scope:    knob.ScopeManifest,
				Helps:    []knob.Benefit{knob.Latency},
				Risk:     "nodes with many clients load their own backends more than others",
				Needs:    "OVN's load balancer (kubeovn.lb on)",
				Grade:    knob.GradeC,
				Evidence: "Kube-OVN's documentation, without a number",
				Undo:     undoController,
			},
			Knob: toggleKnob(kubeOVNController, "enable-ovn-lb-prefer-local").annotated(func(s settings, r knob.Reading) knob.Reading {
				r.Note = rollController
				if lb, there := s.get("enable-lb"); r.Value == "on" && there && lb == "false" {
					r.Effective = "off"
					r.Note = "OVN's load balancer is off in this file (knob kubeovn.lb)"
				}
				return r
			}),
		},
		{
			Facts: knob.Facts{
				Name:     "kubeovn.mirror",
				Title:    "A copy of all traffic of pods goes to a mirror device",
				Values:   "on, off",
				Scope:    knob.ScopeManifest,
				Helps:    []knob.Benefit{knob.CPU, knob.Throughput},
				Risk:     "off, captures on the mirror device see nothing; an annotation can mirror single pods",
				Needs:    "turn it off where it is on",
				Grade:    knob.GradeB,
				Evidence: "2.96 against 3.44 Gb/s in messages of 1 KiB on one node, and 5 to 10 % of CPU (Kube-OVN's documentation)",
				Undo:     undoAgent,
			},
			Knob: toggleKnob(kubeOVNAgent, "enable-mirror").withNote(rollAgent),
		},
		{
			Facts: knob.Facts{
				Name:       "kubeovn.np",
				Title:      "Kube-OVN enforces network policies",
				Values:     "on, off",
				Scope:      knob.ScopeManifest,
				Helps:      []knob.Benefit{knob.Packets},
				Risk:       "off, no network policy has an effect: every pod reaches every other",
				Needs:      "a cluster that needs no policies",
				Grade:      knob.GradeB,
				Evidence:   "a lock of connection tracking for each UDP packet was found with policies, without a figure",
				Undo:       undoController,
				ManualOnly: "it removes protection: only a person can know that nobody needs it",
			},
			Knob: toggleKnob(kubeOVNController, "enable-np").withNote(rollController),
		},
		{
			Facts: knob.Facts{
				Name:     "kubeovn.encap_csum",
				Title:    "Outer checksums of Kube-OVN's tunnels",
				Values:   "on, off",
				Scope:    knob.ScopeManifest,
				Helps:    []knob.Benefit{knob.Throughput, knob.CPU},
				Risk:     "off, corruption of the outer header goes unnoticed",
				Needs:    "turn it off with NICs that do not compute tunnels' checksums",
				Grade:    knob.GradeC,
				Evidence: "OVN's and Kube-OVN's documentation, without a number",
				Undo:     undoAgent,
			},
			Knob: toggleKnob(kubeOVNAgent, "encap-checksum").withNote(rollAgent + "; the agent writes it to the node's database at each start, whatever knob ovn.encap_csum has set there"),
		},
		{
			Facts: knob.Facts{
				Name:       "kubeovn.encap",
				Title:      "The tunnel that Kube-OVN uses between nodes",
				Values:     "geneve, vxlan",
				Scope:      knob.ScopeManifest,
				Helps:      []knob.Benefit{knob.Latency, knob.Throughput},
				Risk:       "all nodes must change together: until then nodes with different tunnels do not reach each other; with vxlan some network policies have no effect",
				Needs:      "the DaemonSets ovs-ovn and kube-ovn-cni in one file, or one file after the other",
				Grade:      knob.GradeB,
				Evidence:   "overlay to underlay took latency from 15.2 to 14.3 microseconds and UDP of 1 KiB from 2.77 to 3.22 Gb/s, but TCP of 4 KiB from 16.0 to 15.1 (Kube-OVN's documentation); nothing on vxlan",
				Undo:       "the files get their old bytes back; all nodes change together again, with another outage",
				ManualOnly: "it interrupts the network of the whole cluster during the change",
			},
			Knob: choiceKnob(kubeOVNTunnel, "tunnel", []string{"geneve", "geneve"}, []string{"vxlan", "vxlan"}).annotated(func(s settings, r knob.Reading) knob.Reading {
				r.Note = "in effect when ovs-ovn and kube-ovn-cni have restarted on all nodes"
				if r.Value == "stt" {
					r.Note = "stt is gone: Open vSwitch 3.6 has removed it, and before it needed a module that is not built any more; take geneve and a NIC that offloads it"
				}
				return r
			}),
		},
	}
}

// kubeOVNControllerText is kubeOVNController for an argument that is no bool: its
// value may be the next item.
func kubeOVNControllerText(f manifest) (settings, error) {
	s, err := f.argumentsOf("Deployment", "kube-ovn-controller", "kube-ovn-controller")
	s.separate = true
	if err != nil {
		return nil, err
	}
	return s, nil
}

func networkList(value string) error {
	for one := range strings.SplitSeq(value, ",") {
		if _, err := netip.ParsePrefix(one); err != nil {
			return fmt.Errorf("want networks such as 10.16.0.0/16, and found %q", one)
		}
	}
	return nil
}

// tunnelSettings is the one setting of Kube-OVN that two programs must have alike.
type tunnelSettings struct {
	switches *variableSetting  // of ovs-ovn; nil: it is not in the file
	agent    *argumentSettings // of kube-ovn-cni
}

func kubeOVNTunnel(f manifest) (settings, error) {
	var s tunnelSettings
	agent, agentErr := f.argumentsOf("DaemonSet", "kube-ovn-cni", "cni-server")
	if agentErr == nil {
		agent.separate = true
		s.agent = &agent
	} else if verr.Code(agentErr) != verr.Missing {
		return nil, agentErr
	}
	switches, err := f.variableOf("DaemonSet", "ovs-ovn", "openvswitch", "TUNNEL_TYPE")
	if err == nil {
		s.switches = &switches
	} else if verr.Code(err) != verr.Missing {
		return nil, err
	}
	if s.agent == nil && s.switches == nil {
		return nil, err
	}
	return s, nil
}

func (s tunnelSettings) get(string) (string, bool) {
	if s.switches != nil {
		if text, there := s.switches.get(""); there {
			return text, true
		}
	}
	if s.agent != nil {
		return s.agent.get("network-type")
	}
	return "", false
}

func (s tunnelSettings) set(_, text string) error {
	if s.switches != nil {
		if err := s.switches.set("", text); err != nil {
			return err
		}
	}
	if s.agent != nil {
		return s.agent.set("network-type", text)
	}
	return nil
}

func (s tunnelSettings) drop(string) error {
	if s.switches != nil {
		return errors.New("the switches read it from a variable that is always there: set it to geneve, which is Kube-OVN's own")
	}
	return s.agent.drop("network-type")
}

func (s tunnelSettings) partial() bool { return s.switches == nil || s.agent == nil }
