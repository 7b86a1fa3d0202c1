package fastpath

import (
	"errors"

	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/host"
)

// probeEvery is how often pods behind bridges get an ARP probe. A bridge does not see carried
// packets, and removes the FDB entry of a MAC that it has not seen for a while, five minutes
// by default. While the daemon rests, a probe comes twice in that time, if it is longer than that of
// two probes, but no rarer than restingProbeEvery.
const (
	probeEvery        = 30  // ticks
	restingProbeEvery = 120 // ticks
)

// maxProbes is how many ARP probes a neighbour without an FDB entry gets. If it speaks later, its
// bridge announces that.
const maxProbes = 3

// fdbProbe is what became of the ARP probes to a neighbour without an FDB entry.
type fdbProbe struct {
	tick uint32 // of the last one
	sent int
}

// sendProbes sends ARP probes. A shadow leaves pods and neighbours alone.
func (d *daemon) sendProbes(all []topology.BridgeNeighbour) error {
	if d.Shadow || len(all) == 0 {
		return nil
	}
	if d.prober == nil {
		p, err := kernel.OpenARPProber(d.netns)
		if err != nil {
			return err
		}
		d.prober = p
	}
	return d.prober.Send(all)
}

// closeProber closes what [daemon.sendProbes] has opened.
func (d *daemon) closeProber() error {
	if d.prober == nil {
		return nil
	}
	return d.prober.Close()
}

// verifyNeighbour makes the kernel probe a neighbour, if it is still there.
func (d *daemon) verifyNeighbour(n topology.Neighbour) error {
	if d.Shadow {
		return nil
	}
	err := kernel.RefreshNeighbour(d.netns, n)
	if errors.Is(err, host.ErrGone) {
		return nil
	}
	return err
}

// probeMissingFDB probes pods for which their bridge has no FDB entry, each at most once in a
// tick. Where nobody answers, it has the kernel verify the neighbour, which is a dead pod's: the
// kernel then drops it.
func (d *daemon) probeMissingFDB() error {
	probed := map[topology.Neighbour]fdbProbe{}
	var targets []topology.BridgeNeighbour
	var failed error
	for _, n := range d.topo.MissingFDB {
		p, known := d.neigh.probed[n.Neighbour]
		switch {
		case known && p.tick == d.tick:
		case p.sent < maxProbes:
			targets = append(targets, n)
			p.sent++
		case p.sent == maxProbes:
			failed = errors.Join(failed, d.verifyNeighbour(n.Neighbour))
			p.sent++
		}
		p.tick = d.tick
		probed[n.Neighbour] = p
	}
	d.neigh.probed = probed
	return errors.Join(failed, d.sendProbes(targets))
}

// probeNewPods probes pods that are new or have changed. Nothing is carried into a pod until
// it has sent a frame from the MAC that the network knows.
func (d *daemon) probeNewPods() error {
	var pods []topology.LocalPod
	for device, p := range d.tables.unprobed {
		if d.attach.attached[d.pinFor("from_pod", device)] { // otherwise the answer is not seen
			pods = append(pods, p)
			delete(d.tables.unprobed, device)
		}
	}
	return d.sendProbes(bridgeNeighbours(pods))
}

// bridgeNeighbours gives pods as neighbours of their devices that ARP can ask. One of IPv6 is carried once
// it has sent something by itself.
func bridgeNeighbours(pods []topology.LocalPod) (all []topology.BridgeNeighbour) {
	for _, p := range pods {
		if p.Addr.Is4() {
			all = append(all, topology.BridgeNeighbour{Neighbour: topology.Neighbour{Device: p.NeighDevice, Addr: p.Addr}, MAC: p.MAC, BridgeMAC: p.Gateway})
		}
	}
	return all
}

// probeSomePods probes some of the pods behind bridges, and all of them in so many ticks.
func (d *daemon) probeSomePods() error {
	var pods []topology.LocalPod
	every := d.probeInterval()
	for i := int(d.tick % every); i < len(d.topo.Pods); i += int(every) {
		if p := d.topo.Pods[i]; p.NeighDevice != p.Device {
			pods = append(pods, p)
		}
	}
	return d.sendProbes(bridgeNeighbours(pods))
}

// probeInterval is in how many ticks all pods are probed.
func (d *daemon) probeInterval() uint32 {
	if !d.resting() {
		return probeEvery
	}
	return min(max(probeEvery, uint32(d.topo.Ageing/heartbeat/2)), restingProbeEvery)
}
