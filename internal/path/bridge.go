package path

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// What drivers share whose pods are on a bridge of their machine, as the bridge plugin of
// CNI wires them. Either the bridge is the pods' gateway, and the machine routes what
// leaves it; or it has ports that lead to the other machines, and nothing is routed.

// podBridge is the name of the arm's bridge on each machine.
func (s *Site) podBridge() string { return fmt.Sprintf("cni%d", s.Index) }

// bridgePort is the name of the machine's end of the n-th pod's link.
func (s *Site) bridgePort(n int) string { return fmt.Sprintf("veth%d.%d", s.Index, n) }

// addPodBridge makes the bridge of a machine, with the gateway's address, and lets the
// machine forward.
func (s *Site) addPodBridge(i int) error {
	in := s.Machines[i].In
	if err := in.AddBridge(s.podBridge(), s.mac(i, roleGateway), s.MTU); err != nil {
		return err
	}
	if err := in.AddAddr(s.podBridge(), netip.PrefixFrom(s.gateway(i), blockBits)); err != nil {
		return err
	}
	return forward(in)
}

// podLink makes the pair of devices that joins a pod to its machine, such as
// [netcfg.AddVeth].
type podLink func(outside, inside netcfg.VethEnd, mtu int) error

// bridgedPod makes the n-th pod of a machine, with a link to the bridge.
func (s *Site) bridgedPod(i, n int, addLink podLink) (host.Endpoint, error) {
	in := s.Machines[i].In
	pod, err := s.Pod(i, n)
	if err != nil {
		return host.Endpoint{}, err
	}
	end, port := s.podEndpoint(i, n, pod), s.bridgePort(n)
	err = addLink(netcfg.VethEnd{In: in, Name: port}, netcfg.VethEnd{In: pod, Name: podDevice, MAC: s.podMAC(i, n)}, s.MTU)
	if err != nil {
		return end, err
	}
	if err := in.Enslave(port, s.podBridge(), true); err != nil {
		return end, err
	}
	if err := in.AddNeighbour(s.podBridge(), end.Addr, s.podMAC(i, n)); err != nil {
		return end, err
	}
	if err := pod.AddAddr(podDevice, netip.PrefixFrom(end.Addr, blockBits)); err != nil {
		return end, err
	}
	if err := pod.AddRoute(netcfg.Route{Dst: defaultDst, Via: s.gateway(i), Device: podDevice}); err != nil {
		return end, err
	}
	return end, pod.AddNeighbour(podDevice, s.gateway(i), s.mac(i, roleGateway))
}

// switchedPod makes the n-th pod of a machine, and a bridge that joins it to devices that
// lead to the other machines' bridges. All pods are in one subnet.
func (s *Site) switchedPod(i, n int, uplinks ...string) (host.Endpoint, error) {
	in := s.Machines[i].In
	pod, err := s.Pod(i, n)
	if err != nil {
		return host.Endpoint{}, err
	}
	end := s.podEndpoint(i, n, pod)
	bridge, port := fmt.Sprintf("br%d.%d", s.Index, n+1), s.bridgePort(n)
	if err := in.AddBridge(bridge, nil, s.MTU); err != nil {
		return end, err
	}
	if err := s.addPodVeth(i, n, pod, netcfg.VethEnd{In: in, Name: port}); err != nil {
		return end, err
	}
	for _, device := range append(slices.Clone(uplinks), port) {
		if err := in.Enslave(device, bridge, false); err != nil {
			return end, err
		}
	}
	return end, s.joinSubnet(i, n, pod, podDevice)
}
