package vswitch

import "github.com/venturi-net/venturi/internal/knob"

// obsoleteSwitching is advice that is still given, and that nothing answers to
// any more.
func obsoleteSwitching() []knob.Entry {
	entries := []knob.Facts{
		{
			Name:     "ovs.kmod_simd",
			Title:    "A kernel module of Open vSwitch built with popcnt and sse4.2",
			Needs:    "Open vSwitch before 3.0: later trees have no kernel module, and 4.0 removes the interface to an old one",
			Evidence: "the share of flow lookups in CPU time halved, 10 to 5 % (Kube-OVN's documentation); the folder datapath/ is in branch-2.17 and not in branch-3.5, so the documented build cannot work",
			Grade:    knob.GradeB,
			Risk:     "taints the kernel",
			Instead:  "use the kernel's own module openvswitch; to save its lookups, see ovs.hw_offload",
		},
		{
			Name:     "ovs.stt",
			Title:    "Tunnels of type STT (TUNNEL_TYPE=stt)",
			Needs:    "Open vSwitch before 3.6, and its kernel module from before 3.0. A switch that has it lists stt: ovs-vsctl get Open_vSwitch . iface_types",
			Evidence: "\"several times\" the throughput (Kube-OVN's documentation, of its day); removed in Open vSwitch 3.6",
			Grade:    knob.GradeB,
			Risk:     "the whole overlay is down when one machine lacks it",
			Instead:  "use geneve or vxlan with tunnel segmentation on the card (nic.tnl_seg), or another tunnel: kubeovn.encap",
		},
		{
			Name:     "ovs.avx512",
			Title:    "Lookups of the userspace datapath with AVX512",
			Needs:    "Open vSwitch before 4.0, which removes it, and datapath type netdev",
			Evidence: "its removal is announced in Open vSwitch's NEWS",
			Grade:    knob.GradeC,
			Risk:     "none, except that it is gone after an upgrade",
			Instead:  "leave it alone; for the userspace datapath's caches, see ovs.emc",
		},
		{
			Name:     "kubeovn.fastpath",
			Title:    "Kube-OVN's module FastPath.ko, which lets packets bypass netfilter",
			Needs:    "a module built for exactly this kernel, and no secure boot; Kube-OVN's documentation has not described how to build it since September 2025",
			Evidence: "about 20 % of latency and of CPU (its README), on kernels of its day; not shown by repeated runs",
			Grade:    knob.GradeB,
			Risk:     "breaks iptables, IPVS and mesh redirects in pods, and the host's own rules on UDP port 6081",
			Instead:  "keep tunnels out of connection tracking (ct.notrack), turn OVN's load balancer off where kube-proxy implements Services (kubeovn.lb), and skip tracking where none is needed (kubeovn.ct_skip)",
		},
		{
			Name:     "kubeovn.tuning_package",
			Title:    "`kubectl ko tuning` and its prebuilt packages",
			Needs:    "Kube-OVN's documentation dropped it on 2025-09-01",
			Evidence: "it installs the modules of ovs.kmod_simd and kubeovn.fastpath",
			Grade:    knob.GradeC,
			Risk:     "third-party modules in every host's kernel",
			Instead:  "run venturi tune --profile kube-ovn, which says what of that list is still useful here",
		},
	}
	var table []knob.Entry
	for _, f := range entries {
		f.Scope, f.Helps = knob.ScopeSwitch, []knob.Benefit{knob.CPU}
		f.Values, f.Undo = "none: it is not set by Venturi", "nothing is changed"
		table = append(table, knob.Entry{Facts: f})
	}
	return table
}
