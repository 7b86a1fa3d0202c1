package fastpath

import (
	"errors"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/nlmsg"
)

// Inspection is what a daemon would do in a namespace as it is now.
type Inspection struct {
	Off       string            // why it would carry nothing; "": nothing is in the way
	Unreplied string            // why UDP would be carried only after a reply; "": it needs none
	Uncarried []Uncarried       // what else would stay slow
	Topology  topology.Topology // what it would carry; Refusals is what it would leave alone
	Counters  BypassedCounters  // that would miss carried packets
}

const (
	inspections     = 5 // at most: what is read may change meanwhile
	inspectionPause = 50 * time.Millisecond
)

// Inspect judges the calling thread's namespace as a daemon with a config would. It loads no
// program, and changes nothing.
func Inspect(c Config) (found Inspection, err error) {
	d := newDaemon(&c)
	if err = d.openPoller(); err != nil {
		return found, err
	}
	defer d.closePoller()
	for range inspections {
		var unread bool
		found, unread, err = d.inspect()
		if !unread && !errors.Is(err, nlmsg.ErrInterrupted) {
			break
		}
		time.Sleep(inspectionPause)
	}
	return found, err
}

func (d *daemon) inspect() (found Inspection, unread bool, err error) {
	rules, err := d.readRules()
	if err != nil {
		return found, false, err
	}
	d.audit.rules, d.audit.perPacket, unread = rules.audit, rules.reason, rules.unread
	topo, err := d.readTopology(d.Devices, d.programs.owns)
	if err != nil {
		return found, unread, err
	}
	if d.topo, err = d.refuse(topo); err != nil {
		return found, unread, err
	}
	d.bypassed = bypassedDevices(d.Devices, d.topo)
	d.readSysctls()
	if d.audit.unwatched, err = d.findUnwatched(true); err != nil {
		return found, unread, err
	}
	counters := d.counters()
	counters.AskKernel()
	return Inspection{d.offReason(), d.audit.rules.PerPacketUnreplied, d.uncarried(audit.HasIPVS()), d.topo, counters}, unread, nil
}
