package pods

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// podDevice is the device of every pod.
const podDevice = "eth0"

// serverPort is that of the first arm; each has its own.
const serverPort = 7000

// readyTimeout bounds the wait until a daemon knows its pods.
var readyTimeout = host.ScaleTimeout(10 * time.Second)

// serviceAt is the address of the i-th Service of these scenes. Those that a lab has rules for are others.
func serviceAt(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 96, 255, byte(10 + i)}), 53)
}

// addService sends what comes to a Service by way of n to a server: one endpoint, over UDP and TCP.
func addService(n *netcfg.Namespace, i int, to netip.AddrPort) error {
	at := serviceAt(i)
	rule := func(transport netcfg.Clause) netcfg.Rule {
		return netcfg.Rule{transport, netcfg.Dst(netip.PrefixFrom(at.Addr(), 32)), netcfg.Dport(at.Port()), netcfg.DNAT(to)}
	}
	return n.AddTables(netcfg.Table{Name: fmt.Sprintf("service-%d", i), Chains: []netcfg.Chain{
		{Name: "prerouting", Hook: netcfg.NATPrerouting, Rules: []netcfg.Rule{rule(netcfg.UDP()), rule(netcfg.TCP())}},
	}})
}

// startDaemon starts a fast path on a machine, and waits until it knows its pods and peers.
func startDaemon(ctx context.Context, in *netcfg.Namespace, program []string, name, folder string, peers int, c *fastpath.Config) error {
	c.Pins = filepath.Join(folder, name+"-bpf")
	c.State = filepath.Join(folder, name+".state") // another daemon of the machine may have one there
	file := filepath.Join(folder, name+".json")
	if err := c.Write(file); err != nil {
		return err
	}
	child, err := in.Start(netcfg.Command{Args: append(append([]string{}, program...), "fastpath", "--config", file), Log: filepath.Join(folder, name+".log")})
	if err != nil {
		return err
	}
	err = child.Await(ctx, readyTimeout, func(context.Context) error {
		s, err := fastpath.ReadState(c.State)
		switch {
		case err != nil:
			return err
		case s.Off != "" || len(s.Refused) > 0:
			return fmt.Errorf("it carries nothing: %s, %v", s.Off, s.Refused)
		case s.Pods < len(c.Devices.Pods) || s.Peers < peers:
			return fmt.Errorf("it knows %d of %d pods and %d of %d peers", s.Pods, len(c.Devices.Pods), s.Peers, peers)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("start the fast path %s: %w", name, err)
	}
	return nil
}

// Services are the ways from a pod to one on the other machine, by its address and by that of a
// Service, on each fast path of a lab.
func Services(l *lab.Lab) (arms []Arm, err error) {
	n, err := l.Open(0)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	for _, a := range l.Arms {
		if a.Pins == nil {
			continue
		}
		direct := Arm{Name: a.Name, From: a.Client(), To: a.Server(), Port: uint16(serverPort + len(arms)), Pins: a.Pins}
		service := direct
		service.Name, service.Port, service.Via = a.Name+" to a Service", direct.Port+1, serviceAt(len(arms))
		if err := addService(n, len(arms), netip.AddrPortFrom(service.To.Addr, service.Port)); err != nil {
			return nil, err
		}
		arms = append(arms, direct, service)
	}
	return arms, nil
}

// The network of pods of one host.
var (
	siblingGateway = netip.MustParseAddr("10.247.0.1")     // on the bridge
	linkGateway    = netip.MustParseAddr("169.254.1.1")    // of pods that are routed
	gatewayMAC     = net.HardwareAddr{2, 0x76, 9, 0, 0, 1} // of both
)

const siblingBridge = "siblings"

// sibling is a pod of the host.
type sibling struct {
	end    host.Endpoint
	device string // on the host
}

// Siblings are the ways between two pods of a lab's first machine, on a bridge and routed, each also
// with the fast path, and routed through a Service. The lab has a path without a fast path, and the
// machine forwards.
func Siblings(ctx context.Context, l *lab.Lab, program []string) (arms []Arm, err error) {
	n, err := l.Open(0)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	if err := n.AddBridge(siblingBridge, gatewayMAC, lab.DefaultWire().MTU); err != nil {
		return nil, err
	}
	if err := n.AddAddr(siblingBridge, netip.PrefixFrom(siblingGateway, 24)); err != nil {
		return nil, err
	}
	c := &fastpath.Config{Kind: fastpath.Routed, Devices: topology.DeviceNames{Wire: lab.WireDevice}}
	add := func(name string, pair [2]sibling, fast, service bool) error {
		a := Arm{Name: name, From: pair[0].end, To: pair[1].end, Port: uint16(serverPort + len(arms))}
		if fast {
			a.Pins = []string{""} // known when the daemon runs
		}
		if service {
			a.Via = serviceAt(len(arms))
			if err := addService(n, len(arms), netip.AddrPortFrom(a.To.Addr, a.Port)); err != nil {
				return err
			}
		}
		arms = append(arms, a)
		return nil
	}
	for _, routed := range []bool{false, true} {
		name := "bridge"
		if routed {
			name = "routed"
		}
		for _, fast := range []bool{false, true} {
			var pair [2]sibling
			for i := range pair {
				if pair[i], err = newSibling(l, n, name, routed, fast, i); err != nil {
					return nil, err
				}
				if fast {
					c.Devices.Pods = append(c.Devices.Pods, pair[i].device)
				}
			}
			arm := name
			if fast {
				arm += "+fast"
			}
			if err := add(arm, pair, fast, false); err != nil {
				return nil, err
			}
			if routed {
				if err := add(arm+" to a Service", pair, fast, true); err != nil {
					return nil, err
				}
			}
		}
	}
	if err := startDaemon(ctx, n, program, "siblings", l.Folder(), 0, c); err != nil {
		return nil, err
	}
	for i := range arms {
		if arms[i].Pins != nil {
			arms[i].Pins = []string{c.Pins}
		}
	}
	return arms, nil
}

// newSibling makes a pod of the host, on its bridge or with a route of its own.
func newSibling(l *lab.Lab, in *netcfg.Namespace, kind string, routed, fast bool, i int) (s sibling, err error) {
	number := byte(10 + i)
	if fast {
		number += 2
	}
	net3 := byte(0)
	if routed {
		net3 = 1
	}
	addr, mac := netip.AddrFrom4([4]byte{10, 247, net3, number}), net.HardwareAddr{2, 0x76, 9, 1, net3, number}
	s.device = fmt.Sprintf("%s%d", kind, number)
	pod, err := l.Create("sibling-" + s.device)
	if err != nil {
		return s, err
	}
	defer pod.Close()
	s.end = host.Endpoint{Machine: l.Machines[0].Name, Namespace: pod.Path(), Device: podDevice, Addr: addr, MTU: lab.DefaultWire().MTU}
	outside := netcfg.VethEnd{In: in, Name: s.device}
	if routed {
		outside.MAC = gatewayMAC
	}
	if err := netcfg.AddVeth(outside, netcfg.VethEnd{In: pod, Name: podDevice, MAC: mac}, s.end.MTU); err != nil {
		return s, err
	}
	bits, gateway, neighbours := 24, siblingGateway, siblingBridge
	if routed {
		bits, gateway, neighbours = 32, linkGateway, s.device
	}
	if err := pod.AddAddr(podDevice, netip.PrefixFrom(addr, bits)); err != nil {
		return s, err
	}
	if routed {
		if err := pod.AddRoute(netcfg.Route{Dst: netip.PrefixFrom(gateway, 32), Device: podDevice}); err != nil {
			return s, err
		}
		if err := in.AddRoute(netcfg.Route{Dst: netip.PrefixFrom(addr, 32), Device: s.device}); err != nil {
			return s, err
		}
		if err := in.Sysctl(netcfg.Sysctl{Name: "net/ipv4/conf/" + s.device + "/proxy_arp", Value: "1"}); err != nil {
			return s, err
		}
	} else if err := in.Enslave(s.device, siblingBridge, true); err != nil {
		return s, err
	}
	if err := pod.AddRoute(netcfg.Route{Dst: netip.PrefixFrom(netip.IPv4Unspecified(), 0), Via: gateway, Device: podDevice}); err != nil {
		return s, err
	}
	if err := pod.AddNeighbour(podDevice, gateway, gatewayMAC); err != nil {
		return s, err
	}
	return s, in.AddNeighbour(neighbours, addr, mac)
}
