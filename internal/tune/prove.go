package tune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/search"
	"github.com/venturi-net/venturi/internal/verr"
)

// Candidate is one value of one knob that may help, with all that it is turned on.
type Candidate struct {
	Name        string // unique: "tcp.cc=bbr on pods"
	Group       string // of candidates that exclude each other: values of one ladder; empty: none
	Assignments []Assignment
}

// Proof is a search for the smallest set of candidates that helps.
type Proof struct {
	Journal    *journal.Journal
	Machine    knob.Machine
	Gauge      Gauge
	Metrics    []search.Metric
	Candidates []Candidate
	Options    search.Options

	// Toggles turn the candidates on and off elsewhere; nil: this machine's are, through the journal.
	Toggles Toggles

	// Lease is for a proof that changes what no lab takes down: of a process that
	// is killed its holder undoes what it left, at the end of that time.
	Lease TrialOptions
}

// ProofResult is what a proof found. Candidates that could not be set have their rows
// too, behind the others.
type ProofResult struct {
	*search.Result
	Keep []Candidate `json:"-"` // of Result.Set
}

// Do searches. Whatever happens, it leaves the machine as it was; of a process that
// is killed "venturi undo" takes back what it left. The result is there, as far as
// it came, also with an error. Errors: the machine is too noisy for anything to be
// shown; a value could not be brought back.
func (p Proof) Do(ctx context.Context) (found *ProofResult, err error) {
	found = &ProofResult{Result: &search.Result{Set: []string{}}}
	spent := p.clock()
	states := p.Toggles
	if states == nil {
		states = &localToggles{Journal: p.Journal, Machine: p.Machine, Candidates: p.Candidates, Lease: p.Lease}
	}
	defer func() { err = errors.Join(err, states.Close()) }()
	fit, unfit, err := states.Prepare(ctx)
	found.Rows = unfit
	if err != nil || len(fit) == 0 {
		return found, err
	}
	first, err := p.Gauge.Measure(ctx)
	if err != nil {
		return found, err
	}
	problem := search.Problem{Metrics: withTail(p.Metrics, first), Couples: couples(fit)}
	for _, t := range troubles {
		problem.Troubles = append(problem.Troubles, t.name)
	}
	for _, c := range fit {
		problem.Knobs = append(problem.Knobs, search.Factor{Name: c.Name, Group: c.Group})
	}
	o := p.Options
	if o.Budget > 0 {
		o.Budget = max(1, o.Budget-2*spent()) // taking all back takes no longer than setting it
	}
	found.Result, err = search.Do(ctx, problem, bench{states, p.Gauge, problem.Metrics}, o)
	found.Rows = append(found.Rows, unfit...)
	for _, c := range fit {
		if slices.Contains(found.Set, c.Name) {
			found.Keep = append(found.Keep, c)
		}
	}
	var noisy *search.NoisyError
	if errors.As(err, &noisy) {
		err = verr.Wrap(verr.Failed, "cannot run a proof on this machine now", noisy, quieter(noisy.MDE))
	}
	var short *search.ShortError
	if errors.As(err, &short) {
		err = verr.Wrap(verr.Usage, fmt.Sprintf("cannot run a proof with --budget %s", p.Options.Budget), short, LeastBudget(short.Least))
	}
	return found, err
}

// clock gives how long ago it was called.
func (p Proof) clock() func() time.Duration {
	if p.Options.Now == nil {
		return func() time.Duration { return 0 }
	}
	start := p.Options.Now()
	return func() time.Duration { return p.Options.Now().Sub(start) }
}

// noiseVaries is by how much more noise another gate may find.
const noiseVaries = 1.2

// quieter says what to do about noise in which no effect below a share can be shown; 0:
// none of any size.
func quieter(mde float64) string {
	const rest = "run it again while nothing else runs on this machine"
	if ask := math.Ceil(100 * noiseVaries * mde); ask > 0 && ask <= 100 {
		return fmt.Sprintf("%s, or accept that only larger effects are seen: --effect %.0f%%", rest, ask)
	}
	return rest
}

// LeastBudget says what to do about a budget that is smaller than the least that is of use.
func LeastBudget(least time.Duration) string {
	least = (least + 30*time.Second - 1).Truncate(30 * time.Second)
	return fmt.Sprintf("give at least --budget %s (twice that is better), or name fewer targets", least)
}

// bench measures states by switching to them.
type bench struct {
	states  Toggles
	gauge   Gauge
	metrics []search.Metric // those that are read off, in the order of figures
}

// Pair is of [search.Bench].
func (b bench) Pair(ctx context.Context, first, second search.Subset) (x, y search.Sample, err error) {
	// There and back again: a machine that gets slower or faster meanwhile does so
	// for both.
	var all [PairOnces]search.Sample
	for i, s := range [PairOnces]search.Subset{first, second, second, first} {
		if all[i], err = b.measure(ctx, s); err != nil {
			return x, y, err
		}
	}
	return mean(all[0], all[3]), mean(all[1], all[2]), nil
}

// PairOnces is how many measurements there are to a pair.
const PairOnces = 4

// mean is of two measurements of one state: of figures that are compared by their
// ratios, the geometric one.
func mean(a, b search.Sample) search.Sample {
	m := search.Sample{Void: cmp.Or(a.Void, b.Void)}
	for i := range a.Values {
		m.Values = append(m.Values, math.Sqrt(a.Values[i]*b.Values[i]))
	}
	for i := range a.Troubles {
		m.Troubles = append(m.Troubles, (a.Troubles[i]+b.Troubles[i])/2)
	}
	return m
}

func (b bench) measure(ctx context.Context, s search.Subset) (search.Sample, error) {
	if err := b.states.Switch(ctx, s); err != nil {
		return search.Sample{}, err
	}
	rec, err := b.gauge.Measure(ctx)
	if err != nil {
		return search.Sample{}, err
	}
	if why := delivered(rec); why != nil {
		return search.Sample{}, &search.BrokenError{State: s, Err: why}
	}
	return sampleOf(rec, b.metrics), nil
}

// couple are knobs that are known to help only together, or to hide each other.
var couple = [][2]string{
	{"nic.coalesce", "net.busy_poll"},
	{"net.busy_poll", "nic.defer_irq"},
	{"cpu.governor", "cpu.resume_latency"},
	{"nic.ring", "net.budget"},
	{"nic.seg", "virt.tx_csum"},
	{"tcp.cc", "nic.qdisc"},
}

// couples gives the first values of such knobs that are among the candidates.
func couples(all []Candidate) (pairs [][]int) {
	first := func(name string) int {
		for i, c := range all {
			if c.Assignments[len(c.Assignments)-1].Knob.Name == name {
				return i
			}
		}
		return -1
	}
	for _, c := range couple {
		if a, b := first(c[0]), first(c[1]); a >= 0 && b >= 0 {
			pairs = append(pairs, []int{a, b})
		}
	}
	return pairs
}

// Candidates puts the assignments of a profile together: all targets of a step are one
// candidate, and each value of its ladder is. Segmentation has no effect without checksums:
// where these are off too, both are one candidate.
func Candidates(assignments []Assignment) []Candidate {
	var all []Candidate
	at := map[string]int{}
	for _, w := range assignments {
		values, group := []string{w.Value}, ""
		if len(w.Ladder) > 0 {
			values, group = w.Ladder, w.Knob.Name+stepOf(w)
		} else if w.Knob.Name == "cpu.governor" || w.Knob.Name == "cpu.epp" {
			group = "clock" // governor performance has its own preference, and the kernel then takes no other back
		}
		for _, v := range values {
			own := w
			own.Value, own.Ladder = v, nil
			name := w.Knob.Name + "=" + v + stepOf(w)
			var first []Assignment
			if i, off := at["nic.csum=on"+stepOf(w)]; off && w.Knob.Name == "nic.seg" {
				name, first = "nic.csum=on and "+name, all[i].Assignments
			}
			if i, known := at[name]; known {
				all[i].Assignments = append(all[i].Assignments, own)
				continue
			}
			at[name] = len(all)
			all = append(all, Candidate{Name: name, Group: group, Assignments: append(slices.Clone(first), own)})
		}
	}
	return all
}

// stepOf tells steps of a profile that turn one knob apart.
func stepOf(w Assignment) string {
	if w.Step == nil || w.Step.On == "" {
		return ""
	}
	return " on " + string(w.Step.On)
}

// places stand for targets that are gone with the lab in which something was shown.
var places = map[Group]string{
	Pods: "--netns NETNS", Tunnels: "--dev TUNNEL", Veths: "--dev VETH", NICs: "--dev NIC", Machines: "", Host: "",
}

// Commands are what would make a candidate's changes. Those of a lab are told by
// what kind of target they are to be made on; exact is for one that stays.
func (c Candidate) Commands(exact bool) []string {
	var all []string
	for _, w := range c.Assignments {
		words := []string{"venturi", "knob", "set", w.Knob.Name, w.Value}
		placeholder := ""
		if place, gone := places[group(w)]; gone && !exact {
			placeholder = place
		} else {
			words = append(words, flags(w.Target)...)
		}
		command := strings.TrimSpace(sanitize.Command(words...) + " " + placeholder)
		if !slices.Contains(all, command) {
			all = append(all, command)
		}
	}
	return all
}

func group(w Assignment) Group {
	if w.Step == nil {
		return ""
	}
	return w.Step.On
}

func flags(t knob.Target) (words []string) {
	for _, f := range []struct{ flag, value string }{{"--dev", t.Device}, {"--netns", t.Netns}, {"--manifest", t.File}, {"--db", t.Switch}} {
		if f.value != "" {
			words = append(words, f.flag, f.value)
		}
	}
	return words
}
