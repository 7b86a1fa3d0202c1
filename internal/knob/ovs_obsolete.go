package knob

// obsoleteSwitching is advice that is still given, and that nothing answers to
// any more.
func obsoleteSwitching() []Entry {
	entries := []Facts{
		{
			Name:     "ovs.kmod_simd",
			Title:    "a kernel module of Open vSwitch built with popcnt and sse4.2",
			Needs:    "Open vSwitch before 3.0: its tree has had no kernel module since, and 4.0 removes what speaks to an old one",
			Evidence: "the share of looking flows up in CPU time halved, 10 to 5 % (Kube-OVN's documentation); the folder datapath/ is in branch-2.17 and not in branch-3.5, so the documented build cannot work",
			Grade:    GradeB,
			Risk:     "taints the kernel",
			Instead:  "use the kernel's own module openvswitch; to save its lookups, see ovs.hw_offload",
		},
		{
			Name:     "ovs.stt",
			Title:    "tunnels of type STT (TUNNEL_TYPE=stt)",
			Needs:    "Open vSwitch before 3.6 and its kernel module of before 3.0. A switch that has it lists stt: ovs-vsctl get Open_vSwitch . iface_types",
			Evidence: "\"several times\" the throughput (Kube-OVN's documentation, of its day); removed in Open vSwitch 3.6",
			Grade:    GradeB,
			Risk:     "the whole overlay is down when one machine lacks it",
			Instead:  "use geneve or vxlan with segmentation for tunnels on the card (nic.tnl_seg), or none at all: kubeovn.encap",
		},
		{
			Name:     "ovs.avx512",
			Title:    "lookups of the userspace datapath with AVX512",
			Needs:    "Open vSwitch before 4.0, which removes it, and datapath type netdev",
			Evidence: "announced as removed in Open vSwitch's own NEWS",
			Grade:    GradeC,
			Risk:     "none beside being gone after an upgrade",
			Instead:  "leave it; of the userspace datapath's caches, see ovs.emc",
		},
		{
			Name:     "kubeovn.fastpath",
			Title:    "Kube-OVN's module FastPath.ko, which takes packets past netfilter",
			Needs:    "a module built for exactly this kernel, and no secure boot; Kube-OVN's documents have had no way to build it since September 2025",
			Evidence: "about 20 % of latency and of CPU (its README), on kernels of its day; not shown by repeated runs",
			Grade:    GradeB,
			Risk:     "breaks redirects of iptables, IPVS and meshes in pods, and the machine's own rules on UDP port 6081",
			Instead:  "keep tunnels out of connection tracking (ct.notrack), turn OVN's load balancer off where kube-proxy does Services (kubeovn.lb), and skip tracking for what needs none (kubeovn.ct_skip)",
		},
		{
			Name:     "kubeovn.tuning_package",
			Title:    "`kubectl ko tuning` and its prebuilt packages",
			Needs:    "Kube-OVN's documents dropped it on 2025-09-01",
			Evidence: "it installs the modules of ovs.kmod_simd and kubeovn.fastpath",
			Grade:    GradeC,
			Risk:     "foreign modules in every machine's kernel",
			Instead:  "let venturi tune --profile kube-ovn say what of that list is still of use here",
		},
	}
	var table []Entry
	for _, f := range entries {
		f.Scope, f.Helps = ScopeSwitch, []Effect{CPU}
		f.Values, f.Undo = "none: it is not set by Venturi", "nothing is changed"
		table = append(table, Entry{Facts: f})
	}
	return table
}
