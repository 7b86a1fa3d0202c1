package tune

// kubeOVN is the list of Kube-OVN's documentation (1.8, removed there in 2025), in
// its order, with what is of use today in place of what is not.
func kubeOVN() Profile {
	return Profile{Name: "kube-ovn", Title: "The list of Kube-OVN's performance tuning, step by step", Steps: []Step{
		{
			Name: "1 CPU governor performance", Knob: "cpu.governor", On: Host, Value: "performance",
			Reason: "frequencies that change make latency vary; only the whole list was measured, never this alone",
		},
		{
			Name: "2 NIC rings to the maximum", Knob: "nic.ring", On: NICs, Value: "max",
			Reason: "fewer drops in bursts", Note: "sources disagree: a longer ring is a longer wait, and from Linux 6.11 on it is said to be of no use (ESnet). The link goes down and comes up",
		},
		{
			Name: "3 tuned profiles network-latency, network-throughput", Knob: "tuned.profile", State: NeverAutomatic,
			Reason: "many settings at once", Note: "network-latency edits the boot line too, and neither touches rings, interrupts or offloads; half of their sysctls never reach a pod. Take the single knobs: profiles latency and throughput",
		},
		{
			Name: "4 irqbalance off", Knob: "irq.balance", On: Host, Value: "off",
			Reason: "it moves interrupts that were placed", Note: "sources disagree: Kube-OVN, Cilium and ESnet turn it off, AWS keeps it on; off without placing, all interrupts stay on few cores",
		},
		{
			Name: "4 NIC interrupts pinned", Knob: "irq.affinity", On: NICs, Value: "near",
			Reason: "each queue has its core, near the card",
		},
		{
			Name: "5 OVN load balancer off (--enable-lb=false)", Knob: "kubeovn.lb", On: Manifests, Value: "off",
			Reason: "it sends every packet through connection tracking and round once more: about 20 % of CPU", Note: "kube-proxy must do the Services; not for underlays and VPCs of one's own",
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
			Reason: "hashing of flows, 10 to 5 % of CPU", Note: "Open vSwitch has had no kernel module of its own since 3.0: the kernel's has what it needs",
		},
		{
			Name: "8 STT tunnels (TUNNEL_TYPE=stt)", Knob: "ovs.stt", State: Obsolete,
			Reason: "cards without offload for tunnels can still segment", Note: "Open vSwitch 3.6 has removed it, and it needed the module of step 7; the step below gives it with cards of today",
		},
		{
			Name: "8, today: tunnels segmented by the card", Knob: "nic.tnl_seg", On: NICs, Value: "on",
			Reason: "what STT was for: TCP inside a tunnel is cut by the card",
		},
	}}
}

// cilium is the list of a script that is handed on with Cilium 1.12
// (performance.sh), in an order in which each step has what it needs.
func cilium() Profile {
	return Profile{Name: "cilium", Title: "The list of the Cilium tuning script (performance.sh), step by step", Steps: []Step{
		{
			Name: "rings to the maximum", Knob: "nic.ring", On: NICs, Value: "max",
			Reason: "fewer drops in bursts", Note: "the script takes line 3 of ethtool -g, whatever stands there. A longer ring is a longer wait",
		},
		{
			Name: "irqbalance off", Knob: "irq.balance", On: Host, Value: "off",
			Reason: "it moves interrupts that were placed", Note: "the script kills it, and the next boot starts it again; sources disagree whether off is better",
		},
		{
			Name: "interrupts pinned", Knob: "irq.affinity", On: NICs, Value: "near",
			Reason: "each queue has its core, near the card", Note: "the script calls another one (set_irp_affnity.sh) that puts them on CPUs 0 and 1",
		},
		{
			Name: "CPU governor", Knob: "cpu.governor", On: Host, Value: "performance",
			Reason: "frequencies that change make latency vary",
		},
		{
			Name: "tuned profile", Knob: "tuned.profile", State: NeverAutomatic,
			Reason: "many settings at once", Note: "network-latency edits the boot line too. Take the single knobs: profiles latency and throughput",
		},
		{
			Name: "native routing (tunnel=disabled, ipv4-native-routing-cidr, auto-direct-node-routes)", Knob: "cil.native", On: Manifests, Value: "native",
			Reason: "saves the tunnel; the nodes must be next to each other",
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
			Reason: "packets do not pass the host's stack", Note: `the script's comment says "false" and its code writes "true", which turns eBPF host routing off; the value here is what the comment says`,
		},
		{
			Name: "install-no-conntrack-iptables-rules=true", Knob: "cil.noct", On: Manifests, Value: "on", Needs: []Need{{"cil.native", "native"}, {"cil.kpr", "on"}},
			Reason: "pods' packets skip connection tracking", Note: "of use only while host routing is off, as the script leaves it",
		},
		{
			Name: "enable-bandwidth-manager=true", Knob: "cil.bwm", On: Manifests, Value: "on",
			Reason: "pods' packets are paced", Note: "queues stay on the cards when it is off again",
		},
		{
			Name: "enable-bbr", Knob: "cil.bbr", State: NeverAutomatic,
			Reason: "for ways that lose packets", Note: "it is in the script's comment and not in its code; inside of a data centre it has nothing to win: venturi knob set cil.bbr on",
		},
		{
			Name: "Hubble off", Knob: "cil.hubble", On: Manifests, Value: "off",
			Reason: "1 to 15 % by Cilium's documentation, nothing by another benchmark", Note: "nobody can look at flows any more",
		},
		{
			Name: "all agents restarted at once", State: NeverAutomatic,
			Reason: "so that they read their settings", Note: "let the DaemonSet roll, after one pair of nodes was tried (CiliumNodeConfig)",
		},
		{
			Name: "kube-proxy removed, its iptables rules flushed", State: NeverAutomatic,
			Reason: "Cilium does its work then", Note: "the script never comes to the flushing (\"// cleanup\" ends it); remove kube-proxy last, by hand, and keep its manifest",
		},
	}}
}
