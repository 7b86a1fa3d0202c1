package fastpath

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
)

// FlowCount counts flows in the table of flows.
type FlowCount struct {
	Flows      int `json:"flows"`
	Carried    int `json:"carried"`    // in at least one direction
	OneWay     int `json:"one_way"`    // of those, in one direction only: the network has not forwarded the other yet
	Learning   int `json:"learning"`   // not carried yet
	Stale      int `json:"stale"`      // not carried since rules, a pod or a peer have changed
	Translated int `json:"translated"` // their addresses or ports are, such as those to Services
}

// Slow counts those that are not carried.
func (n FlowCount) Slow() int { return n.Learning + n.Stale }

// add counts a flow, in an epoch.
func (n *FlowCount) add(f bpf.Flow, epoch uint32) {
	n.Flows++
	switch {
	case f.Epoch == epoch:
		n.Carried++
		if f.SeenOut != f.SeenIn { // both are the same proof, where both ways were seen
			n.OneWay++
		}
	case f.Epoch == 0:
		n.Learning++
	default:
		n.Stale++
	}
	if f.Translated != 0 {
		n.Translated++
	}
}

// PodFlows counts the flows of a pod.
type PodFlows struct {
	Device string     `json:"device"` // the host's end of its link
	Addr   netip.Addr `json:"addr"`
	FlowCount
}

// PeerFlows counts the flows to a peer.
type PeerFlows struct {
	Addr string `json:"addr"` // on the wire; without a tunnel, its MAC
	FlowCount
}

// ReadOwners reads from the folder of a fast path's pins its table of flows, and whose they are:
// all pods and peers that it knows, in order. It names the devices of the calling thread's
// namespace.
func ReadOwners(c *Config, pins string) (t Table, pods []PodFlows, peers []PeerFlows, err error) {
	of, err := countFlows(c, pins)
	if err == nil {
		t, err = readRoom(pins)
		t.Flows = of.all
	}
	if err == nil {
		pods, err = readPods(c, pins, of.pods)
	}
	if err == nil {
		peers, err = readPeers(c, pins, of.peers)
	}
	if err != nil {
		return t, nil, nil, fmt.Errorf("read the pods and peers of a fast path: %w", err)
	}
	return t, pods, peers, nil
}

// flowCounts are those of pods, by the index of their device, and of peers, by their number.
type flowCounts struct {
	all         int
	pods, peers map[uint32]*FlowCount
}

func countFlows(c *Config, pins string) (flowCounts, error) {
	of := flowCounts{pods: map[uint32]*FlowCount{}, peers: map[uint32]*FlowCount{}}
	epoch, err := bpf.ReadEpoch(pins, c.Kind)
	if err != nil {
		return of, err
	}
	err = eachFlow(pins, func(k bpf.FlowKey, f bpf.Flow) {
		if k.IsOnWire() { // it has another entry
			return
		}
		of.all++
		if f.PodEpoch == 0 { // it is not of anybody yet
			return
		}
		entryOf(of.pods, f.Pod).add(f, epoch)
		if f.Peer&bpf.Sibling == 0 {
			entryOf(of.peers, f.Peer).add(f, epoch)
		}
	})
	return of, err
}

// entryOf finds or makes the counts of a number.
func entryOf(of map[uint32]*FlowCount, number uint32) *FlowCount {
	if of[number] == nil {
		of[number] = new(FlowCount)
	}
	return of[number]
}

// eachFlow calls do for each entry of the table of flows, some thousands of which it reads in one
// system call.
func eachFlow(pins string, do func(bpf.FlowKey, bpf.Flow)) error {
	flows, err := openTable(pins, "flows")
	if err != nil {
		return err
	}
	defer flows.Close()
	var cursor ebpf.MapBatchCursor
	keys, values := make([]bpf.FlowKey, sweepBatch), make([]bpf.Flow, sweepBatch)
	for {
		n, err := flows.BatchLookup(&cursor, keys, values, nil)
		for i := range n {
			do(keys[i], values[i])
		}
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func openTable(pins, name string) (*ebpf.Map, error) {
	return ebpf.LoadPinnedMap(bpf.TableFile(pins, name), &ebpf.LoadPinOptions{ReadOnly: true})
}

func readPods(c *Config, pins string, of map[uint32]*FlowCount) ([]PodFlows, error) {
	pods := []PodFlows{}
	table, err := openTable(pins, "pod_at")
	if err != nil {
		return nil, err
	}
	defer table.Close()
	addr, err := bpf.ReadNumbers(pins, c.Kind)
	if err != nil {
		return nil, err
	}
	var (
		at     bpf.PodKey
		device uint32
	)
	entries := table.Iterate()
	for entries.Next(&at, &device) {
		p := PodFlows{Device: fmt.Sprintf("device %d", device), Addr: addr(at.Addr), FlowCount: *entryOf(of, device)}
		if link, err := net.InterfaceByIndex(int(device)); err == nil {
			p.Device = link.Name
		}
		pods = append(pods, p)
	}
	slices.SortFunc(pods, func(a, b PodFlows) int { return a.Addr.Compare(b.Addr) })
	return pods, entries.Err()
}

func readPeers(c *Config, pins string, of map[uint32]*FlowCount) ([]PeerFlows, error) {
	peers := []PeerFlows{}
	hops, err := openTable(pins, "hops")
	if err != nil {
		return nil, err
	}
	defer hops.Close()
	table, err := openTable(pins, "peers")
	if err != nil {
		return nil, err
	}
	defer table.Close()
	var (
		via bpf.HopKey
		to  bpf.Hop
	)
	entries := hops.Iterate()
	for entries.Next(&via, &to) {
		var peer bpf.Peer
		if err := table.Lookup(to.Peer, &peer); err != nil {
			return nil, err
		}
		p := PeerFlows{Addr: net.HardwareAddr(via.Mac[:]).String(), FlowCount: *entryOf(of, to.Peer)}
		if c.hasTunnels() && c.Kind != VXLAN6 {
			p.Addr = peer.Remote().String()
		}
		peers = append(peers, p)
	}
	slices.SortFunc(peers, func(a, b PeerFlows) int { return cmp.Compare(a.Addr, b.Addr) })
	return peers, entries.Err()
}
