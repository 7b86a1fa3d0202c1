package topology

import (
	"errors"
	"math"
	"time"

	"github.com/vishvananda/netlink"
)

// Read reads the topology of the calling thread's namespace. It skips devices that do not exist,
// and pods and peers that are not fully known. If interrupted dumps are the only problem, the error
// wraps [nlmsg.ErrInterrupted].
func Read(of DeviceNames, owns ProgramOwner) (Topology, error) {
	r, err := OpenTableReader(readTables(of.Family), of, owns)
	if err != nil {
		return Topology{}, err
	}
	defer r.Close()
	return r.Read(AllPods)
}

// AllPods has [TableReader.Read] look at every pod.
const AllPods = math.MaxInt

// TableReader reads the topology of a namespace from tables that were read once. What it asks the kernel
// for each pod and each peer it asks anew with each read.
type TableReader struct {
	reader
	names   DeviceNames
	tooMany TooManyError // "": everything was read
}

// OpenTableReader opens a reader for the calling thread's namespace, to which the tables belong.
func OpenTableReader(tables *Tables, of DeviceNames, owns ProgramOwner) (*TableReader, error) {
	r := &TableReader{names: of, reader: reader{Tables: tables, node: of.Node, owns: owns, byIndex: map[int]netlink.Link{}, byName: map[string]netlink.Link{}, wireReasons: map[int]string{}}}
	var err error
	if r.querier, err = openRtnlQuerier(); err != nil {
		return nil, err
	}
	if err := r.read(); err != nil && !errors.As(err, &r.tooMany) {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Close releases the reader's socket.
func (r *TableReader) Close() { r.querier.Close() }

// Read gives the topology with so many pods at most, and all peers.
func (r *TableReader) Read(pods int) (topo Topology, err error) {
	if r.tooMany != "" {
		return Topology{TooMany: r.tooMany.Error()}, nil
	}
	r.findings = findings{geneveMACs: map[deviceMAC]int{}}
	links := r.podLinks(r.names)
	for i, name := range links {
		if len(topo.Pods) >= pods {
			topo.Unread = len(links) - i
			break
		}
		if pod, ok := r.pod(name); ok {
			pod.MTU = r.podMTU(pod)
			topo.Pods = append(topo.Pods, pod)
		}
	}
	tunnels := r.names.Tunnels
	if port := r.names.GenevePort; port != 0 {
		tunnels = r.geneveTunnels(port)
	} else if len(tunnels) == 0 {
		topo.NextHops = r.wireNextHops(r.names.Wire)
	}
	for _, name := range tunnels {
		peers, err := r.tunnelNextHops(name)
		if err != nil {
			return Topology{}, err
		}
		topo.NextHops = append(topo.NextHops, peers...)
	}
	devices, wires := map[int]bool{}, map[int]bool{}
	for _, p := range topo.Pods {
		devices[p.Device], devices[p.NeighDevice] = true, true
	}
	for _, p := range topo.NextHops {
		devices[p.Device], devices[p.WireDevice], wires[p.WireDevice] = true, true, true
	}
	queues, err := dumpQdiscs()
	if err != nil {
		return Topology{}, err
	}
	topo.TC, err = r.tcStates(queues, devices, wires)
	topo.Clsacts = devicesWithClsact(queues)
	topo.Refusals, topo.PodsWithXDP, topo.PerPacket, topo.MissingFDB = r.refused, r.withXDP, r.perPacket, r.missingFDB(links)
	topo.Ageing = r.ageing(topo.Pods)
	topo.ConfMTUs, topo.Advertised, topo.DeviceConfs = r.confMTUs, r.advertised, r.deviceConfs(topo)
	return topo, err
}

// ageing is the least time after which a bridge of pods removes an FDB entry that is not refreshed.
func (r *reader) ageing(pods []LocalPod) time.Duration {
	const none = time.Duration(math.MaxInt64)
	least := none
	for _, p := range pods {
		if b, ok := r.byIndex[p.NeighDevice].(*netlink.Bridge); ok && b.AgeingTime != nil {
			least = min(least, time.Duration(*b.AgeingTime)*userTick)
		}
	}
	if least == none {
		return 0
	}
	return least
}

// userTick is the unit of times that the kernel tells: its USER_HZ is 100 on all that Go runs on.
const userTick = 10 * time.Millisecond
