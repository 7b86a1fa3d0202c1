package fastpath

import (
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
)

// probeEvery is how often pods behind bridges get an ARP probe. A bridge does not see carried
// packets, and removes the FDB entry of a MAC that it has not seen for a while, five minutes
// by default.
const probeEvery = 30 // ticks

// probeMissingFDB probes pods for which their bridge has no FDB entry, each at most once in
// a tick.
func (d *daemon) probeMissingFDB() error {
	probed := map[topology.Neighbour]uint32{}
	var targets []topology.BridgeNeighbour
	for _, n := range d.topo.MissingFDB {
		last, known := d.neigh.probed[n.Neighbour]
		if !known || last != d.tick {
			targets = append(targets, n)
		}
		probed[n.Neighbour] = d.tick
	}
	d.neigh.probed = probed
	return kernel.SendARPProbes(d.netns, targets)
}

// probeNewPods probes pods that are new or have changed. Nothing is carried into a pod until
// it has sent a frame from the MAC that the network knows.
func (d *daemon) probeNewPods() error {
	var pods []topology.LocalPod
	for device, p := range d.tables.unprobed {
		if d.attach.attached[d.pin(d.attachmentFor("from_pod", device))] { // otherwise the answer is not seen
			pods = append(pods, p)
			delete(d.tables.unprobed, device)
		}
	}
	return kernel.SendARPProbes(d.netns, bridgeNeighbours(pods))
}

// bridgeNeighbours gives pods as neighbours of their devices.
func bridgeNeighbours(pods []topology.LocalPod) (all []topology.BridgeNeighbour) {
	for _, p := range pods {
		all = append(all, topology.BridgeNeighbour{Neighbour: topology.Neighbour{Device: p.NeighDevice, Addr: p.Addr}, MAC: p.MAC, BridgeMAC: p.Gateway})
	}
	return all
}

// probeSomePods probes some of the pods behind bridges, and all of them in probeEvery ticks.
func (d *daemon) probeSomePods() error {
	var pods []topology.LocalPod
	for i, p := range d.topo.Pods {
		if p.NeighDevice != p.Device && uint32(i)%probeEvery == d.tick%probeEvery {
			pods = append(pods, p)
		}
	}
	return kernel.SendARPProbes(d.netns, bridgeNeighbours(pods))
}
