package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sync/errgroup"
)

// Layouts that programs and daemon share, from src/state.h. Addresses and ports are in
// network byte order.
type (
	// FlowKey identifies a flow as its pod sees it.
	FlowKey = vxlanFlowKey
	// Flow is the entry of a flow.
	Flow = vxlanFlow
	// Pod is the entry of a pod, by the ifindex of its device on the host.
	Pod = vxlanPod
	// PodKey is the key of a pod's address.
	PodKey = vxlanPodKey
	// Peer is a next hop, with the headers of packets that go there.
	Peer = vxlanPeer
	// HopKey is a next hop as the network addresses it: a device and a MAC, or an address.
	// See [NewHopKey].
	HopKey = vxlanHopKey
	// Hop maps it to the number of the peer.
	Hop = vxlanHop
	// Counter counts the packets with one outcome on one core.
	Counter = vxlanCounter
	// CtRequest asks the daemon to prepare the conntrack entry of a flow, or says that the flow's
	// connection was reset: then Entry is [Reset].
	CtRequest = vxlanCtRequest
)

// Reset is the Entry of a [CtRequest] that reports a reset. No conntrack entry has this number.
const Reset = 0

// Objects are the programs of a fast path, not yet attached, and its tables.
type Objects struct {
	FromPod  *ebpf.Program `ebpf:"from_pod"`  // on a pod's device: what the pod sends
	ToPod    *ebpf.Program `ebpf:"to_pod"`    // there: what the network forwards to the pod
	FromWire *ebpf.Program `ebpf:"from_wire"` // on the wire: what peers send
	ToPeer   *ebpf.Program `ebpf:"to_peer"`   // where the network itself sends to peers
	ToTunnel *ebpf.Program `ebpf:"to_tunnel"` // on the tunnels' devices: what the network sends into them
	// FromTunnel is there, too: what has come through them, as far as FromWire leaves it to them.
	FromTunnel *ebpf.Program `ebpf:"from_tunnel"`

	Flows    *ebpf.Map `ebpf:"flows"`       // FlowKey: Flow
	Pods     *ebpf.Map `ebpf:"pods"`        // ifindex: Pod
	PodAt    *ebpf.Map `ebpf:"pod_at"`      // PodKey: ifindex
	Peers    *ebpf.Map `ebpf:"peers"`       // number: Peer
	Hops     *ebpf.Map `ebpf:"hops"`        // HopKey: Hop
	Counts   *ebpf.Map `ebpf:"counts"`      // Count: Counter, by core
	Requests *ebpf.Map `ebpf:"ct_requests"` // ring of CtRequest
	Data     *ebpf.Map `ebpf:".data"`       // globals that the daemon writes without a system call

	Epoch     *ebpf.Variable `ebpf:"epoch"`     // uint32, the policy epoch
	Tick      *ebpf.Variable `ebpf:"tick"`      // uint32, advances about once a second
	Version   *ebpf.Variable `ebpf:"version"`   // uint32, of pods and peers; see [Objects.PutPod] and [Objects.PutPeer]
	Unreplied *ebpf.Variable `ebpf:"unreplied"` // see [Objects.SetUnreplied]
	Tracking  *ebpf.Variable `ebpf:"tracking"`  // see [Objects.SetTracking]
	Tenant    *ebpf.Variable `ebpf:"tenant"`    // uint32, of all pods
	Deadline  *ebpf.Variable `ebpf:"deadline"`  // uint64, jiffies: when the lease expires

	Clock   *ebpf.Program  `ebpf:"clock"`
	Jiffies *ebpf.Variable `ebpf:"jiffies"`

	secret     []uint64 // with which proofs are made, see src/packet.h
	deadlineAt uint32   // offset of the deadline in Data

	types func() *btf.Cache // of the kernel, until all is loaded: it holds some megabytes

	groupsAt    int64 // offset in Data of the versions of groups of flows
	localPodsAt int64 // offset in Data of the bitmap of pods' addresses

	extraTables map[string]*ebpf.Map // tables that only some programs have
	addrs       addressing           // how they have addresses; nil: as IPv4 does
}

// Options of a fast path.
type Options struct {
	// Pins is a folder in which tables are pinned, and from which those of an earlier
	// daemon are adopted; "": none.
	Pins string
	// Detach detaches the program of a pin, and removes the pin.
	Detach func(file string) error
	// Stamp distinguishes fast paths of one host: 0 to 15.
	Stamp uint8
	// NoNAT leaves flows slow whose addresses or ports are translated.
	NoNAT bool
	// Shadow loads programs that carry nothing: they record what they would send, and what
	// the network sends.
	Shadow bool
}

// Kinds of fast path.
const (
	VXLAN  = "vxlan"  // pods behind a bridge or routes, a vxlan device with forwarding entries to each peer
	Geneve = "geneve" // the same, with a geneve device to each peer
	IPIP   = "ipip"   // pods behind routes, an ipip device with routes by each peer
	Routed = "routed" // pods behind routes, peers on the wire
	// Routed6 is the same for IPv6. Hosts with both versions have a fast path for each.
	Routed6 = "routed6"
	// VXLAN6 is of IPv6, too: peers are behind a vxlan device, which adds and removes the outer headers of
	// carried packets as of all others. To the programs it is a wire.
	VXLAN6 = "vxlan6"
)

// sources are the programs of each kind, and those of its shadow. Geneve is a setting of VXLAN's.
var sources = map[string]struct {
	carry, shadow func() (*ebpf.CollectionSpec, error)
}{
	VXLAN:  {loadVxlan, loadShadowVxlan},
	Geneve: {loadVxlan, loadShadowVxlan},
	IPIP:   {loadIpip, loadShadowIpip},
	Routed: {loadRouted, loadShadowRouted}, Routed6: {loadRouted6, loadShadowRouted6},
	VXLAN6: {loadRouted6, loadShadowRouted6},
}

// source reads the programs of a kind.
func source(kind string, shadow bool) (*ebpf.CollectionSpec, error) {
	read := sources[kind].carry
	if shadow {
		read = sources[kind].shadow
	}
	spec, err := read()
	if err != nil {
		return nil, err
	}
	spec.Maps[dataTable].Flags |= mmapable
	return spec, nil
}

// New loads the fast path of a kind. Those with tunnels over UDP have the port of these.
func New(kind string, o Options, port uint16) (*Objects, error) {
	spec, err := source(kind, o.Shadow)
	if err != nil {
		return nil, err
	}
	if err := setTunnel(spec, kind, port); err != nil {
		return nil, err
	}
	return load(spec, o)
}

// setTunnel says what tunnels over UDP have around packets, if there are any.
func setTunnel(spec *ebpf.CollectionSpec, kind string, port uint16) error {
	at := spec.Variables["port"]
	if at == nil {
		return nil
	}
	geneve := uint32(0)
	if kind == Geneve {
		geneve = 1
	}
	return errors.Join(at.Set(swap(port)), spec.Variables["geneve"].Set(geneve))
}

// load loads programs and tables.
func load(spec *ebpf.CollectionSpec, o Options) (*Objects, error) {
	if err := spec.Variables["stamp_id"].Set(uint32(o.Stamp)); err != nil {
		return nil, err
	}
	if o.NoNAT {
		if err := spec.Variables["carry_translated"].Set(uint32(0)); err != nil {
			return nil, err
		}
	}
	secret, err := setSecrets(spec)
	if err != nil {
		return nil, err
	}
	if err := sizeSlots(spec); err != nil {
		return nil, err
	}
	kept, err := adopt(spec, o)
	if err != nil {
		return nil, err
	}
	defer closeAll(kept) // the programs hold them now
	types := btf.NewCache()
	c, err := loadAtOnce(spec, kept, types)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := pinTables(c.Maps, kept, spec, o.Pins); err != nil {
		return nil, err
	}
	objs := &Objects{secret: secret, types: func() *btf.Cache { return types }, deadlineAt: spec.Variables["deadline"].Offset, groupsAt: int64(spec.Variables["ended"].Offset), localPodsAt: int64(spec.Variables["home"].Offset)}
	objs.extraTables = map[string]*ebpf.Map{}
	for _, name := range []string{shadowRecords, numbersTable, addressesTable} {
		if m := c.DetachMap(name); m != nil {
			objs.extraTables[name] = m
		}
	}
	if objs.extraTables[numbersTable] != nil {
		objs.addrs = newNumbers(objs.extraTables, objs.bumpVersion)
	}
	return objs, c.Assign(objs)
}

// loadAtOnce makes the tables, of which some are there, while it reads the kernel's types, and then
// loads as many programs at a time as there are cores, the largest first: the kernel takes up to
// 35 ms to verify one.
func loadAtOnce(spec *ebpf.CollectionSpec, there map[string]*ebpf.Map, types *btf.Cache) (c *ebpf.Collection, err error) {
	go func() {
		if kernel, err := types.Kernel(); err == nil { // what fails here fails again below
			_, _ = kernel.AnyTypesByName("sk_buff") // parses it, and most of what programs name
		}
	}()
	tables := spec.Copy()
	clear(tables.Programs)
	if c, err = ebpf.NewCollectionWithOptions(tables, ebpf.CollectionOptions{MapReplacements: there, Cache: types}); err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var loading errgroup.Group
	loading.SetLimit(runtime.GOMAXPROCS(0))
	names := slices.SortedFunc(maps.Keys(spec.Programs), func(a, b string) int {
		return len(spec.Programs[b].Instructions) - len(spec.Programs[a].Instructions)
	})
	for _, name := range names {
		one := spec.Copy()
		clear(one.Variables)
		maps.DeleteFunc(one.Programs, func(other string, _ *ebpf.ProgramSpec) bool { return other != name })
		loading.Go(func() error {
			loaded, err := ebpf.NewCollectionWithOptions(one, ebpf.CollectionOptions{MapReplacements: c.Maps, Cache: types})
			if err != nil {
				return err
			}
			defer loaded.Close()
			mu.Lock()
			defer mu.Unlock()
			c.Programs[name] = loaded.DetachProgram(name)
			return nil
		})
	}
	if err := loading.Wait(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// SetUnreplied sets whether UDP may be carried for which connection tracking has seen no
// reply; with rules that translate, only if those were asked about it. The caller must bump the policy
// epoch afterwards.
func (o *Objects) SetUnreplied(may, rulesTranslate bool) error {
	value := uint32(2)
	switch {
	case may && rulesTranslate:
		value = 3
	case may:
		value = 1
	}
	return o.Unreplied.Set(value)
}

// Tracking tells which packets meet rules that go by connection tracking. Of those, one without a connection is
// invalid, unless a rule has taken it from connection tracking: it teaches nothing.
type Tracking struct {
	Routed  bool // those that the host routes
	Bridged bool // those that a bridge forwards
}

// SetTracking sets which packets meet such rules. If these are more than before, the caller must bump the policy epoch
// afterwards.
func (o *Objects) SetTracking(t Tracking) error {
	value := uint32(0)
	if t.Routed {
		value |= 1
	}
	if t.Bridged {
		value |= 2
	}
	return o.Tracking.Set(value)
}

const tablePrefix = "table_"

// TableFile is the pin of a table in a folder. The kernel accepts no dot in its name.
func TableFile(folder, table string) string {
	return filepath.Join(folder, tablePrefix+strings.TrimPrefix(table, "."))
}

// Now reads the kernel's clock for deadlines, in jiffies.
func (o *Objects) Now() (now uint64, err error) {
	if _, err := o.Clock.Run(&ebpf.RunOptions{Data: make([]byte, ethLen)}); err != nil {
		return 0, fmt.Errorf("read the kernel's clock: %w", err)
	}
	return now, o.Jiffies.Get(&now)
}

// SetDeadline has the programs carry packets until a time on that clock; 0: none.
func (o *Objects) SetDeadline(end uint64) error { return o.Deadline.Set(end) }

// Close releases programs and tables. What is attached or pinned stays.
func (o *Objects) Close() {
	for _, c := range []interface{ Close() error }{o.FromPod, o.ToPod, o.FromWire, o.ToPeer, o.ToTunnel, o.FromTunnel,
		o.Flows, o.Pods, o.PodAt, o.Peers, o.Hops, o.Counts, o.Requests, o.Data, o.Clock} {
		_ = c.Close() // closing a descriptor cannot fail in a way that matters
	}
	closeAll(o.extraTables)
}

// swap converts a number to network byte order.
func swap(n uint16) uint16 { return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, n)) }

// All kinds have the same layouts; otherwise this does not compile.
var (
	_ = vxlanFlow(routedFlow{})
	_ = vxlanFlowKey(routedFlowKey{})
	_ = vxlanPod(routedPod{})
	_ = vxlanPeer(routedPeer{})
	_ = vxlanHop(routedHop{})
	_ = vxlanFlow(routed6Flow{})
	_ = vxlanFlowKey(routed6FlowKey{})
	_ = vxlanPod(routed6Pod{})
	_ = vxlanPeer(routed6Peer{})
	_ = vxlanHop(routed6Hop{})
)
