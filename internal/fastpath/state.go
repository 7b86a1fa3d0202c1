package fastpath

import (
	"fmt"
	"path/filepath"
	"reflect"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// State is what a daemon reports in its state file.
type State struct {
	// Off says why nothing is carried; empty: packets are carried.
	Off string `json:"off,omitempty"`
	// Unreplied says why a UDP flow is not carried before there was a reply.
	Unreplied string `json:"unreplied,omitempty"`
	// Uncarried are other kinds of traffic that stay slow; nil: the daemon is older than this, or translates nothing.
	Uncarried []Uncarried `json:"uncarried,omitempty"`
	Pods      int         `json:"pods"`    // known, with their programs attached
	Waiting   int         `json:"waiting"` // known, and slow until their programs are attached
	Peers     int         `json:"peers"`   // known
	// Refused are the devices that are left to the slow path, each with the reason.
	Refused []topology.Refusal `json:"refused"`
	// Epochs tell how often and why all flows were learned anew; nil: the daemon is older than this.
	Epochs *Epochs `json:"epochs,omitempty"`
	// Counters are those that miss carried packets; nil: nothing is carried, or the daemon is older than this.
	Counters *BypassedCounters `json:"counters,omitempty"`
}

// OffState is the state in which nothing is carried, for a reason.
func OffState(why string) State { return State{Off: why, Refused: []topology.Refusal{}} }

// ReadState reads a daemon's state. Before the daemon has started there is no file, and the
// error wraps os.ErrNotExist.
func ReadState(file string) (*State, error) {
	s := new(State)
	if err := host.ReadJSON(file, s); err != nil {
		return nil, fmt.Errorf("read state of a fast path: %w", err)
	}
	return s, nil
}

// Write replaces the file atomically.
func (s *State) Write(file string) error {
	if err := netcfg.ReplaceJSON(file, s); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	return nil
}

// writeState writes the state file if the state has changed.
func (d *daemon) writeState() error {
	waiting := d.waitingPods()
	now := &State{Off: d.audit.off, Unreplied: d.audit.needsReply(), Uncarried: d.uncarried(audit.HasIPVS()), Pods: d.carriedPods(waiting), Waiting: waiting, Peers: len(d.tables.peers), Refused: d.topo.Refusals, Epochs: d.epoch.history()}
	if d.Shadow && now.Off == "" {
		now.Off = shadowReason
	}
	if now.Refused == nil {
		now.Refused = []topology.Refusal{} // and not null
	}
	reported := *now
	reported.Epochs = nil
	reported.Unreplied = "" // it names the handle of a rule, which changes whenever kube-proxy writes its rules anew
	if now.Off == "" {
		counters := d.counters()
		now.Counters = &counters
	}
	if reflect.DeepEqual(now, d.lastState) {
		return nil
	}
	d.lastState = now
	begun := d.synced && waiting == 0 && d.audit.perPacket != notAuditedYet
	if d.report != nil && begun && !reflect.DeepEqual(&reported, d.lastReport) { // rules come and go all the time
		d.lastReport = &reported
		d.report(*now)
	}
	err := now.Write(d.State)
	if begun && !d.complete {
		d.complete = true
		if d.whenComplete != nil {
			d.whenComplete()
		}
	}
	return err
}

// carriedPods counts the pods whose programs are attached, while so many wait.
func (d *daemon) carriedPods(waiting int) int { return len(d.tables.pods) - (waiting - d.topo.Unread) }

// StateFile is the state file of a fast path whose pins are in a folder: it is beside that
// folder.
func StateFile(pins string) string { return filepath.Join(filepath.Dir(pins), "fast.state") }
