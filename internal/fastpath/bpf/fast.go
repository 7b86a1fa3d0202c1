package bpf

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
)

// What programs and daemon share, as src/state.h has it; addresses and ports are
// in network order, as they are on the wire.
type (
	// FlowKey is a flow as its pod sees it.
	FlowKey = vxlanFlowKey
	// Flow is what is known of one.
	Flow = vxlanFlow
	// Pod is what is known of a pod, by the index of its device on the machine.
	Pod = vxlanPod
	// PodKey says where a pod's address is looked up.
	PodKey = vxlanPodKey
	// Peer is a next hop, and what is put in front of packets that go there.
	Peer = vxlanPeer
	// HopKey is a next hop as the network itself addresses it: a device and a MAC.
	HopKey = vxlanHopKey
	// Hop leads from there to the peer.
	Hop = vxlanHop
	// Counter counts packets for one reason, on one core.
	Counter = vxlanCounter
	// Pin asks the daemon to make conntrack's entry fit for a flow.
	Pin = vxlanPin
)

// Fast is a fast path in the kernel: its programs, not yet attached, and its
// tables.
type Fast struct {
	FromPod  *ebpf.Program `ebpf:"from_pod"`  // on a pod's device: what the pod sends
	ToPod    *ebpf.Program `ebpf:"to_pod"`    // there: what the network gives to the pod
	FromWire *ebpf.Program `ebpf:"from_wire"` // on the wire: what comes from peers
	ToPeer   *ebpf.Program `ebpf:"to_peer"`   // where the network itself sends to peers
	ToTunnel *ebpf.Program `ebpf:"to_tunnel"` // on the tunnels' devices: what the network sends into them

	Flows  *ebpf.Map `ebpf:"flows"`  // FlowKey: Flow
	Pods   *ebpf.Map `ebpf:"pods"`   // index of a device: Pod
	PodAt  *ebpf.Map `ebpf:"pod_at"` // PodKey: index of a device
	Peers  *ebpf.Map `ebpf:"peers"`  // number: Peer
	Hops   *ebpf.Map `ebpf:"hops"`   // HopKey: Hop
	Counts *ebpf.Map `ebpf:"counts"` // Count: Counter, by core
	Pins   *ebpf.Map `ebpf:"pins"`   // ring of Pin
	Data   *ebpf.Map `ebpf:".data"`  // what the daemon sets without a call

	Epoch     *ebpf.Variable `ebpf:"epoch"`     // uint32, of policy: to be raised when rules change
	Tick      *ebpf.Variable `ebpf:"tick"`      // uint32, to be raised once a second or so
	Version   *ebpf.Variable `ebpf:"version"`   // uint32, of pods and peers; see [Fast.PutPod] and [Fast.PutPeer]
	Unreplied *ebpf.Variable `ebpf:"unreplied"` // see [Fast.SetUnreplied]
	Tenant    *ebpf.Variable `ebpf:"tenant"`    // uint32, of all pods
	Deadline  *ebpf.Variable `ebpf:"deadline"`  // uint64, jiffies: at it, everything goes slow

	Clock   *ebpf.Program  `ebpf:"clock"`
	Jiffies *ebpf.Variable `ebpf:"jiffies"`

	deadline uint32 // where that is in Data

	endings int64 // where the numbers of groups of flows are in Data
	home    int64 // and the bits of pods' addresses
}

// Options of a fast path.
type Options struct {
	// Pins is a folder in which tables are pinned, and from which those are taken
	// over that outlive a fast path; "": none are.
	Pins string
	// Detach takes away what is attached by a file there, and the file.
	Detach func(file string) error
	// Stamp tells fast paths of one machine apart: 0 to 15.
	Stamp uint8
}

// NewVXLAN loads the fast path of an overlay whose tunnels have a UDP port.
func NewVXLAN(o Options, port uint16) (*Fast, error) {
	spec, err := loadVxlan()
	if err != nil {
		return nil, err
	}
	if err := spec.Variables["port"].Set(swap(port)); err != nil {
		return nil, err
	}
	return load(spec, o)
}

// NewRouted loads the fast path of a network without tunnels.
func NewRouted(o Options) (*Fast, error) {
	spec, err := loadRouted()
	if err != nil {
		return nil, err
	}
	return load(spec, o)
}

// load loads programs and tables.
func load(spec *ebpf.CollectionSpec, o Options) (*Fast, error) {
	if err := spec.Variables["stamp_id"].Set(uint32(o.Stamp)); err != nil {
		return nil, err
	}
	if err := sizeSlots(spec); err != nil {
		return nil, err
	}
	kept, err := adopt(spec, o)
	if err != nil {
		return nil, err
	}
	defer closeAll(kept) // the programs hold it now
	c, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: kept})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := keep(c.Maps, kept, spec, o.Pins); err != nil {
		return nil, err
	}
	f := &Fast{deadline: spec.Variables["deadline"].Offset, endings: int64(spec.Variables["ended"].Offset), home: int64(spec.Variables["home"].Offset)}
	return f, c.Assign(f)
}

// SetUnreplied says whether UDP of which connection tracking has seen no reply may be
// carried. The epoch of policy is to be raised afterwards.
func (f *Fast) SetUnreplied(may bool) error {
	if may {
		return f.Unreplied.Set(uint32(1))
	}
	return f.Unreplied.Set(uint32(2))
}

const tablePrefix = "table_"

// TableFile is where a table is pinned in a folder; the kernel takes no dot in its
// name.
func TableFile(folder, table string) string {
	return filepath.Join(folder, tablePrefix+strings.TrimPrefix(table, "."))
}

// Now is the kernel's clock that deadlines are of, in jiffies.
func (f *Fast) Now() (now uint64, err error) {
	if _, err := f.Clock.Run(&ebpf.RunOptions{Data: make([]byte, ethLen)}); err != nil {
		return 0, fmt.Errorf("read the kernel's clock: %w", err)
	}
	return now, f.Jiffies.Get(&now)
}

// Close lets go of programs and tables. What is attached or pinned stays.
func (f *Fast) Close() {
	for _, c := range []interface{ Close() error }{f.FromPod, f.ToPod, f.FromWire, f.ToPeer, f.ToTunnel,
		f.Flows, f.Pods, f.PodAt, f.Peers, f.Hops, f.Counts, f.Pins, f.Data, f.Clock} {
		_ = c.Close() // a descriptor: what is behind it lives as long as others have it
	}
}

// swap gives a number of this machine as the network writes it.
func swap(n uint16) uint16 { return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, n)) }

// The kinds have the same layouts, or this does not compile.
var (
	_ = vxlanFlow(routedFlow{})
	_ = vxlanFlowKey(routedFlowKey{})
	_ = vxlanPod(routedPod{})
	_ = vxlanPeer(routedPeer{})
	_ = vxlanHop(routedHop{})
)
