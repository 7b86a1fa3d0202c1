// Package manypods raises a node with many pods and peers, of which none ever speaks, and measures
// what the fast path's daemon takes there. Benchmarks and tests share it.
package manypods

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// CrowdedNode is such a node.
type CrowdedNode struct {
	Netns *netcfg.Namespace
	Ends  *netcfg.Namespace // of the pods' own devices, which are called as those on the node
	File  string            // of the config
	fastpath.Config

	folder string
	starts int // of daemons, each with files of its own
}

const (
	wire, tunnel, bridge = "wire", "tunnel", "br0"

	// Port is that of the tunnel.
	Port = 8472
	// mtu and tunnelMTU are those of the devices, bytes.
	mtu, tunnelMTU = 1500, 1450
	// ownNumber is that of the node's own addresses, behind those of its pods and peers.
	ownNumber = 1 << 15

	podNetwork, peerNetwork, innerNetwork = 10, 11, 12
)

// Device is the i-th pod's, at both ends.
func Device(i int) string { return fmt.Sprint("pod", i) }

// PodAddr and PodMAC are those of the i-th pod.
func PodAddr(i int) netip.Addr      { return addrIn(podNetwork, i) }
func PodMAC(i int) net.HardwareAddr { return macIn(podNetwork, i) }

func addrIn(network byte, i int) netip.Addr {
	return netip.AddrFrom4([4]byte{network, 1, byte(i >> 8), byte(i)})
}

func macIn(network byte, i int) net.HardwareAddr {
	return binary.BigEndian.AppendUint32([]byte{2, network}, uint32(i))
}

// Raise wires a node of a kind in two empty namespaces: its pods are routed ([fastpath.Routed]), or
// ports of a bridge whose peers are behind a tunnel ([fastpath.VXLAN]). folder is for its files.
func Raise(netns, ends *netcfg.Namespace, folder, kind string, pods, peers int) (*CrowdedNode, error) {
	n := &CrowdedNode{Netns: netns, Ends: ends, File: filepath.Join(folder, "config"), folder: folder}
	n.Config = fastpath.Config{
		Kind: kind, Devices: topology.DeviceNames{Wire: wire},
		Pins: filepath.Join(folder, "bpf"), State: filepath.Join(folder, "state"),
	}
	if kind == fastpath.VXLAN {
		n.Devices.Tunnels, n.Port = []string{tunnel}, Port
	}
	for i := range pods {
		n.Devices.Pods = append(n.Devices.Pods, Device(i))
	}
	for _, m := range []*netcfg.Namespace{netns, ends} { // a bridge would send to all ports what any pod says about its address
		err := m.Sysctl(netcfg.Sysctl{Name: "net.ipv6.conf.all.disable_ipv6", Value: "1", Optional: true}, netcfg.Sysctl{Name: "net.ipv6.conf.default.disable_ipv6", Value: "1", Optional: true})
		if err != nil {
			return nil, err
		}
	}
	if err := n.addWire(peers); err != nil {
		return nil, err
	}
	for i := range pods {
		if err := n.addPod(i); err != nil {
			return nil, err
		}
	}
	return n, n.Write(n.File)
}

// addWire adds the wire with its peers, and what leads to these.
func (n *CrowdedNode) addWire(peers int) error {
	if err := n.addVeth(wire); err != nil {
		return err
	}
	if n.Kind == fastpath.VXLAN {
		if err := n.addOverlay(); err != nil {
			return err
		}
	}
	for i := range peers {
		if err := n.Netns.AddNeighbour(wire, addrIn(peerNetwork, i), macIn(peerNetwork, i)); err != nil {
			return err
		}
		if n.Kind != fastpath.VXLAN {
			continue
		}
		if err := n.Netns.AddFDB(tunnel, macIn(innerNetwork, i), addrIn(peerNetwork, i)); err != nil {
			return err
		}
	}
	return nil
}

// addOverlay adds a bridge for the pods, and a tunnel.
func (n *CrowdedNode) addOverlay() error {
	local := addrIn(peerNetwork, ownNumber)
	if err := n.Netns.AddAddr(wire, netip.PrefixFrom(local, 16)); err != nil {
		return err
	}
	// With the MAC of one of its ports, the bridge would forget its neighbours as they come.
	if err := n.Netns.AddBridge(bridge, PodMAC(ownNumber), mtu); err != nil {
		return err
	}
	return n.Netns.AddVXLAN(netcfg.VXLAN{Name: tunnel, MAC: macIn(innerNetwork, ownNumber), MTU: tunnelMTU, VNI: 1, Port: Port, Local: local, Device: wire})
}

// addVeth adds a pair of devices.
func (n *CrowdedNode) addVeth(name string) error {
	return netcfg.AddVeth(netcfg.VethEnd{In: n.Netns, Name: name}, netcfg.VethEnd{In: n.Ends, Name: name}, mtu)
}

func (n *CrowdedNode) addPod(i int) error {
	name := Device(i)
	if err := n.addVeth(name); err != nil {
		return err
	}
	if n.Kind != fastpath.VXLAN {
		if err := n.Netns.AddRoute(netcfg.Route{Dst: netip.PrefixFrom(PodAddr(i), 32), Device: name}); err != nil {
			return err
		}
		return n.Netns.AddNeighbour(name, PodAddr(i), PodMAC(i))
	}
	if err := n.Netns.Enslave(name, bridge, false); err != nil {
		return err
	}
	if err := n.Netns.AddPortFDB(name, PodMAC(i)); err != nil {
		return err
	}
	return n.Netns.AddNeighbour(bridge, PodAddr(i), PodMAC(i))
}
