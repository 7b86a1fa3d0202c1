package feature

import (
	"net"
	"net/netip"
	"os"

	"github.com/venturi-net/venturi/internal/netcfg"
)

// The probes. Each tries the smallest thing that needs the feature.
var (
	Veth = &Probe{
		Name: "veth device",
		Get:  "load the module veth (modprobe veth), or run a kernel built with CONFIG_VETH",
		Try:  pair,
	}
	// Sysctls are what every namespace of a lab has set.
	Sysctls = &Probe{
		Name: "settings of network namespaces",
		Get:  "mount /proc with its folder sys, or run a kernel built with CONFIG_SYSCTL",
		Try: func(n *netcfg.Namespace) error {
			return n.Sysctl(netcfg.Sysctl{Name: "net.ipv4.conf.default.rp_filter", Value: "0"})
		},
	}
	Bridge = &Probe{
		Name: "bridge device",
		Get:  "load the module bridge (modprobe bridge), or run a kernel built with CONFIG_BRIDGE",
		Try: func(n *netcfg.Namespace) error {
			return n.AddBridge("probe", probeMAC(1), 1500)
		},
	}
	VXLAN = &Probe{
		Name: "vxlan device",
		Get:  "load the module vxlan (modprobe vxlan), or run a kernel built with CONFIG_VXLAN",
		Try: func(n *netcfg.Namespace) error {
			if err := pair(n); err != nil {
				return err
			}
			return n.AddVXLAN(netcfg.VXLAN{
				Name: "probe", MAC: probeMAC(3), MTU: 1450, VNI: 1, Port: 8472,
				Local: netip.MustParseAddr("192.0.2.1"), Device: "a",
			})
		},
	}
	MACVLAN = &Probe{
		Name: "macvlan device",
		Get:  "load the module macvlan (modprobe macvlan), or run a kernel built with CONFIG_MACVLAN",
		Try: func(n *netcfg.Namespace) error {
			if err := pair(n); err != nil {
				return err
			}
			return n.AddMACVLAN("a", netcfg.MACVLAN{In: n, Name: "probe", MAC: probeMAC(3), MTU: 1500})
		},
	}
	Tap = &Probe{
		Name: "tap device",
		Get:  "load the module tun (modprobe tun), or run a kernel built with CONFIG_TUN",
		Try:  func(n *netcfg.Namespace) error { return n.AddTap(netcfg.Tap{Name: "probe", MTU: 1500}) },
	}
	VhostNet = &Probe{
		Name: "vhost-net device",
		Get:  "load the module vhost_net (modprobe vhost_net), run a kernel built with CONFIG_VHOST_NET, or give the path vhost=off, which lets qemu move the packets",
		// Opening it loads the module where there is one.
		Try: func(*netcfg.Namespace) error {
			f, err := os.Open("/dev/vhost-net")
			if err != nil {
				return err
			}
			return f.Close()
		},
	}
	// NAT stands for all that the rules of Services are made of.
	NAT = &Probe{
		Name: "nftables with address translation and connection tracking",
		Get:  "load the modules nf_tables and nft_chain_nat, or run a kernel built with CONFIG_NF_TABLES, CONFIG_NFT_NAT, CONFIG_NFT_MASQ, CONFIG_NFT_CT and CONFIG_NFT_FIB_IPV4",
		Try:  natRules(false),
	}
	// XTables has what a node's rules are made of if kube-proxy writes them with
	// iptables-nft.
	XTables = &Probe{
		Name: "extensions of iptables in nftables' rules",
		Get:  "load the modules nft_compat, xt_conntrack and xt_comment, or run a kernel built with CONFIG_NFT_COMPAT, CONFIG_NETFILTER_XT_MATCH_CONNTRACK and CONFIG_NETFILTER_XT_MATCH_COMMENT",
		Try:  natRules(true),
	}
)

func probeMAC(i byte) net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 0, 0, i} }

func pair(n *netcfg.Namespace) error {
	return netcfg.AddVeth(
		netcfg.VethEnd{In: n, Name: "a", MAC: probeMAC(1)},
		netcfg.VethEnd{In: n, Name: "b", MAC: probeMAC(2)}, 1500)
}

func natRules(wrapped bool) func(*netcfg.Namespace) error {
	return func(n *netcfg.Namespace) error {
		return n.AddTables(netcfg.Table{Name: "probe", Wrapped: wrapped, Chains: []netcfg.Chain{{
			Name: "probe", Hook: netcfg.NATPostrouting,
			Rules: []netcfg.Rule{{netcfg.InState(netcfg.New), netcfg.Comment("probe"), netcfg.ToLocal(), netcfg.Masquerade()}},
		}}})
	}
}
