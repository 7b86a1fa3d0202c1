package fastpath

import (
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
)

// followTracking tells the programs which packets connection tracking sees for the sake of the rules that were
// audited. Until then, and again while rules change, they take it that it sees all.
func (d *daemon) followTracking() error {
	rules := d.audit.rules
	bridgesAsk := d.poller.BridgesAsk(d.audit.sysctls) || d.topo.BridgesAsk
	is := bpf.Tracking{Routed: rules.Tracks, Bridged: rules.TracksBridged || rules.Tracks && bridgesAsk}
	more, err := d.events.track(is, d.audit.rulesNumber)
	if more && err == nil {
		err = d.invalidate(topology.Rules) // invalid packets may have taught what was taken for untracked
	}
	return err
}
