package netcfg

import "github.com/vishvananda/netlink"

// AddNetkit makes a pair of netkit devices, each end born in its own namespace,
// and brings both up. The first end is the primary one, which BPF programs may
// be put on; without any, both ends let everything through. With link the
// devices have MACs, as Ethernet does; without, they carry bare IP packets, and
// the ends' MACs are not used. mtu in bytes.
func AddNetkit(a, b VethEnd, link bool, mtu int) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = a.Name, mtu
	peer := netlink.NewLinkAttrs()
	peer.Name, peer.MTU, peer.Namespace = b.Name, mtu, netlink.NsFd(int(b.In.file.Fd()))
	mode := netlink.NETKIT_MODE_L3
	if link {
		mode = netlink.NETKIT_MODE_L2
		attrs.HardwareAddr, peer.HardwareAddr = a.MAC, b.MAC
	}
	netkit := &netlink.Netkit{
		LinkAttrs: attrs, Mode: mode,
		Policy: netlink.NETKIT_POLICY_FORWARD, PeerPolicy: netlink.NETKIT_POLICY_FORWARD,
		// What the stack of one namespace noted on a packet stays there, as with a
		// veth. Kernels that have no choice do the same.
		Scrub: netlink.NETKIT_SCRUB_DEFAULT, PeerScrub: netlink.NETKIT_SCRUB_DEFAULT,
	}
	netkit.SetPeerAttrs(&peer)
	if err := a.In.h.LinkAdd(netkit); err != nil {
		return a.In.Wrap("add netkit "+a.Name, err)
	}
	if err := a.In.Up(a.Name); err != nil {
		return err
	}
	return b.In.Up(b.Name)
}
