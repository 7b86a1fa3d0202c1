package path

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/verr"
)

// podDevice is the name of the network device inside a pod, unless the driver says
// otherwise in the pod's endpoint.
const podDevice = "eth0"

// Address ranges. No two arms share a block, so every arm's routes stand
// beside those of the others, as a cluster gives each node blocks of its own.
var (
	// Pods is the range of all pods.
	Pods = netip.MustParsePrefix("10.244.0.0/16")
	// Tunnels is the range of the addresses that tunnels have outside.
	Tunnels = netip.MustParsePrefix("10.222.0.0/16")
)

const (
	blockBits = 26 // of a block of pods, as Calico's IPAM deals them out
	blockSize = 1 << (32 - blockBits)
	blocks    = 1 << (blockBits - 16) // that fit into a range
	// maxPods bounds the pods of an arm on one machine, and its tunnels.
	maxPods = 16
)

// CheckCapacity tells whether there are addresses for so many arms on so many machines.
// Error, for a user: there are not.
func CheckCapacity(arms, hosts int) error {
	if arms*hosts <= blocks {
		return nil
	}
	return verr.New(verr.Usage, fmt.Sprintf("cannot raise %d paths on %d machines", arms, hosts),
		fmt.Sprintf("a lab has %d blocks of pod addresses, one for each path on each machine", blocks),
		"ask for fewer paths or machines")
}

// block is the range of the pods' addresses that one machine has for this arm.
func (s *Site) block(machine int) netip.Prefix { return s.blockIn(Pods, machine) }

// outer is the address outside of the n-th tunnel of this arm on a machine.
func (s *Site) outer(machine, n int) netip.Addr {
	return nthAddr(s.blockIn(Tunnels, machine), 1+n)
}

func (s *Site) blockIn(all netip.Prefix, machine int) netip.Prefix {
	n := s.Index*len(s.Machines) + machine
	return netip.PrefixFrom(nthAddr(all, n*blockSize), blockBits)
}

// nthAddr gives the n-th address of a prefix.
func nthAddr(p netip.Prefix, n int) netip.Addr {
	a := p.Masked().Addr().As4()
	sum := uint32(a[0])<<24 | uint32(a[1])<<16 | uint32(a[2])<<8 | uint32(a[3])
	sum += uint32(n)
	return netip.AddrFrom4([4]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
}

// podAddr is the address of the n-th pod of a block; before it come the
// network's own and the gateway's.
func (s *Site) podAddr(machine, n int) netip.Addr { return nthAddr(s.block(machine), 2+n) }

// gateway is the address of the pods' next hop, where it is one of the block's.
func (s *Site) gateway(machine int) netip.Addr { return nthAddr(s.block(machine), 1) }

// What a device is for, in the last byte of its MAC.
const (
	roleGateway = 1    // the machine's side of a pod's link
	roleTunnel  = 0x10 // first of maxPods
	rolePod     = 0x20 // first of maxPods
	roleCard    = 0x30
)

// mac makes the address of a device that a driver builds. It is computed
// rather than drawn, so all ends can be told of each other before any exists,
// and two runs look the same. The first byte marks it as given by software.
func (s *Site) mac(machine int, role byte) net.HardwareAddr {
	return net.HardwareAddr{s.OUI[0], s.OUI[1], byte(s.Index >> 8), byte(s.Index), byte(machine), role}
}

// podMAC is the address of the n-th pod's device.
func (s *Site) podMAC(machine, n int) net.HardwareAddr { return s.mac(machine, rolePod+byte(n)) }

// tunnelMAC is the address of the n-th tunnel's inner end.
func (s *Site) tunnelMAC(machine, n int) net.HardwareAddr { return s.mac(machine, roleTunnel+byte(n)) }

// addPodVeth makes the veth pair of a pod: eth0 inside of it, device outside. The
// MAC of the outer end is drawn by the kernel when it is nil.
func (s *Site) addPodVeth(i, n int, pod *netcfg.Namespace, outside netcfg.VethEnd) error {
	return netcfg.AddVeth(outside, netcfg.VethEnd{In: pod, Name: podDevice, MAC: s.podMAC(i, n)}, s.MTU)
}

// card is the name of the arm's card on each machine.
func (s *Site) card() string { return fmt.Sprintf("card%d", s.Index) }

// ownCards gives every machine a card for this arm alone. senders is as for [Env.Cards].
func (s *Site) ownCards(senders func(machine int) []net.HardwareAddr) error {
	cards := make([]netcfg.VethEnd, len(s.Machines))
	for i, m := range s.Machines {
		cards[i] = netcfg.VethEnd{In: m.In, Name: s.card(), MAC: s.mac(i, roleCard)}
	}
	return s.Cards(cards, senders)
}

// allMACs are those that a machine may send from when its pods are behind a bridge or a
// switch on its card.
func (s *Site) allMACs(machine int) []net.HardwareAddr {
	macs := []net.HardwareAddr{s.mac(machine, roleCard), s.mac(machine, roleGateway)}
	for n := range maxPods {
		macs = append(macs, s.podMAC(machine, n), s.tunnelMAC(machine, n))
	}
	return macs
}

// podEndpoint is the n-th pod of a machine as an end of traffic.
func (s *Site) podEndpoint(i, n int, in *netcfg.Namespace) host.Endpoint {
	return host.Endpoint{
		Machine: s.Machines[i].Name, Namespace: in.Path(), Device: podDevice, Addr: s.podAddr(i, n), MTU: s.MTU,
	}
}

// joinSubnet gives the n-th pod of a machine its address on a device and tells it where
// its peers are, where all pods are in one subnet.
func (s *Site) joinSubnet(i, n int, pod *netcfg.Namespace, device string) error {
	return s.joinSubnetVia(i, n, pod, device, func(j int) net.HardwareAddr { return s.podMAC(j, n) })
}

// joinSubnetVia does the same where macOf gives the MAC that a machine's pod has.
func (s *Site) joinSubnetVia(i, n int, pod *netcfg.Namespace, device string, macOf func(j int) net.HardwareAddr) error {
	if err := pod.AddAddr(device, netip.PrefixFrom(s.podAddr(i, n), Pods.Bits())); err != nil {
		return err
	}
	for j := range s.otherMachines(i) {
		if err := pod.AddNeighbour(device, s.podAddr(j, n), macOf(j)); err != nil {
			return err
		}
	}
	return nil
}

// buildMachines builds the ends machine by machine, for paths that need not have
// built one machine before the next. Those of other hosts are left out.
func (s *Site) buildMachines(ctx context.Context, build func(i int) ([]host.Endpoint, error)) (Ends, error) {
	ends := make(Ends, len(s.Machines))
	for i, m := range s.Machines {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if m.In == nil {
			continue
		}
		var err error
		if ends[i], err = build(i); err != nil {
			return nil, err
		}
	}
	return ends, nil
}

// onePod builds the only pod of each machine, and then the rest of its part.
func (s *Site) onePod(ctx context.Context, build func(i int) (host.Endpoint, error), then ...func(i int) error) (Ends, error) {
	return s.buildMachines(ctx, func(i int) ([]host.Endpoint, error) {
		end, err := build(i)
		for _, next := range then {
			if err == nil {
				err = next(i)
			}
		}
		return []host.Endpoint{end}, err
	})
}

// eachPod builds the pods of a machine, one after the other.
func eachPod(pods int, build func(n int) (host.Endpoint, error)) (ends []host.Endpoint, err error) {
	for n := range pods {
		end, err := build(n)
		if err != nil {
			return nil, err
		}
		ends = append(ends, end)
	}
	return ends, nil
}

// defaultDst is the destination of a default route.
var defaultDst = netip.PrefixFrom(netip.IPv4Unspecified(), 0)

// hostPrefix is the prefix that holds only addr.
func hostPrefix(addr netip.Addr) netip.Prefix { return netip.PrefixFrom(addr, addr.BitLen()) }

// forward lets a machine pass packets on between its devices.
func forward(n *netcfg.Namespace) error {
	return n.Sysctl(netcfg.Sysctl{Name: "net.ipv4.ip_forward", Value: "1"})
}
