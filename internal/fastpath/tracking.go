package fastpath

import (
	"strings"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
)

// followTracking tells the programs which packets connection tracking sees for the sake of the rules that were
// audited. Until then, and again while rules change, they take it that it sees all.
func (d *daemon) followTracking() error {
	rules := d.audit.rules
	sysctl := strings.TrimSpace(d.audit.sysctls[topology.BridgesAsk]) // without br_netfilter there is none
	asked := d.audit.bridgesAsk || sysctl != "" && sysctl != "0"
	is := bpf.Tracking{Routed: rules.Tracks, Bridged: rules.TracksBridged || rules.Tracks && asked}
	more, err := d.events.track(is, d.audit.numbers)
	if more && err == nil {
		err = d.invalidate(topology.Rules) // invalid packets may have taught what was taken for untracked
	}
	return err
}

// followBridges reads whether any bridge has packets of pods meet the rules for IP.
func (d *daemon) followBridges() (err error) {
	ask, number := false, d.events.trackingNumbers().bridges
	if len(d.bypassed.Bridges) > 0 {
		if ask, err = audit.BridgesAsk(d.Devices.Family); err != nil {
			return err
		}
	}
	d.audit.bridgesAsk, d.audit.numbers.bridges = ask, number
	return nil
}
