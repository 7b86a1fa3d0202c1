package tune

import "slices"

// latency, throughput and balanced are what this project's own survey of guides
// came to: candidates to be proved, not values to be trusted.
func latency() Profile {
	return Profile{Name: "latency", Title: "Low and even latency, at the expense of power and some throughput", Steps: slices.Concat(
		mend(),
		[]Step{
			{Name: "CPU governor", Knob: "cpu.governor", On: Host, Value: "performance", Reason: "a core that is slow when a packet arrives takes time to speed up"},
			{Name: "energy preference", Knob: "cpu.epp", On: Host, Value: "performance", Reason: "as the governor, for processors that choose their clock themselves"},
			{Name: "idle states", Knob: "cpu.resume_latency", On: Host, Reason: "a core that sleeps deeply takes up to hundreds of microseconds to wake"},
			{Name: "coalescing", Knob: "nic.coalesce", On: NICs, Ladder: []string{"adaptive-rx=off,rx-usecs=0", "adaptive-rx=off,rx-usecs=2", "adaptive-rx=off,rx-usecs=8"}, Reason: "packets wait in the card for more to arrive"},
			{Name: "rings", Knob: "nic.ring", On: NICs, Reason: "a packet in a long ring waits behind all others: the smallest ring that drops nothing", Note: "the link goes down and comes up: some cards take seconds"},
			{Name: "channels", Knob: "nic.channels", On: NICs, Reason: "a queue for each core near the card avoids waiting for another core", Note: "the link may go down and come up"},
			{Name: "interrupts", Knob: "irq.affinity", On: NICs, Reason: "the core that takes the interrupt is near the card, and always the same"},
			{Name: "busy polling", Knob: "net.busy_poll", On: Host, Value: "50", Reason: "a program that waits for a packet polls the card instead of sleeping; only with spare cores"},
			{Name: "no deferred interrupts", Knob: "nic.defer_irq", On: NICs, Value: "off", Reason: "a deferred interrupt delays the packet of an idle connection"},
		},
		ciliumSteps(true), kubeOVNSteps(), calicoSteps(true), personal(),
	)}
}

func throughput() Profile {
	return Profile{Name: "throughput", Title: "As much data as possible per CPU; latency may grow", Steps: slices.Concat(
		mend(),
		[]Step{
			{Name: "CPU governor", Knob: "cpu.governor", On: Host, Value: "performance", Reason: "the core that takes the interrupts is often the bottleneck"},
			{Name: "energy preference", Knob: "cpu.epp", On: Host, Value: "performance", Reason: "as the governor, for processors that choose their clock themselves"},
			{Name: "coalescing", Knob: "nic.coalesce", On: NICs, Value: "adaptive-rx=on", Reason: "fewer interrupts when there is much traffic"},
			{Name: "rings", Knob: "nic.ring", On: NICs, Condition: ringDrops, Reason: "the next larger size, until nothing is dropped", Note: "the link goes down and comes up: some cards take seconds"},
			{Name: "channels", Knob: "nic.channels", On: NICs, Reason: "the fewest that do not overflow: each queue adds interrupts", Note: "the link may go down and come up"},
			{Name: "interrupts", Knob: "irq.affinity", On: NICs, Reason: "spread over the cores near the card: the wrong socket costs up to half"},
			{Name: "no busy polling", Knob: "net.busy_poll", On: Host, Value: "0", Reason: "it burns CPU that data needs"},
			{Name: "deferred interrupts", Knob: "nic.defer_irq", On: NICs, Value: "irqs=10,timeout=20000", Reason: "fewer interrupts, and larger batches"},
			{Name: "threaded polling", Knob: "nic.napi_threaded", On: Tunnels, Value: "on", Reason: "the scheduler can spread the load of many tunnels"},
			{Name: "GRO of forwarded UDP", Knob: "nic.udp_gro_fwd", On: NICs, Value: "on", Reason: "forwarded packets of tunnels are forwarded in batches"},
			{Name: "TCP buffers of pods", Knob: "tcp.mem", On: Pods, Reason: "the bandwidth-delay product; no use at the round-trip times of a data centre"},
			{Name: "long packets", Knob: "nic.big_tcp", On: NICs, Reason: "fewer, longer packets through the stack; only where the whole path was tested"},
		},
		queues(), ciliumSteps(true), []Step{
			{Name: "BIG TCP", Knob: "cil.bigtcp", On: Manifests, Value: "both", Reason: "fewer, longer packets through the stack, from 100 Gb/s on"},
		},
		kubeOVNSteps(), calicoSteps(false), []Step{
			{Name: "flow table", Knob: "cal.flowtable", On: Manifests, Value: "on", Reason: "packets of known connections skip most of netfilter"},
		}, personal(),
	)}
}

func balanced() Profile {
	return Profile{Name: "balanced", Title: "Fix what is wrong, and change little else: start with this one", Steps: slices.Concat(
		mend(),
		[]Step{
			{Name: "energy preference", Knob: "cpu.epp", On: Host, Value: "balance_performance", Reason: "the governor is left alone unless a proof shows a gain"},
			{Name: "coalescing", Knob: "nic.coalesce", On: NICs, Value: "adaptive-rx=on", Reason: "the card adapts to the traffic"},
			{Name: "rings", Knob: "nic.ring", On: NICs, Condition: ringDrops, Reason: "more room, only where packets were dropped", Note: "the link goes down and comes up: some cards take seconds"},
			{Name: "no busy polling", Knob: "net.busy_poll", On: Host, Value: "0", Reason: "it burns CPU that others may need"},
			{Name: "no deferred interrupts", Knob: "nic.defer_irq", On: NICs, Value: "off", Reason: "the kernel's default"},
		},
		queues(), ciliumSteps(false), []Step{
			{Name: "mirror", Knob: "kubeovn.mirror", On: Manifests, Value: "off", Condition: mirrorOn, Reason: "a copy of all traffic costs 5 to 10 % of CPU"},
		}, calicoSteps(false), personal(),
	)}
}

// mend is what every profile looks at first: the largest gains come from what is
// off without anybody wanting it.
func mend() []Step {
	steps := []Step{
		{Name: "checksums on tunnels", Knob: "virt.tx_csum", On: Tunnels, Reason: "off where the card corrupts them: 0.2 to more than 9 Gb/s; on where it is off for no reason: both are tried"},
	}
	for _, on := range []Group{NICs, Tunnels, Veths} {
		when := Condition{}
		if on == NICs {
			when = segments
		}
		steps = append(steps,
			Step{Name: "checksums", Knob: "nic.csum", On: on, Value: "on", Reason: "segmentation needs it"}, // and so it comes first
			Step{Name: "segmentation", Knob: "nic.seg", On: on, Value: "on", Condition: when, Reason: "without it each packet goes through the whole stack alone"},
			Step{Name: "merging on receive", Knob: "nic.gro", On: on, Value: "on", Reason: "as segmentation, on receive"},
		)
	}
	steps = append(steps,
		Step{Name: "tunnel segmentation", Knob: "nic.tnl_seg", On: NICs, Value: "on", Reason: "the card segments inside tunnels too"},
		Step{Name: "UDP ports in the receive hash", Knob: "nic.rss_udp", On: NICs, Value: "sdfn", Reason: "without ports all packets of a tunnel between two machines go to one core"},
		Step{Name: "congestion control of pods", Knob: "tcp.cc", On: Pods, Reason: "an unusual one costs throughput or latency: the available ones are tried"},
		Step{Name: "congestion control of machines", Knob: "tcp.cc", On: Machines, Reason: "as in pods"},
	)
	for _, on := range []Group{NICs, Tunnels, Veths} {
		steps = append(steps, Step{Name: "cores for received packets", Knob: "net.rps", On: on, Reason: "masks that put everything on one core, or no mask where there is one queue"})
	}
	return steps
}

// queues are the lengths that are changed only where something was dropped.
func queues() []Step {
	return []Step{
		{Name: "backlog", Knob: "net.backlog", On: Host, Condition: backlogDrops, Reason: "packets from virtual devices wait here for a core"},
		{Name: "budget", Knob: "net.budget", On: Host, Condition: budgetSqueezes, Reason: "a core that must stop early leaves packets in the card"},
	}
}

func ciliumSteps(netkit bool) []Step {
	steps := []Step{
		{Name: "Cilium: native routing", Knob: "cil.native", On: Manifests, Value: "native", Reason: "no tunnel, where the network knows the pods' addresses"},
		{Name: "Cilium: kube-proxy replacement", Knob: "cil.kpr", On: Manifests, Value: "on", Reason: "host routing needs it"},
		{Name: "Cilium: BPF masquerade", Knob: "cil.masq", On: Manifests, Value: "on", Reason: "host routing needs it"},
		{Name: "Cilium: host routing", Knob: "cil.hostroute", On: Manifests, Value: "on", Reason: "packets bypass the host's stack"},
	}
	if netkit {
		steps = append(steps, Step{Name: "Cilium: netkit", Knob: "cil.netkit", On: Manifests, Value: "netkit", Reason: "a device without the detour of veth"})
	}
	return steps
}

func kubeOVNSteps() []Step {
	return []Step{
		{Name: "Kube-OVN: no load balancer", Knob: "kubeovn.lb", On: Manifests, Value: "off", Reason: "it tracks every packet; overlay with kube-proxy only"},
		{Name: "Kube-OVN: no mirror", Knob: "kubeovn.mirror", On: Manifests, Value: "off", Condition: mirrorOn, Reason: "a copy of all traffic costs 5 to 10 % of CPU"},
	}
}

func calicoSteps(bpf bool) []Step {
	steps := []Step{
		{Name: "Calico: tunnels", Knob: "cal.encap", On: Manifests, Value: "crosssubnet", Condition: encapsulated, Reason: "nodes of one subnet need none"},
		{Name: "Calico: no tunnels at all", Knob: "cal.encap", State: NeverAutomatic, Reason: "no node needs one where the network knows the pods' addresses", Note: "without BGP to all nodes or to the routers, nodes are cut off from each other: with BGP, set cal.encap to never by hand"},
	}
	if bpf {
		steps = append(steps, Step{Name: "Calico: eBPF", Knob: "cal.bpf", On: Manifests, Value: "on", Reason: "a shorter path through the node"})
	}
	return steps
}

// personal are steps that only a person takes.
func personal() []Step {
	return []Step{
		{Name: "SMT off", State: NeverAutomatic, Reason: "siblings share a core: results vary", Note: "interrupt masks and the kubelet's shift: set it in the firmware before the node joins"},
		{Name: "boot line", State: NeverAutomatic, Reason: "iommu=pt, isolated cores and the like", Note: "it needs a reboot, and can keep the host from booting"},
		{Name: "MTU", Knob: "nic.mtu", State: NeverAutomatic, Reason: "fewer packets for the same data", Note: "where one part of the path cannot carry it, packets are lost: probe the whole path first, then set nic.mtu by hand from the card upwards"},
		{Name: "kube-proxy removed", State: NeverAutomatic, Reason: "Cilium and Calico can replace it", Note: "Services stop when they cannot: remove it last, by hand, and keep its manifest"},
	}
}
