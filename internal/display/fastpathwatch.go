package display

import (
	"cmp"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/sanitize"
)

// PrintRate prints in a line what became of packets since an earlier report, and below it the pods and
// peers whose flows have changed; then the same of IPv6.
func (r FastPathReport) PrintRate(out io.Writer, before FastPathReport, took time.Duration) error {
	if !r.Running {
		_, err := sanitize.Fprintf(out, "nothing is carried: the daemon has ended\n")
		return err
	}
	if r.IPv6 == nil {
		return r.printRate(out, "", before, took)
	}
	before6 := FastPathReport{}
	if before.IPv6 != nil {
		before6 = *before.IPv6
	}
	if !r.carriesIPv6Alone() {
		if err := r.printRate(out, "IPv4: ", before, took); err != nil {
			return err
		}
	}
	return r.IPv6.printRate(out, "IPv6: ", before6, took)
}

func (r FastPathReport) printRate(out io.Writer, who string, before FastPathReport, took time.Duration) error {
	r.printNewEpochs(out, who, before)
	sanitize.Fprintf(out, "%s%s\n", who, r.rate(before, took))
	return r.printChanged(out, before)
}

// printNewEpochs prints a line if epochs began since an earlier report, and why.
func (r FastPathReport) printNewEpochs(out io.Writer, who string, before FastPathReport) {
	if r.State == nil || r.State.Epochs == nil {
		return
	}
	now := *r.State.Epochs
	if before.State != nil && before.State.Epochs != nil {
		now = now.Since(*before.State.Epochs)
	}
	at := now.Time.Local().Format(time.TimeOnly)
	switch n := now.Total(); n {
	case 0:
	case 1:
		sanitize.Fprintf(out, "%snew epoch at %s (%s): all flows are learned anew\n", who, at, string(now.Last))
	default:
		sanitize.Fprintf(out, "%s%d new epochs, the last at %s (%s): all flows are learned anew\n", who, n, at, causesOf(now))
	}
}

// rate says what became of packets since an earlier report.
func (r FastPathReport) rate(before FastPathReport, took time.Duration) sanitize.Safe {
	since, most := analysis.FastPath{Packets: map[string]int64{}}, ""
	if r.startedAfter(before) {
		before = FastPathReport{}
	}
	for key, n := range r.Packets {
		since.Packets[key] = n - before.Packets[key]
		if strings.HasPrefix(key, "slow") && since.Packets[key] > since.Packets[most] {
			most = key
		}
	}
	carried := since.CarriedPackets()
	perSecond := func(n int64) int64 { return int64(float64(n)/took.Seconds() + 0.5) }
	line := sanitize.Sprintf("carried %d/s (%.1f %%), slow %d/s, flows %d", perSecond(carried), 100*since.Share(), perSecond(since.Total()-carried), r.Flows)
	switch {
	case r.State != nil && r.State.Off != "":
		line += sanitize.Sprintf("; nothing is carried: %s", r.State.Off)
	case most != "":
		line += sanitize.Sprintf("; main reason for slow packets: %s", strings.TrimPrefix(view.Outcome(most), "slow: "))
	}
	return line
}

// startedAfter tells whether the fast path was enabled anew since an earlier report: then its
// counters began at zero again.
func (r FastPathReport) startedAfter(before FastPathReport) bool {
	for key, n := range before.Packets {
		if r.Packets[key] < n {
			return true
		}
	}
	return false
}

// mostChanged is how many pods and peers have a line at a time: on a busy node flows of most of them
// change each second.
const mostChanged = 10

// owner is a pod or a peer, and its flows.
type owner struct {
	name  sanitize.Safe
	flows fastpath.FlowCount
}

func (r FastPathReport) owners() (all []owner) {
	for _, p := range r.Pods {
		all = append(all, owner{sanitize.Sprintf("pod %s (%s)", p.Addr, p.Device), p.FlowCount})
	}
	for _, p := range r.Peers {
		all = append(all, owner{sanitize.Sprintf("peer %s", p.Addr), p.FlowCount})
	}
	return all
}

// printChanged prints a line for each pod and peer whose flows have changed since an earlier report, those
// that have changed most first.
func (r FastPathReport) printChanged(out io.Writer, before FastPathReport) error {
	was := map[sanitize.Safe]fastpath.FlowCount{}
	for _, o := range before.owners() {
		was[o.name] = o.flows
	}
	changed := slices.DeleteFunc(r.owners(), func(o owner) bool { return o.flows == was[o.name] })
	change := func(o owner) int { return max(o.flows.Flows-was[o.name].Flows, was[o.name].Flows-o.flows.Flows) }
	slices.SortStableFunc(changed, func(a, b owner) int { return cmp.Compare(change(b), change(a)) })
	rest := 0
	if len(changed) > mostChanged {
		rest, changed = len(changed)-mostChanged, changed[:mostChanged]
	}
	for _, o := range changed {
		line := sanitize.Sprintf("  %s: flows %d", o.name, o.flows.Flows)
		if more := o.flows.Flows - was[o.name].Flows; more != 0 {
			line += sanitize.Sprintf(" (%+d)", more)
		}
		line += sanitize.Sprintf(", carried %d", o.flows.Carried)
		for _, part := range []struct {
			name  string
			flows int
		}{{"one way", o.flows.OneWay}, {"learning", o.flows.Learning}, {"stale", o.flows.Stale}, {"translated", o.flows.Translated}} {
			if part.flows > 0 {
				line += sanitize.Sprintf(", %s %d", part.name, part.flows)
			}
		}
		sanitize.Fprintf(out, "%s\n", line)
	}
	if rest > 0 {
		_, err := sanitize.Fprintf(out, "  flows of %d more pods and peers have changed\n", rest)
		return err
	}
	return nil
}
