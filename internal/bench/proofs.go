package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/prooflab"
	"github.com/venturi-net/venturi/internal/search"
	"github.com/venturi-net/venturi/internal/tune"
	"github.com/venturi-net/venturi/internal/verify"
	"github.com/venturi-net/venturi/internal/verr"
)

// Proofs checks tune --prove: it plants faults on paths of a lab, and counts what a proof
// keeps. Beside the setting that corrects the fault, the proof is offered ten placebos:
// changes that cannot matter.
type Proofs struct {
	Faults  []string // names; none: all
	Repeat  int      // proofs of each fault
	Budget  time.Duration
	MDE     float64
	Seed    uint64
	LastCPU int
	Guest   bool // this is a virtual machine of ours: faults of the whole machine may be planted

	// Record is a file to which each proof is added when it is finished. Those that it
	// holds count, and are not made again. Empty: there is none.
	Record string
	Build  string // of the program: proofs of another one do not count

	Journal *journal.Journal
	Machine knob.Machine
}

// DefaultProofs is what the claim about proofs rests on.
//
// The faults are large. A proof that is asked for large effects only is the one that a
// machine as noisy as a shared one can give, and takes less time.
func DefaultProofs() Proofs {
	return Proofs{Repeat: 10, Budget: 4*time.Minute + 45*time.Second, MDE: 0.25, Seed: 1}
}

// Limits of the check, as shares: faults whose mending was kept at least, and
// placebos kept at most.
const (
	minMended       = 0.95
	maxPlacebosKept = 0.02
	fixName         = "mend"
)

// Counts are what came out of proofs.
type Counts struct {
	Hits     int `json:"hits"`     // faults whose mending was kept
	Misses   int `json:"misses"`   // and was not
	Alarms   int `json:"alarms"`   // placebos that were kept
	Placebos int `json:"placebos"` // that were judged
	Untried  int `json:"untried"`  // placebos that were not
	Refused  int `json:"refused"`  // proofs that the gate refused: misses, too
}

func (c *Counts) add(o Counts) {
	c.Hits, c.Misses, c.Refused = c.Hits+o.Hits, c.Misses+o.Misses, c.Refused+o.Refused
	c.Alarms, c.Placebos, c.Untried = c.Alarms+o.Alarms, c.Placebos+o.Placebos, c.Untried+o.Untried
}

// Check makes the proofs, prints each on w, and holds the counts against the limits.
func (c Proofs) Check(ctx context.Context, w io.Writer, h compare.Host) error {
	faults, err := c.faults()
	if err != nil {
		return err
	}
	if c.Repeat < 1 {
		return verr.New(verr.Usage, fmt.Sprintf("cannot repeat proofs %d times", c.Repeat), "there is nothing to count", "ask for at least one")
	}
	r, err := c.openLog()
	if err != nil {
		return err
	}
	for _, f := range faults {
		fmt.Fprintf(w, "%s: %s\n", f.Name, f.Title)
		for _, before := range r.done[f.Name] {
			fmt.Fprintln(w, before.line(c.Repeat)+" (recorded)")
		}
		if len(r.done[f.Name]) >= c.Repeat {
			continue
		}
		if err := c.fault(ctx, w, h, f, r); err != nil {
			return err
		}
	}
	all, n, took := r.sum(faults)
	fmt.Fprintf(w, "\n%d proofs in %s, each at most %s\nhits: %d, misses: %d (%d of them refused as too noisy), false alarms: %d of %d placebos that were judged; %d were not tried\n",
		n, took.Round(time.Second), c.Budget, all.Hits, all.Misses, all.Refused, all.Alarms, all.Placebos, all.Untried)
	return verify.CheckRequirements(w, "proofs miss their limits", []verify.Requirement{
		{Text: fmt.Sprintf("faults fixed: %d of %d, at least %.0f %%", all.Hits, all.Hits+all.Misses, 100*minMended),
			Holds: float64(all.Hits) >= minMended*float64(all.Hits+all.Misses)},
		{Text: fmt.Sprintf("placebos kept: %d of %d, at most %.0f %%", all.Alarms, all.Placebos, 100*maxPlacebosKept),
			Holds: float64(all.Alarms) <= maxPlacebosKept*float64(all.Placebos)},
	})
}

// faults are those that were named, or all that leave the machine alone and are
// nothing but faults.
func (c Proofs) faults() (faults []Fault, err error) {
	if len(c.Faults) == 0 {
		return slices.DeleteFunc(Faults(c.LastCPU), func(f Fault) bool { return f.WholeMachine || f.Mixed }), nil
	}
	for _, name := range c.Faults {
		f, err := findFault(name, c.LastCPU)
		if err != nil {
			return nil, err
		}
		if f.WholeMachine && !c.Guest {
			return nil, verr.New(verr.Usage, "cannot plant fault "+name, "it would be one of this whole machine",
				"plant it in a virtual one: venturi kernel exec 6.1 -- venturi-bench proofs --fault "+name)
		}
		faults = append(faults, f)
	}
	return faults, nil
}

// fault makes those proofs of one fault that are missing, in one lab.
func (c Proofs) fault(ctx context.Context, w io.Writer, h compare.Host, f Fault, r *proofLog) (err error) {
	q := prooflab.Request(f.Path, f.Wire)
	q.Seed, q.Command = c.Seed, []string{"venturi-bench", "proofs"}
	p, err := prooflab.Open(ctx, q, h)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	targets, err := p.Targets(tune.Targets{Host: f.WholeMachine})
	if err != nil {
		return err
	}
	seeds := rand.New(rand.NewPCG(c.Seed, 3))
	for i := range c.Repeat {
		seed := seeds.Uint64()
		if i < len(r.done[f.Name]) {
			continue
		}
		start := time.Now()
		proved, err := c.proof(ctx, p, f, targets, seed)
		var void *search.VoidError
		for try := 1; try < mostTries && errors.As(err, &void); try++ {
			fmt.Fprintf(w, "%s %3d/%d  made again: %v\n", f.Name, i+1, c.Repeat, void)
			if err := host.Sleep(ctx, tryAgainAfter); err != nil {
				return err
			}
			start = time.Now()
			proved, err = c.proof(ctx, p, f, targets, seed)
		}
		var noisy *search.NoisyError
		if err != nil && !errors.As(err, &noisy) {
			return err
		}
		one := ProofRecord{Build: c.Build, Fault: f.Name, Budget: c.Budget, MDE: c.MDE, Seed: c.Seed, Nth: i, Time: start.UTC(), Took: time.Since(start),
			Counts: countOf(proved, noisy != nil), Summary: summarizeProof(proved, noisy)}
		fmt.Fprintln(w, one.line(c.Repeat))
		if err := r.add(one); err != nil {
			return err
		}
	}
	return nil
}

// mostTries is how often a proof is made at which the machine is taken away from us.
const mostTries = 10

// tryAgainAfter is how long whoever takes CPU time from this machine is waited for.
const tryAgainAfter = 30 * time.Second

// proof plants the fault, proves, and takes the fault back.
func (c Proofs) proof(ctx context.Context, p *prooflab.ProofLab, f Fault, targets tune.Targets, seed uint64) (proved *tune.ProofResult, err error) {
	start := time.Now()
	bad, err := f.assignments(c.Machine, targets, f.Bad)
	if err != nil {
		return nil, err
	}
	tx, err := c.Journal.Begin(0)
	if err != nil {
		return nil, err
	}
	defer func() {
		outcomes, uerr := c.Journal.Undo([]int{tx.ID()}, journal.UndoOptions{})
		err = errors.Join(err, uerr)
		for _, o := range outcomes {
			err = errors.Join(err, o.Err)
		}
	}()
	for _, w := range bad {
		if _, err := tune.Set(tx, c.Machine, w); err != nil {
			return nil, err
		}
	}
	if err := tx.End(); err != nil {
		return nil, err
	}
	good, err := f.assignments(c.Machine, targets, f.Good)
	if err != nil {
		return nil, err
	}
	candidates, err := placeboCandidates(c.Machine, targets)
	if err != nil {
		return nil, err
	}
	candidates = append(candidates, tune.Candidate{Name: fixName, Assignments: good})
	return tune.Proof{
		Journal: c.Journal, Machine: c.Machine, Gauge: p.Gauge, Metrics: tune.Metrics(cmp.Or(f.Profile, "balanced")), Candidates: candidates,
		Options: search.Options{Seed: seed, Budget: max(1, c.Budget-2*time.Since(start)), Now: time.Now, PairTime: p.PairTime, MDE: c.MDE},
	}.Do(ctx)
}

// countOf counts one proof. One that was refused has judged no placebo.
func countOf(p *tune.ProofResult, refused bool) (c Counts) {
	if refused {
		return Counts{Misses: 1, Refused: 1}
	}
	if slices.Contains(p.Set, fixName) {
		c.Hits++
	} else {
		c.Misses++
	}
	for _, row := range p.Rows {
		if row.Knob == fixName {
			continue
		}
		if row.Verdict == search.VerdictNotTried {
			c.Untried++
			continue
		}
		c.Placebos++
		if row.Verdict == search.VerdictProven {
			c.Alarms++
		}
	}
	return c
}

// summarizeProof describes a proof in one line.
func summarizeProof(p *tune.ProofResult, noisy *search.NoisyError) string {
	if noisy != nil {
		return "refused: " + noisy.Error()
	}
	parts := []string{fmt.Sprintf("%d pairs, kept: %s", p.Pairs, strings.Join(p.Set, ", "))}
	for _, row := range p.Rows {
		switch {
		case row.Verdict == search.VerdictNotTried:
			parts = append(parts, row.Knob+" not tried: "+row.Reason)
		case row.Knob == fixName:
			parts = append(parts, strings.Join(strings.Fields(fmt.Sprintf("%s %s %s", row.Verdict, row.Metric, row.Reason)), " "))
			parts = append(parts, effectsOf(row.Effects, "")...)
		case row.Verdict == search.VerdictProven:
			parts = append(parts, "FALSE ALARM "+row.Knob+": "+strings.Join(effectsOf(row.Effects, row.Metric), ""))
		}
	}
	if p.Reason != "" {
		parts = append(parts, p.Reason)
	}
	if len(p.Confirm) > 0 {
		parts = append(parts, fmt.Sprintf("the set in %d fresh pairs: %s", p.Confirm[0].Pairs, strings.Join(effectsOf(p.Confirm, ""), " ")))
	}
	var noise []string
	for _, n := range p.Noise {
		noise = append(noise, fmt.Sprintf("%s %.1f", n.Metric, 100*math.Abs(n.MDE)))
	}
	return strings.Join(parts, "; ") + "; smallest effects, %: " + strings.Join(noise, " ")
}

// effectsOf prints effects with their intervals: that on one metric, or all.
func effectsOf(all []search.Effect, metric string) (texts []string) {
	for _, e := range all {
		if metric != "" && e.Metric != metric {
			continue
		}
		text := fmt.Sprintf("%s %.3f", e.Metric, e.Value)
		if !e.Open {
			text += fmt.Sprintf(" [%.3f, %.3f]", e.Lo, e.Hi)
		}
		texts = append(texts, text)
	}
	return texts
}
