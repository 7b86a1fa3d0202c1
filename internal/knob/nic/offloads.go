package nic

import "github.com/venturi-net/venturi/internal/knob"

// undoFeature is how offloads are undone.
const undoFeature = "the old requested setting of each is written back; the effective one follows"

// seg leaves the cutting of large packets to the card, or to the last moment.
var seg = knob.Entry{
	Facts: knob.Facts{
		Name:     "nic.seg",
		Title:    "Segmentation offloads: the card, or the last step of the stack, cuts large packets",
		Values:   "on, off, or each: sg=on,tso=off,gso=on",
		Scope:    knob.ScopeDevice,
		Helps:    []knob.Benefit{knob.Throughput, knob.CPU},
		Risk:     "some cards segment wrongly (e1000e); off costs throughput and CPU time",
		Needs:    "tso needs sg and transmit checksums (nic.csum), gso needs sg",
		Grade:    knob.GradeC,
		Evidence: "on by default everywhere; no figure known; check where it is off",
		Undo:     undoFeature,
	},
	Knob: features{parts: []offload{
		{word: "sg", names: []string{"tx-scatter-gather"}},
		{word: "tso", names: []string{"tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-tcp-ecn-segmentation"}, needs: "sg"},
		{word: "gso", names: []string{"tx-generic-segmentation"}, needs: "sg"},
	}},
}

// csum leaves checksums to the card.
var csum = knob.Entry{
	Facts: knob.Facts{
		Name:     "nic.csum",
		Title:    "Checksum offloads: the card computes and checks them",
		Values:   "on, off, or each: tx=on,rx=off",
		Scope:    knob.ScopeDevice,
		Helps:    []knob.Benefit{knob.Throughput, knob.CPU},
		Risk:     "a card that computes them wrongly loses packets; off also turns segmentation offloads off",
		Needs:    "nothing; check where it is off, on virtual devices too",
		Grade:    knob.GradeC,
		Evidence: "on by default everywhere; no figure known",
		Undo:     undoFeature,
	},
	Knob: features{parts: []offload{
		{word: "tx", names: []string{"tx-checksum-ipv4", "tx-checksum-ip-generic", "tx-checksum-ipv6"}},
		{word: "sctp", names: []string{"tx-checksum-sctp"}},
		{word: "rx", names: []string{"rx-checksum"}},
	}},
}

// gro merges packets that were received.
var gro = knob.Entry{
	Facts: knob.Facts{
		Name:     "nic.gro",
		Title:    "Generic receive offload: the kernel merges packets of a flow",
		Values:   "on or off",
		Scope:    knob.ScopeDevice,
		Helps:    []knob.Benefit{knob.Throughput, knob.CPU},
		Risk:     "eBPF programs that expect packets as sent see merged ones",
		Needs:    "nothing; it works with bridging and forwarding",
		Grade:    knob.GradeC,
		Evidence: "on by default; Calico has a setting that turns it off for its eBPF programs (bpfDisableGROForIfaces)",
		Undo:     undoFeature,
	},
	Knob: features{parts: []offload{{word: "gro", names: []string{"rx-gro"}}}},
}

// groHW lets the card merge, so that what is merged can be cut again.
var groHW = knob.Entry{
	Facts: knob.Facts{
		Name:     "nic.gro_hw",
		Title:    "Generic receive offload by the card",
		Values:   "on or off",
		Scope:    knob.ScopeDevice,
		Helps:    []knob.Benefit{knob.Throughput, knob.CPU},
		Risk:     "as nic.gro; some cards are reset for it",
		Needs:    "a card that supports it, such as virtio; receive checksums, and no LRO",
		Grade:    knob.GradeC,
		Evidence: "no figure known; drivers choose the default",
		Undo:     undoFeature,
	},
	Knob: features{parts: []offload{{word: "gro-hw", names: []string{"rx-gro-hw"}}}},
}

// lro is the older way to merge, after which packets cannot be cut as they were.
var lro = knob.Entry{
	Facts: knob.Facts{
		Name:     "nic.lro",
		Title:    "Large receive offload: the card merges packets irreversibly",
		Values:   "on or off",
		Scope:    knob.ScopeDevice,
		Helps:    []knob.Benefit{knob.Throughput, knob.CPU},
		Risk:     "where packets are bridged or forwarded, merged packets are too large for the next device: it must be off there",
		Needs:    "a card that supports it, on a host that neither bridges nor forwards",
		Grade:    knob.GradeC,
		Evidence: "the kernel turns it off itself when a device is bridged or forwards",
		Undo:     "the old requested setting is written back, on this device and on those below it that the kernel changed along",
	},
	Knob: features{parts: []offload{{word: "lro", names: []string{"rx-lro"}}}},
}

// tunnelSeg lets the card cut packets inside a tunnel.
var tunnelSeg = knob.Entry{
	Facts: knob.Facts{
		Name:     "nic.tnl_seg",
		Title:    "Segmentation of packets inside UDP tunnels, by the card",
		Values:   "on, off, or each: seg=on,csum=off,rx=on",
		Scope:    knob.ScopeDevice,
		Helps:    []knob.Benefit{knob.Throughput, knob.CPU},
		Risk:     "some firmware computes wrong checksums",
		Needs:    "VXLAN or Geneve in use, and a card that supports it",
		Grade:    knob.GradeB,
		Evidence: "VXLAN at 10G with MTU 1500: typically 4 to 7 Gbit/s, more than 8 with it (vswitchzero, on ESXi, not Linux)",
		Undo:     undoFeature,
	},
	Knob: features{parts: []offload{
		{word: "seg", names: []string{"tx-udp_tnl-segmentation"}},
		{word: "csum", names: []string{"tx-udp_tnl-csum-segmentation"}},
		{word: "rx", names: []string{"rx-udp_tunnel-port-offload"}},
	}},
}

// tunnelCsum is the offload of which a wrong state cost the most that was ever reported.
var tunnelCsum = knob.Entry{
	Facts: knob.Facts{
		Name:     "virt.tx_csum",
		Title:    "Checksum offload of a tunnel's device",
		Values:   "on or off",
		Scope:    knob.ScopeDevice,
		Helps:    []knob.Benefit{knob.Throughput, knob.Drops},
		Risk:     "off costs throughput where the card computes checksums correctly; it is on again when the CNI recreates the device",
		Needs:    "a VXLAN or Geneve device; try both settings, above all when InCsumErrors or retransmits grow",
		Grade:    knob.GradeB,
		Evidence: "200 Mbit/s to more than 9 Gbit/s when it was turned off on vxlan.calico, kernel 6.12 (calico issue 11435), stalls of 63 s (calico issue 3145); Kube-OVN warns of \"significant degradation\" without it",
		Undo:     undoFeature,
	},
	Knob: features{kinds: []string{"vxlan", "geneve"}, parts: []offload{{word: "tx", names: []string{"tx-checksum-ip-generic"}}}},
}

// vethGRO merges packets where they enter a container.
var vethGRO = knob.Entry{
	Facts: knob.Facts{
		Name:     "virt.veth_gro",
		Title:    "GRO on one end of a veth pair",
		Values:   "on or off",
		Scope:    knob.ScopeDevice,
		Helps:    []knob.Benefit{knob.Throughput},
		Risk:     "packets take one more step, through the device's own poll",
		Needs:    "a veth device; UDP tunnels forwarded over it. Spread them over cores with net.rps",
		Grade:    knob.GradeC,
		Evidence: "no figure known; to be measured",
		Undo:     undoFeature,
	},
	Knob: features{kinds: []string{"veth"}, parts: []offload{{word: "gro", names: []string{"rx-gro"}}}},
}

// udpForward merges UDP packets that only pass through.
var udpForward = knob.Entry{
	Facts: knob.Facts{
		Name:     "nic.udp_gro_fwd",
		Title:    "GRO of forwarded UDP packets",
		Values:   "on (and list merging off), or off; or each: forward=on,list=off",
		Scope:    knob.ScopeDevice,
		Helps:    []knob.Benefit{knob.Throughput, knob.CPU},
		Risk:     "none known",
		Needs:    "a host that forwards UDP tunnels or QUIC; for TUN devices kernel 6.2 or later",
		Grade:    knob.GradeB,
		Evidence: "UDP segmentation and merging on TUN: 2.92 to 12.46 Gbit/s (wireguard-go commit, similar rather than the same); Tailscale checks that it is on",
		Undo:     undoFeature,
	},
	Knob: features{parts: []offload{
		{word: "forward", names: []string{"rx-udp-gro-forwarding"}},
		{word: "list", names: []string{"rx-gro-list"}, clash: true},
	}},
}
