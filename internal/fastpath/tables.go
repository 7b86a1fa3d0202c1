package fastpath

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"net/netip"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
)

// tables are the pods and peers that the programs know.
type tables struct {
	fast  *bpf.Fast
	pods  map[int]podIn             // by index of the device
	peers map[hop]peerIn            // by how the network addresses them
	free  []uint32                  // numbers of peers that are not used
	next  uint32                    // the first number that was never used
	epoch uint32                    // of the pod or peer that changed last; never 0
	ask   map[int]topology.LocalPod // that are new, or have changed: until they are heard, nothing is carried to them
}

type podIn struct {
	entry bpf.Pod
	addr  netip.Addr
}

type hop struct {
	device int
	mac    string
}

type peerIn struct {
	entry  bpf.Peer
	number uint32
	tenant uint32
}

func newTables(f *bpf.Fast, epoch uint32) *tables {
	return &tables{fast: f, pods: map[int]podIn{}, peers: map[hop]peerIn{}, ask: map[int]topology.LocalPod{}, epoch: epoch}
}

// sync makes the tables say what the network says now. What has changed gets a new
// epoch, by which all flows that stood on it end at once.
func (t *tables) sync(w topology.Topology) error {
	tenant := uint32(0) // of all pods: a network of several is not for this fast path
	for _, p := range w.NextHops {
		if p.Encap != nil {
			tenant = uint32(p.Encap.VNI)
		}
	}
	if err := t.fast.Tenant.Set(tenant); err != nil {
		return err
	}
	if err := t.syncPods(w.Pods, tenant); err != nil {
		return fmt.Errorf("write pods: %w", err)
	}
	if err := t.syncPeers(w.NextHops); err != nil {
		return fmt.Errorf("write peers: %w", err)
	}
	return nil
}

func (t *tables) fresh() uint32 {
	t.epoch++
	if t.epoch == 0 {
		t.epoch++
	}
	return t.epoch
}

func (t *tables) syncPods(ways []topology.LocalPod, tenant uint32) error {
	// On a machine that has seen many pods come and go, indices grow beyond the table:
	// pods there go slow.
	ways = slices.DeleteFunc(slices.Clone(ways), func(w topology.LocalPod) bool {
		return w.Device >= int(t.fast.Pods.MaxEntries())
	})
	there := map[int]bool{}
	for _, w := range ways {
		there[w.Device] = true
	}
	for device, p := range t.pods {
		if !there[device] {
			if err := t.dropPod(device, p); err != nil {
				return err
			}
		}
	}
	for _, w := range ways {
		was, known := t.pods[w.Device]
		is := bpf.NewPod(was.entry.Epoch, tenant, uint16(size(w.MTU)), w.Addr, w.MAC, w.Gateway)
		is.Receiver, is.Heard = uint32(w.NeighDevice), was.entry.Heard
		if known && is == was.entry {
			continue
		}
		if known {
			if err := t.dropPod(w.Device, was); err != nil {
				return err
			}
		}
		is.Epoch, is.Heard = t.fresh(), 0
		if !hasMAC(w.MAC) {
			is.Heard = is.Epoch // it takes whatever comes
		}
		t.ask[w.Device] = w
		if err := t.fast.PutPodAt(bpf.PodKey{Tenant: tenant, Addr: is.Addr}, uint32(w.Device)); err != nil {
			return err
		}
		blank := is
		blank.Epoch = 0
		if err := put(t.fast.PutPod, uint32(w.Device), blank, is); err != nil {
			return err
		}
		t.pods[w.Device] = podIn{is, w.Addr}
	}
	return nil
}

// hasMAC tells whether a device has a MAC: those of bare IP packets have none.
func hasMAC(mac net.HardwareAddr) bool {
	return slices.ContainsFunc(mac, func(b byte) bool { return b != 0 })
}

// put writes an entry in two steps: programs that read it meanwhile must not take a
// mixture of two for one of them, and so it is nobody's until all of it is there.
func put[T any](write func(at uint32, entry T) error, at uint32, blank, entry T) error {
	if err := write(at, blank); err != nil {
		return err
	}
	return write(at, entry)
}

func (t *tables) dropPod(device int, p podIn) error {
	if err := t.fast.PutPod(uint32(device), bpf.Pod{}); err != nil {
		return err
	}
	delete(t.pods, device)
	delete(t.ask, device)
	// Another pod may have its address by now.
	at, key := uint32(0), bpf.PodKey{Tenant: p.entry.Tenant, Addr: p.entry.Addr}
	if err := t.fast.PodAt.Lookup(key, &at); err != nil || at != uint32(device) {
		return absent(err)
	}
	return absent(t.fast.PodAt.Delete(key))
}

func (t *tables) syncPeers(ways []topology.NextHop) error {
	there := map[hop]bool{}
	for _, w := range ways {
		there[hopOf(w)] = true
	}
	for h, p := range t.peers {
		if !there[h] {
			if err := t.dropPeer(h, p); err != nil {
				return err
			}
		}
	}
	for _, w := range ways {
		h := hopOf(w)
		was, known := t.peers[h]
		is := entryOf(w, was.entry.Epoch)
		if known && is == was.entry {
			continue
		}
		if !known {
			number, ok := t.number()
			if !ok {
				continue // more peers than there is room for: the others go slow
			}
			was.number = number
		}
		if w.Encap != nil {
			was.tenant = uint32(w.Encap.VNI)
		}
		is.Epoch = t.fresh()
		blank := is
		blank.Epoch = 0
		if err := put(t.fast.PutPeer, was.number, blank, is); err != nil {
			return err
		}
		if err := t.fast.Hops.Put(h.key(), bpf.Hop{Peer: was.number, Tenant: was.tenant}); err != nil {
			return err
		}
		t.peers[h] = peerIn{is, was.number, was.tenant}
	}
	return nil
}

func (t *tables) dropPeer(h hop, p peerIn) error {
	if err := t.fast.PutPeer(p.number, bpf.Peer{}); err != nil {
		return err
	}
	t.free = append(t.free, p.number)
	delete(t.peers, h)
	return absent(t.fast.Hops.Delete(h.key()))
}

// number gives a number for a peer.
func (t *tables) number() (uint32, bool) {
	if n := len(t.free); n > 0 {
		number := t.free[n-1]
		t.free = t.free[:n-1]
		return number, true
	}
	if t.next >= t.fast.Peers.MaxEntries() {
		return 0, false
	}
	t.next++
	return t.next - 1, true
}

// hopOf is how packets for a peer leave the machine: by the wire, whatever device of a
// tunnel is in front of that, and to which MAC, within the tunnel if there is one.
func hopOf(w topology.NextHop) hop { return hop{w.WireDevice, string(w.MAC)} }

func (h hop) key() bpf.HopKey {
	return bpf.HopKey{Ifindex: uint32(h.device), Mac: [6]uint8([]byte(h.mac))}
}

// entryOf writes the headers that lead to a peer.
func entryOf(w topology.NextHop, epoch uint32) (p bpf.Peer) {
	defer func() { p.Receiver = uint32(w.Device) }()
	if w.Encap == nil {
		return bpf.RoutedPeer(epoch, uint32(w.WireDevice), size(w.MTU), w.SrcMAC, w.DstMAC)
	}
	return bpf.VXLANPeer(epoch, uint32(w.WireDevice), size(w.MTU), bpf.Outer{
		From: w.SrcMAC, To: w.DstMAC, Local: w.Encap.Local, Remote: w.Encap.Remote,
		DSCP: uint8(w.Encap.DSCP), TTL: uint8(w.Encap.TTL), DontFragment: w.Encap.DontFragment, Port: uint16(w.Encap.Port), VNI: uint32(w.Encap.VNI),
		InnerFrom: w.Encap.MAC, InnerTo: net.HardwareAddr(w.MAC),
	})
}

// size is that of the largest IP packet that goes some way whole, bytes: there is none
// larger than its header can say.
func size(mtu int) uint32 { return uint32(min(mtu, math.MaxUint16)) }

// absent takes it for done when what was to be deleted was not there.
func absent(err error) error {
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil
	}
	return err
}

// tenants are those that flows can have.
func (t *tables) tenants() []uint32 {
	seen := map[uint32]bool{0: true}
	for _, p := range t.peers {
		seen[p.tenant] = true
	}
	return slices.Collect(maps.Keys(seen))
}

// tunnels are the devices by which the network itself sends to peers, where there are
// tunnels.
func (t *tables) tunnels() map[int]bool {
	tunnels := map[int]bool{}
	for _, p := range t.peers {
		if p.entry.Receiver != p.entry.Ifindex {
			tunnels[int(p.entry.Receiver)] = true
		}
	}
	return tunnels
}

// wires are the devices by which peers are reached.
func (t *tables) wires() map[int]bool {
	wires := map[int]bool{}
	for _, p := range t.peers {
		wires[int(p.entry.Ifindex)] = true
	}
	return wires
}
