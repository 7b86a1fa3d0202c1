package fastpath

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
)

// tables mirrors the programs' tables of pods and peers.
type tables struct {
	objs     *bpf.Objects
	pods     map[int]podEntry          // by ifindex
	peers    map[hop]peerEntry         // by how the network addresses the next hop
	free     []uint32                  // unused numbers of peers
	next     uint32                    // the lowest number never used
	epoch    uint32                    // of the latest change of a pod or peer; never 0
	unprobed map[int]topology.LocalPod // new or changed pods, which get an ARP probe
}

type podEntry struct {
	entry bpf.Pod
	addr  netip.Addr
	mac   [6]byte // of its own device; if that changes, the pod is to send again before packets are carried to it
}

type hop struct {
	device int
	to     string // a MAC, or an address
}

type peerEntry struct {
	entry  bpf.Peer
	number uint32
	tenant uint32
}

func newTables(objs *bpf.Objects, epoch uint32) *tables {
	return &tables{objs: objs, pods: map[int]podEntry{}, peers: map[hop]peerEntry{}, unprobed: map[int]topology.LocalPod{}, epoch: epoch}
}

// sync writes a topology to the tables. Each pod or peer that has changed gets a new epoch,
// which invalidates its flows at once.
func (t *tables) sync(topo topology.Topology) error {
	tenant := podTenant(topo)
	if err := t.objs.Tenant.Set(tenant); err != nil {
		return err
	}
	if err := t.syncPods(topo.Pods, tenant, topo.TC); err != nil {
		return fmt.Errorf("write pods: %w", err)
	}
	if err := t.syncPeers(topo.NextHops); err != nil {
		return fmt.Errorf("write peers: %w", err)
	}
	return nil
}

// podTenant is the VNI of all pods, and so in the keys of all flows: a network with several is not supported.
func podTenant(topo topology.Topology) (tenant uint32) {
	for _, p := range topo.NextHops {
		if p.Encap != nil {
			tenant = tenantOf(p.Encap)
		}
	}
	return tenant
}

// tenantOf is the VNI in keys of flows. With Geneve each peer has one of its own, which is no part of them;
// and where the tunnel's device adds it, the programs see none.
func tenantOf(e *topology.Encap) uint32 {
	if e.Geneve || e.ByDevice {
		return 0
	}
	return uint32(e.VNI)
}

func (t *tables) newEpoch() uint32 {
	t.epoch++
	if t.epoch == 0 {
		t.epoch++
	}
	return t.epoch
}

func (t *tables) syncPods(pods []topology.LocalPod, tenant uint32, tc map[int]topology.TCState) error {
	there := map[int]bool{}
	for _, pod := range pods {
		there[pod.Device] = true
	}
	for device, p := range t.pods {
		if !there[device] {
			if err := t.dropPod(device, p); err != nil {
				return err
			}
		}
	}
	for _, pod := range pods {
		if err := t.syncPod(pod, tenant, tc[pod.Device].Netkit); err != nil {
			return err
		}
	}
	t.objs.KeepPods(func(yield func(uint32) bool) {
		for _, p := range t.pods {
			if !yield(p.entry.Addr) {
				return
			}
		}
	})
	return nil
}

// syncPod writes a pod, unless the table has it so.
func (t *tables) syncPod(pod topology.LocalPod, tenant uint32, netkit bool) (err error) {
	was, known := t.pods[pod.Device]
	is := bpf.NewPod(was.entry.Epoch, tenant, uint16(size(pod.MTU)), pod.Addr, pod.MAC, pod.Gateway)
	is.IngressIfindex, is.MacEpoch = uint32(pod.NeighDevice), was.entry.MacEpoch
	if !netkit { // whose programs cannot redirect into a pod
		is.Sibling = 1
	}
	is.Addr, err = t.objs.AddrWord(pod.Addr)
	noRoom := errors.Is(err, syscall.E2BIG) // for its address: the pod stays slow
	if err != nil && !noRoom {
		return err
	}
	if known && !noRoom && is == was.entry && pod.PodEnd.MAC == was.mac {
		return nil
	}
	if known {
		if err := t.dropPod(pod.Device, was); err != nil {
			return err
		}
	}
	if noRoom {
		return nil
	}
	is.Epoch, is.MacEpoch = t.newEpoch(), 0
	if !hasMAC(pod.MAC) {
		is.MacEpoch = is.Epoch // it accepts any frame
	}
	t.unprobed[pod.Device] = pod
	if err := t.objs.PutPodAt(bpf.PodKey{Tenant: tenant, Addr: is.Addr}, uint32(pod.Device)); err != nil {
		return err
	}
	blank := is
	blank.Epoch = 0
	if err := putBlankFirst(t.objs.PutPod, uint32(pod.Device), blank, is); err != nil {
		return err
	}
	t.pods[pod.Device] = podEntry{is, pod.Addr, pod.PodEnd.MAC}
	return nil
}

// hasMAC tells whether a device has a MAC. Layer 3 devices have none.
func hasMAC(mac net.HardwareAddr) bool {
	return slices.ContainsFunc(mac, func(b byte) bool { return b != 0 })
}

// putBlankFirst writes an entry in two steps, first with epoch 0, so that programs that read
// it meanwhile ignore a mixture of the old entry and the new.
func putBlankFirst[T any](write func(at uint32, entry T) error, at uint32, blank, entry T) error {
	if err := write(at, blank); err != nil {
		return err
	}
	return write(at, entry)
}

func (t *tables) dropPod(device int, p podEntry) error {
	if err := t.objs.PutPod(uint32(device), bpf.Pod{}); err != nil {
		return err
	}
	delete(t.pods, device)
	delete(t.unprobed, device)
	// Another pod may have taken its address.
	at, key := uint32(0), bpf.PodKey{Tenant: p.entry.Tenant, Addr: p.entry.Addr}
	if err := t.objs.PodAt.Lookup(key, &at); err != nil || at != uint32(device) {
		return bpf.IgnoreMissing(err)
	}
	return bpf.IgnoreMissing(t.objs.PodAt.Delete(key))
}

func (t *tables) syncPeers(hops []topology.NextHop) error {
	least := map[hop]int{} // MTU: a router has several addresses of IPv6
	for _, next := range hops {
		h := hopOf(next)
		if mtu, known := least[h]; !known || next.MTU < mtu {
			least[h] = next.MTU
		}
	}
	for h, p := range t.peers {
		if _, there := least[h]; !there {
			if err := t.dropPeer(h, p); err != nil {
				return err
			}
		}
	}
	var added newPeers
	first := t.next // and all above were never used, so nothing refers to them
	for _, next := range hops {
		h := hopOf(next)
		next.MTU = least[h]
		was, known := t.peers[h]
		is := newPeer(next, was.entry.Epoch)
		if known && is == was.entry {
			continue
		}
		if !known {
			was.number = t.number()
		}
		if next.Encap != nil {
			was.tenant = tenantOf(next.Encap)
		}
		is.Epoch = t.newEpoch()
		at := bpf.Hop{Peer: was.number, Tenant: was.tenant}
		t.peers[h] = peerEntry{is, was.number, was.tenant}
		if !known && was.number >= first {
			added.add(h, at, is)
			continue
		}
		if err := added.write(t.objs); err != nil { // this one may be among them
			return err
		}
		blank := is
		blank.Epoch = 0
		if err := putBlankFirst(t.objs.PutPeer, was.number, blank, is); err != nil {
			return err
		}
		if err := t.objs.Hops.Put(h.key(), at); err != nil {
			return err
		}
	}
	return added.write(t.objs)
}

// newPeers are peers to which nothing in the programs' tables refers yet. There may be a thousand at
// the start, and they are written at once.
type newPeers struct {
	numbers []uint32
	entries []bpf.Peer
	keys    []bpf.HopKey
	hops    []bpf.Hop
}

func (n *newPeers) add(h hop, at bpf.Hop, p bpf.Peer) {
	n.numbers, n.entries = append(n.numbers, at.Peer), append(n.entries, p)
	n.keys, n.hops = append(n.keys, h.key()), append(n.hops, at)
}

// write writes them, and first what the others refer to.
func (n *newPeers) write(to *bpf.Objects) error {
	if len(n.numbers) == 0 {
		return nil
	}
	_, err := to.Peers.BatchUpdate(n.numbers, n.entries, nil)
	if err == nil {
		_, err = to.Hops.BatchUpdate(n.keys, n.hops, nil)
	}
	*n = newPeers{}
	return err
}

func (t *tables) dropPeer(h hop, p peerEntry) error {
	if err := t.objs.PutPeer(p.number, bpf.Peer{}); err != nil {
		return err
	}
	t.free = append(t.free, p.number)
	delete(t.peers, h)
	return bpf.IgnoreMissing(t.objs.Hops.Delete(h.key()))
}

// number allocates a number for a peer. There is one for each, see refuseBeyond.
func (t *tables) number() uint32 {
	if n := len(t.free); n > 0 {
		number := t.free[n-1]
		t.free = t.free[:n-1]
		return number
	}
	t.next++
	return t.next - 1
}

// hopOf is how packets for a peer leave the host: by which device on the wire, and to which
// MAC, inside the tunnel if there is one; or to which address, if the tunnel has no MACs.
func hopOf(next topology.NextHop) hop {
	if next.Encap != nil && next.Encap.IPIP {
		return hop{next.WireDevice, string(next.Encap.Remote.AsSlice())}
	}
	return hop{next.WireDevice, string(next.MAC)}
}

func (h hop) key() bpf.HopKey { return bpf.NewHopKey(h.device, []byte(h.to)) }

// newPeer makes the entry of a peer.
func newPeer(next topology.NextHop, epoch uint32) bpf.Peer {
	p := peerHeaders(next, epoch)
	p.IngressIfindex = uint32(next.Device)
	return p
}

// peerHeaders makes it with the headers that lead there.
func peerHeaders(next topology.NextHop, epoch uint32) bpf.Peer {
	if next.Encap == nil || next.Encap.ByDevice {
		return bpf.RoutedPeer(epoch, uint32(next.WireDevice), size(next.MTU), next.SrcMAC, next.DstMAC)
	}
	o := bpf.Outer{
		From: next.SrcMAC, To: next.DstMAC, Local: next.Encap.Local, Remote: next.Encap.Remote,
		DSCP: uint8(next.Encap.DSCP), TTL: uint8(next.Encap.TTL), DontFragment: next.Encap.DontFragment, Port: uint16(next.Encap.Port), VNI: uint32(next.Encap.VNI),
		InnerFrom: next.Encap.MAC, InnerTo: net.HardwareAddr(next.MAC),
	}
	switch {
	case next.Encap.IPIP:
		return bpf.IPIPPeer(epoch, uint32(next.WireDevice), size(next.MTU), o)
	case next.Encap.Geneve:
		return bpf.GenevePeer(epoch, uint32(next.WireDevice), size(next.MTU), o)
	}
	return bpf.VXLANPeer(epoch, uint32(next.WireDevice), size(next.MTU), o)
}

// size is the largest IP packet that an MTU lets through, in bytes. The IP header limits it. One that
// is not known yet, less the headers of a tunnel, lets none through.
func size(mtu int) uint32 { return uint32(max(0, min(mtu, math.MaxUint16))) }

// tunnels are the tunnel devices through which the network sends to peers.
func (t *tables) tunnels() map[int]bool {
	tunnels := map[int]bool{}
	for _, p := range t.peers {
		if p.entry.IngressIfindex != p.entry.Ifindex {
			tunnels[int(p.entry.IngressIfindex)] = true
		}
	}
	return tunnels
}

// wires are the devices on the wire through which peers are reached.
func (t *tables) wires() map[int]bool {
	wires := map[int]bool{}
	for _, p := range t.peers {
		wires[int(p.entry.Ifindex)] = true
	}
	return wires
}
