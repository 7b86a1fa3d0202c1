package tune

import "slices"

// latency, throughput and balanced are what this project's own survey of guides
// came to: candidates to be proved, not values to be trusted.
func latency() Profile {
	return Profile{Name: "latency", Title: "Short and even delays; power and some throughput are given for it", Steps: slices.Concat(
		mend(),
		[]Step{
			{Name: "CPU governor", Knob: "cpu.governor", On: Host, Value: "performance", Reason: "a core that is slow when a packet comes takes time to become fast"},
			{Name: "energy preference", Knob: "cpu.epp", On: Host, Value: "performance", Reason: "as the governor, for processors that choose themselves"},
			{Name: "idle states", Knob: "cpu.resume_latency", On: Host, Reason: "a core that sleeps deeply takes up to hundreds of microseconds to wake"},
			{Name: "coalescing", Knob: "nic.coalesce", On: NICs, Ladder: []string{"adaptive-rx=off,rx-usecs=0", "adaptive-rx=off,rx-usecs=2", "adaptive-rx=off,rx-usecs=8"}, Reason: "packets wait in the card for others to come"},
			{Name: "rings", Knob: "nic.ring", On: NICs, Reason: "a packet in a long ring waits behind all others: the smallest that drops nothing", Note: "the link goes down and comes up: some cards take seconds"},
			{Name: "channels", Knob: "nic.channels", On: NICs, Reason: "a queue for each core near the card spares a wait for another one", Note: "the link may go down and come up"},
			{Name: "interrupts", Knob: "irq.affinity", On: NICs, Reason: "the core that takes the interrupt is near the card, and always the same"},
			{Name: "busy polling", Knob: "net.busy_poll", On: Host, Value: "50", Reason: "who waits for a packet asks the card instead of sleeping; only with cores to spare"},
			{Name: "no deferred interrupts", Knob: "nic.defer_irq", On: NICs, Value: "off", Reason: "a deferred interrupt delays the packet of an idle connection"},
		},
		ciliumSteps(true), kubeOVNSteps(), calicoSteps(true), personal(),
	)}
}

func throughput() Profile {
	return Profile{Name: "throughput", Title: "As much data as possible for the CPU that there is; delays may grow", Steps: slices.Concat(
		mend(),
		[]Step{
			{Name: "CPU governor", Knob: "cpu.governor", On: Host, Value: "performance", Reason: "the core that takes the interrupts is often the bound"},
			{Name: "energy preference", Knob: "cpu.epp", On: Host, Value: "performance", Reason: "as the governor, for processors that choose themselves"},
			{Name: "coalescing", Knob: "nic.coalesce", On: NICs, Value: "adaptive-rx=on", Reason: "fewer interrupts when there is much traffic"},
			{Name: "rings", Knob: "nic.ring", On: NICs, Condition: ringDrops, Reason: "the next size up, until nothing is dropped any more", Note: "the link goes down and comes up: some cards take seconds"},
			{Name: "channels", Knob: "nic.channels", On: NICs, Reason: "the fewest of which none is full: each more is more interrupts", Note: "the link may go down and come up"},
			{Name: "interrupts", Knob: "irq.affinity", On: NICs, Reason: "spread over the cores near the card: the wrong socket costs up to half"},
			{Name: "no busy polling", Knob: "net.busy_poll", On: Host, Value: "0", Reason: "it burns the CPU that data needs"},
			{Name: "deferred interrupts", Knob: "nic.defer_irq", On: NICs, Value: "irqs=10,timeout=20000", Reason: "fewer interrupts, and larger batches"},
			{Name: "threaded polling", Knob: "nic.napi_threaded", On: Tunnels, Value: "on", Reason: "the scheduler can spread what many tunnels bring"},
			{Name: "GRO of forwarded UDP", Knob: "nic.udp_gro_fwd", On: NICs, Value: "on", Reason: "packets of tunnels that are only passed on are passed on in batches"},
			{Name: "TCP buffers of pods", Knob: "tcp.mem", On: Pods, Reason: "as much as fits on the way at once; of no use at the round-trip times of a data centre"},
			{Name: "long packets", Knob: "nic.big_tcp", On: NICs, Reason: "fewer, longer packets through the stack; only where the whole way was tried"},
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
	return Profile{Name: "balanced", Title: "Mend what is off, and change little else: the one to begin with", Steps: slices.Concat(
		mend(),
		[]Step{
			{Name: "energy preference", Knob: "cpu.epp", On: Host, Value: "balance_performance", Reason: "the governor is left alone unless a proof shows a gain"},
			{Name: "coalescing", Knob: "nic.coalesce", On: NICs, Value: "adaptive-rx=on", Reason: "the card chooses by the traffic"},
			{Name: "rings", Knob: "nic.ring", On: NICs, Condition: ringDrops, Reason: "more room, only where packets found none", Note: "the link goes down and comes up: some cards take seconds"},
			{Name: "no busy polling", Knob: "net.busy_poll", On: Host, Value: "0", Reason: "it burns CPU that others may need"},
			{Name: "no deferred interrupts", Knob: "nic.defer_irq", On: NICs, Value: "off", Reason: "the kernel's own"},
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
		{Name: "checksums on tunnels", Knob: "virt.tx_csum", On: Tunnels, Reason: "off where the card spoils them: 0.2 to more than 9 Gb/s; on where it is off for no reason: tried both ways"},
	}
	for _, on := range []Group{NICs, Tunnels, Veths} {
		steps = append(steps,
			Step{Name: "segmentation", Knob: "nic.seg", On: on, Value: "on", Reason: "without it each packet goes through the whole stack by itself"},
			Step{Name: "checksums", Knob: "nic.csum", On: on, Value: "on", Reason: "segmentation needs it"},
			Step{Name: "merging on receive", Knob: "nic.gro", On: on, Value: "on", Reason: "as segmentation, on the way in"},
		)
	}
	steps = append(steps,
		Step{Name: "segmentation of tunnels", Knob: "nic.tnl_seg", On: NICs, Value: "on", Reason: "the card cuts what is inside a tunnel too"},
		Step{Name: "ports of UDP spread", Knob: "nic.rss_udp", On: NICs, Value: "sdfn", Reason: "without ports all packets of a tunnel between two machines go to one core"},
		Step{Name: "congestion control of pods", Knob: "tcp.cc", On: Pods, Reason: "an odd one costs throughput or delay: those that the namespace has are tried"},
		Step{Name: "congestion control of machines", Knob: "tcp.cc", On: Machines, Reason: "as in pods"},
	)
	for _, on := range []Group{NICs, Tunnels, Veths} {
		steps = append(steps, Step{Name: "cores for received packets", Knob: "net.rps", On: on, Reason: "masks that put all on one core, or none where there is one queue"})
	}
	return steps
}

// queues are the lengths that are changed only where something was dropped.
func queues() []Step {
	return []Step{
		{Name: "backlog", Knob: "net.backlog", On: Host, Condition: backlogDrops, Reason: "packets that come by virtual devices wait here for a core"},
		{Name: "budget", Knob: "net.budget", On: Host, Condition: budgetSqueezes, Reason: "a core that may not finish leaves packets in the card"},
	}
}

func ciliumSteps(netkit bool) []Step {
	steps := []Step{
		{Name: "Cilium: native routing", Knob: "cil.native", On: Manifests, Value: "native", Reason: "saves the tunnel, where the network knows the pods' addresses"},
		{Name: "Cilium: kube-proxy replacement", Knob: "cil.kpr", On: Manifests, Value: "on", Reason: "host routing needs it"},
		{Name: "Cilium: BPF masquerade", Knob: "cil.masq", On: Manifests, Value: "on", Reason: "host routing needs it"},
		{Name: "Cilium: host routing", Knob: "cil.hostroute", On: Manifests, Value: "on", Reason: "packets do not pass the host's stack"},
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
		{Name: "Calico: no tunnels at all", Knob: "cal.encap", State: NeverAutomatic, Reason: "nor do others, where the network knows the pods' addresses", Note: "without BGP to all nodes or to the routers, nodes are cut off from each other: set cal.encap to never by hand where there is"},
	}
	if bpf {
		steps = append(steps, Step{Name: "Calico: eBPF", Knob: "cal.bpf", On: Manifests, Value: "on", Reason: "a shorter way through the node"})
	}
	return steps
}

// personal are steps that only a person takes.
func personal() []Step {
	return []Step{
		{Name: "SMT off", State: NeverAutomatic, Reason: "siblings share a core: results vary", Note: "masks of interrupts and of the kubelet shift under it: set it in the firmware before the node joins"},
		{Name: "boot line", State: NeverAutomatic, Reason: "iommu=pt, isolated cores and the like", Note: "it needs a reboot, and can keep the machine from coming up"},
		{Name: "MTU", Knob: "nic.mtu", State: NeverAutomatic, Reason: "fewer packets for the same data", Note: "where one part of the way cannot carry it packets vanish: probe the whole way first, then set nic.mtu by hand from the card upwards"},
		{Name: "kube-proxy removed", State: NeverAutomatic, Reason: "Cilium and Calico can do its work", Note: "Services stop when they cannot: remove it last, by hand, and keep its manifest"},
	}
}
