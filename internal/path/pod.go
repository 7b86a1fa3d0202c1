package path

import (
	"net"
	"net/netip"

	"github.com/venturi-net/venturi/internal/change"
)

// podDevice is the name of the network device inside of a pod.
const podDevice = "eth0"

// block is the range of pod addresses that one machine has for one arm, as a
// cluster gives each node a block of its own. No two arms share one, so every
// arm's routes stand beside those of the others.
func block(machine, arm int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(2*arm + machine), 0}), 24)
}

// within gives the n-th address of a block.
func within(block netip.Prefix, n byte) netip.Addr {
	a := block.Addr().As4()
	a[3] += n
	return netip.AddrFrom4(a)
}

// What a device is for, in the last byte of its MAC.
const (
	roleGateway = 1 // the machine's side of a pod's link
	rolePod     = 2
	roleTunnel  = 3
)

// mac makes the address of a device that a driver builds. It is computed
// rather than drawn, so both ends can be told of each other before either
// exists, and two runs look the same. The first byte marks it as given by
// software.
func mac(machine, arm int, role byte) net.HardwareAddr {
	return net.HardwareAddr{0x0a, 0x76, 0x00, byte(machine), byte(arm), role}
}

// plug makes the veth pair of a pod: eth0 inside of it, device on the machine.
// The MAC of the machine's end is drawn by the kernel when it is nil.
func plug(s *Site, machine int, pod *change.Namespace, device string, outside net.HardwareAddr, mtu int) error {
	return change.AddVeth(
		change.VethEnd{In: s.Machines[machine].In, Name: device, MAC: outside},
		change.VethEnd{In: pod, Name: podDevice, MAC: mac(machine, s.Index, rolePod)},
		mtu)
}

// anywhere is the destination of a default route.
var anywhere = netip.PrefixFrom(netip.IPv4Unspecified(), 0)

// single is the prefix that holds only addr.
func single(addr netip.Addr) netip.Prefix { return netip.PrefixFrom(addr, addr.BitLen()) }

// forward lets a machine pass packets on between its devices.
func forward(n *change.Namespace) error {
	return n.Sysctl(change.Setting{Name: "net.ipv4.ip_forward", Value: "1"})
}
