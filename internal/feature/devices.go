package feature

import (
	"net/netip"

	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// Kinds of devices that not every kernel has, beyond those that Open vSwitch
// asks for.
var (
	// IPIP also makes the kernel load the module, if it is one, which then puts a
	// device tunl0, down, into every namespace. It does so for everybody who asks.
	IPIP = &Probe{
		Name: "ipip device",
		Get:  "load the module ipip (modprobe ipip), or run a kernel built with CONFIG_NET_IPIP",
		Try: func(n *netcfg.Namespace) error {
			if err := pair(n); err != nil {
				return err
			}
			return n.AddIPIP(netcfg.IPIP{Name: "probe", MTU: 1480, Local: netip.MustParseAddr("192.0.2.1"), Device: "a"})
		},
	}
	// Encap is asked of any device: the kernel takes such a route before it knows
	// whether the device heeds it.
	Encap = &Probe{
		Name: "route with encapsulation (lightweight tunnel)",
		Get:  "run a kernel built with CONFIG_LWTUNNEL",
		Try: func(n *netcfg.Namespace) error {
			if err := pair(n); err != nil {
				return err
			}
			local, remote := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
			return n.AddRoute(netcfg.Route{
				Dst: netip.PrefixFrom(remote, remote.BitLen()), Device: "a",
				Encap: &netcfg.Encap{ID: 1, Src: local, Dst: remote, TTL: 64},
			})
		},
	}
	TCX = &Probe{
		Name: "tcx programs",
		Get:  "run kernel 6.6 or later, built with CONFIG_BPF_SYSCALL",
		Try:  func(n *netcfg.Namespace) error { return kernel.ProbeTCX(n) },
	}
	// Programs are what a fast path is made of.
	Programs = &Probe{
		Name: "BPF programs at tc (tcx, or clsact with bpf filters)",
		Get:  "run kernel 5.13 or later, built with CONFIG_BPF_SYSCALL and without CONFIG_PREEMPT_RT, and before 6.6 with CONFIG_NET_CLS_BPF and CONFIG_NET_SCH_INGRESS",
		Try:  func(n *netcfg.Namespace) error { return kernel.ProbePrograms(n) },
	}
	VLAN = &Probe{
		Name: "VLAN device (802.1Q)",
		Get:  get8021Q,
		Try:  vlan(false),
	}
	QinQ = &Probe{
		Name: "VLAN device of a service provider (802.1ad)",
		Get:  get8021Q,
		Try:  vlan(true),
	}
	IPVLAN = &Probe{
		Name: "ipvlan device",
		Get:  "load the module ipvlan (modprobe ipvlan), or run a kernel built with CONFIG_IPVLAN",
		Try:  ipvlan("l2"),
	}
	// IPVLANL3S is a part of its own: it needs the hooks of netfilter.
	IPVLANL3S = &Probe{
		Name: "ipvlan device in mode l3s",
		Get:  "load the module ipvlan (modprobe ipvlan), or run a kernel built with CONFIG_IPVLAN and CONFIG_NET_L3_MASTER_DEV",
		Try:  ipvlan("l3s"),
	}
	Netkit = &Probe{
		Name: "netkit device",
		Get:  "run a kernel from 6.7 on, built with CONFIG_NETKIT",
		Try: func(n *netcfg.Namespace) error {
			return netcfg.AddNetkit(netcfg.VethEnd{In: n, Name: "a"}, netcfg.VethEnd{In: n, Name: "b"}, false, 1500)
		},
	}
)

const get8021Q = "load the module 8021q (modprobe 8021q), or run a kernel built with CONFIG_VLAN_8021Q"

func vlan(service bool) func(*netcfg.Namespace) error {
	return func(n *netcfg.Namespace) error {
		if err := pair(n); err != nil {
			return err
		}
		return n.AddVLAN("a", netcfg.VLAN{Name: "probe", ID: 1, Service: service, MTU: 1496})
	}
}

func ipvlan(mode string) func(*netcfg.Namespace) error {
	return func(n *netcfg.Namespace) error {
		if err := pair(n); err != nil {
			return err
		}
		return n.AddIPVLAN("a", netcfg.IPVLAN{In: n, Name: "probe", Mode: mode, MTU: 1500})
	}
}

var probeGeneve = netcfg.Geneve{Name: "probe", MAC: probeMAC(3), MTU: 1450, Port: 6081}
