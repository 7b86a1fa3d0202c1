package fastpath

import (
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
)

// askEvery is how often pods behind bridges are asked whether they are there: a bridge
// forgets a MAC when it has seen nothing of it for a while, five minutes as a rule, and
// packets that are carried are nothing that it sees.
const askEvery = 30 // ticks

// askUnplaced has pods speak that their bridges do not know where they are, each once
// in a tick at the most.
func (d *daemon) askUnplaced() error {
	asked := map[topology.Neighbour]uint32{}
	var ask []topology.BridgeNeighbour
	for _, n := range d.ways.MissingFDB {
		last, known := d.asked[n.Neighbour]
		if !known || last != d.tick {
			ask = append(ask, n)
		}
		asked[n.Neighbour] = d.tick
	}
	d.asked = asked
	return kernel.AskNeighbours(d.space, ask)
}

// askNew has pods speak that are new, or have changed: nothing is carried into a pod
// before it has shown that it goes by the MAC that the network knows of it.
func (d *daemon) askNew() error {
	var ask []topology.LocalPod
	for device, p := range d.tables.ask {
		if d.attached[d.pin(d.place("from_pod", device))] { // else nobody hears it
			ask = append(ask, p)
			delete(d.tables.ask, device)
		}
	}
	return kernel.AskNeighbours(d.space, neighbours(ask))
}

// neighbours are pods as their devices' neighbours.
func neighbours(pods []topology.LocalPod) (all []topology.BridgeNeighbour) {
	for _, p := range pods {
		all = append(all, topology.BridgeNeighbour{Neighbour: topology.Neighbour{Device: p.NeighDevice, Addr: p.Addr}, MAC: p.MAC, BridgeMAC: p.Gateway})
	}
	return all
}

// askSome has some of the pods behind bridges speak: all of them in askEvery ticks.
func (d *daemon) askSome() error {
	var pods []topology.LocalPod
	for i, p := range d.ways.Pods {
		if p.NeighDevice != p.Device && uint32(i)%askEvery == d.tick%askEvery {
			pods = append(pods, p)
		}
	}
	return kernel.AskNeighbours(d.space, neighbours(pods))
}
