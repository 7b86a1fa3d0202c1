package doctor

import (
	"maps"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/host"
)

var obsoleteFastPath = Rule{
	Facts: Facts{
		Code:     "obsolete-fastpath",
		Title:    "Kube-OVN's FastPath module is loaded",
		Severity: Warning,
		Looks:    "/proc/modules: kube_ovn_fastpath",
		Effect:   Impact{"it saves about 20 % of latency and CPU, but iptables and ipvs rules, and service mesh redirects in pods, have no effect", "Kube-OVN documentation", "B"},
		Do:       "Kube-OVN dropped it from its documentation in September 2025: unload it, and switch OVN's load balancer off where kube-proxy runs (knob kubeovn.lb)",
	},
	Check: func(v *View) []Finding {
		return v.modules(func(name string, _ bool) bool {
			return name == "kube_ovn_fastpath" || name == "fastpath"
		})
	},
}

var obsoleteOVSModule = Rule{
	Facts: Facts{
		Code:     "obsolete-ovs-module",
		Title:    "Open vSwitch uses an out-of-tree kernel module",
		Severity: Warning,
		Looks:    "/sys/module/openvswitch/taint: the module was not built with the kernel",
		Effect:   Impact{"built for SSE 4.2 it took the CPU for flows from 10 to 5 %; Open vSwitch 3.0 removed it, and it gets no fixes", "Open vSwitch NEWS, Kube-OVN documentation", "B"},
		Do:       "use the kernel's own module",
	},
	Check: func(v *View) []Finding {
		return v.modules(func(name string, foreign bool) bool { return name == "openvswitch" && foreign })
	},
}

var obsoleteSTT = Rule{
	Facts: Facts{
		Code:     "obsolete-stt",
		Title:    "Tunnels use STT",
		Severity: Warning,
		Looks:    "modules and devices of STT",
		Effect:   Impact{"several times Geneve's throughput on cards without tunnel offload; it needs a module that is no longer maintained, and Open vSwitch 3.6 removed it", "Kube-OVN documentation, Open vSwitch NEWS", "B"},
		Do:       "move to Geneve or VXLAN, on cards that offload them (knob nic.tnl_seg)",
	},
	Check: func(v *View) []Finding {
		all := v.modules(func(name string, _ bool) bool { return name == "vport_stt" || name == "stt" })
		return append(all, eachDevice(v, func(s *Netns, d *host.NetDevice) []Finding {
			if d.Kind != "stt" && !strings.HasPrefix(d.Name, "stt_sys") {
				return nil
			}
			return []Finding{finding(s, d, Evidence{"device", d.Name + " (" + d.Kind + ")"})}
		})...)
	},
}

// modules finds loaded modules.
func (v *View) modules(wanted func(name string, foreign bool) bool) (all []Finding) {
	for _, name := range slices.Sorted(maps.Keys(v.Modules)) {
		if wanted(name, v.Modules[name]) {
			text := name + " is loaded"
			if v.Modules[name] {
				text += ", and was not built with the kernel"
			}
			all = append(all, finding(nil, nil, Evidence{"/proc/modules", text}))
		}
	}
	return all
}
