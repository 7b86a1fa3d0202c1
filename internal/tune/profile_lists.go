package tune

// kubeOVN is the list of Kube-OVN's documentation (1.8, removed there in 2025), in
// its order, with what is of use today in place of what is not.
func kubeOVN() Profile {
	return Profile{Name: "kube-ovn", Title: "The list of Kube-OVN's performance tuning, step by step", Steps: []Step{
		{
			Name: "1 CPU governor performance", Knob: "cpu.governor", On: Host, Value: "performance",
			Reason: "changing clock frequencies make latency vary; only the whole list was measured, never this alone",
		},
		{
			Name: "2 NIC rings to the maximum", Knob: "nic.ring", On: NICs, Value: "max",
			Reason: "fewer drops in bursts", Note: "sources disagree: a longer ring adds latency, and ESnet says it is no use from Linux 6.11 on. The link goes down and comes up",
		},
		{
			Name: "3 tuned profiles network-latency, network-throughput", Knob: "tuned.profile", State: NeverAutomatic,
			Reason: "many settings at once", Note: "network-latency also edits the boot parameters, and neither touches rings, interrupts or offloads; half of their sysctls never reach a pod. Take the single knobs: profiles latency and throughput",
		},
		{
			Name: "4 irqbalance off", Knob: "irq.balance", On: Host, Value: "off",
			Reason: "it moves pinned interrupts", Note: "sources disagree: Kube-OVN, Cilium and ESnet turn it off, AWS keeps it on; if it is off and nothing is pinned, all interrupts stay on few cores",
		},
		{
			Name: "4 NIC interrupts pinned", Knob: "irq.affinity", On: NICs, Value: "near",
			Reason: "each queue has its own core, near the card",
		},
		{
			Name: "5 OVN load balancer off (--enable-lb=false)", Knob: "kubeovn.lb", On: Manifests, Value: "off",
			Reason: "it sends every packet through connection tracking and the pipeline again: about 20 % of CPU", Note: "kube-proxy must implement Services; not for underlays and custom VPCs",
		},
		{
			Name: "6 FastPath kernel module", Knob: "kubeovn.fastpath", State: Obsolete,
			Reason: "tunnels skip netfilter: about 20 % of CPU", Note: "it had to be built for each kernel and broke iptables and ipvs in pods; the step below is what is left of the idea",
		},
		{
			Name: "6, today: tunnels out of connection tracking", Knob: "ct.notrack", On: Machines, Value: "on",
			Reason: "the outer packets of tunnels need no connection",
		},
		{
			Name: "7 OVS kernel module with popcnt and sse4.2", Knob: "ovs.kmod_simd", State: Obsolete,
			Reason: "flow hashing, 10 to 5 % of CPU", Note: "Open vSwitch has had no kernel module of its own since 3.0: use the kernel's",
		},
		{
			Name: "8 STT tunnels (TUNNEL_TYPE=stt)", Knob: "ovs.stt", State: Obsolete,
			Reason: "cards without offload for tunnels can still segment", Note: "Open vSwitch 3.6 removed it, and it needed the module of step 7; the step below does the same with today's cards",
		},
		{
			Name: "8, today: tunnels segmented by the card", Knob: "nic.tnl_seg", On: NICs, Value: "on",
			Reason: "what STT was for: the card segments TCP inside a tunnel",
		},
	}}
}

// cilium is the list of a script that is handed on with Cilium 1.12
// (performance.sh), in an order in which each step has what it needs.
func cilium() Profile {
	return Profile{Name: "cilium", Title: "The list of the Cilium tuning script (performance.sh), step by step", Steps: []Step{
		{
			Name: "rings to the maximum", Knob: "nic.ring", On: NICs, Value: "max",
			Reason: "fewer drops in bursts", Note: "the script takes line 3 of ethtool -g, whatever it says. A longer ring adds latency",
		},
		{
			Name: "irqbalance off", Knob: "irq.balance", On: Host, Value: "off",
			Reason: "it moves pinned interrupts", Note: "the script kills it, and the next boot starts it again; sources disagree whether off is better",
		},
		{
			Name: "interrupts pinned", Knob: "irq.affinity", On: NICs, Value: "near",
			Reason: "each queue has its own core, near the card", Note: "the script calls another one (set_irp_affnity.sh), which pins them to CPUs 0 and 1",
		},
		{
			Name: "CPU governor", Knob: "cpu.governor", On: Host, Value: "performance",
			Reason: "changing clock frequencies make latency vary",
		},
		{
			Name: "tuned profile", Knob: "tuned.profile", State: NeverAutomatic,
			Reason: "many settings at once", Note: "network-latency also edits the boot parameters. Take the single knobs: profiles latency and throughput",
		},
		{
			Name: "native routing (tunnel=disabled, ipv4-native-routing-cidr, auto-direct-node-routes)", Knob: "cil.native", On: Manifests, Value: "native",
			Reason: "no tunnel; the nodes must be on one layer 2 segment",
		},
		{
			Name: "kube-proxy-replacement=strict", Knob: "cil.kpr", On: Manifests, Value: "on",
			Reason: "the steps below need it", Note: "agents since 1.14 call it true, and refuse strict",
		},
		{
			Name: "enable-bpf-masquerade=true", Knob: "cil.masq", On: Manifests, Value: "on",
			Reason: "the step below needs it",
		},
		{
			Name: "enable-host-legacy-routing", Knob: "cil.hostroute", On: Manifests, Value: "on", State: WrongWayRound,
			Reason: "packets bypass the host's stack", Note: `the script's comment says "false" and its code writes "true", which turns eBPF host routing off; the value here is what the comment says`,
		},
		{
			Name: "install-no-conntrack-iptables-rules=true", Knob: "cil.noct", On: Manifests, Value: "on", Needs: []Prerequisite{{"cil.native", "native"}, {"cil.kpr", "on"}},
			Reason: "pods' packets skip connection tracking", Note: "useful only while host routing is off, as the script leaves it",
		},
		{
			Name: "enable-bandwidth-manager=true", Knob: "cil.bwm", On: Manifests, Value: "on",
			Reason: "pods' packets are paced", Note: "qdiscs stay on the cards when it is off again",
		},
		{
			Name: "enable-bbr", Knob: "cil.bbr", State: NeverAutomatic,
			Reason: "for lossy links", Note: "it is in the script's comment and not in its code; inside a data centre it gains nothing: venturi knob set cil.bbr on",
		},
		{
			Name: "Hubble off", Knob: "cil.hubble", On: Manifests, Value: "off",
			Reason: "1 to 15 % according to Cilium's documentation, nothing in another benchmark", Note: "flows can no longer be observed",
		},
		{
			Name: "all agents restarted at once", State: NeverAutomatic,
			Reason: "so that they read their settings", Note: "let the DaemonSet roll out, after trying one pair of nodes (CiliumNodeConfig)",
		},
		{
			Name: "kube-proxy removed, its iptables rules flushed", State: NeverAutomatic,
			Reason: "Cilium replaces it", Note: "the script never reaches the flushing (\"// cleanup\" ends it); remove kube-proxy last, by hand, and keep its manifest",
		},
	}}
}
