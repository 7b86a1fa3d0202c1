package fastpath

import (
	"strings"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
)

// followTracking tells the programs for which packets it matters whether connection tracking calls them invalid, going
// by the rules that were audited. If that has changed, it invalidates what they have learned: it may be of such packets.
func (d *daemon) followTracking() error {
	rules := d.audit.rules
	sysctl := strings.TrimSpace(d.audit.sysctls[topology.BridgesAsk]) // without br_netfilter there is none
	asked := d.audit.bridgesAsk || sysctl != "" && sysctl != "0"
	now := bpf.Tracking{Routed: rules.Tracks, Bridged: rules.TracksBridged || rules.Tracks && asked}
	if was := d.audit.tracking; was != nil && *was == now {
		return nil
	}
	if err := d.objs.SetTracking(now); err != nil {
		return err
	}
	d.audit.tracking = &now
	return d.invalidate(topology.Rules)
}

// followBridges reads whether any bridge has packets of pods meet the rules for IP.
func (d *daemon) followBridges() (err error) {
	ask := false
	if len(d.bypassed.Bridges) > 0 {
		if ask, err = audit.BridgesAsk(d.Devices.Family); err != nil {
			return err
		}
	}
	d.audit.bridgesAsk = ask
	return nil
}
