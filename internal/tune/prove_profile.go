package tune

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/search"
	"github.com/venturi-net/venturi/internal/verr"
)

// ProfileProof proves what of a profile helps on a path that is up.
type ProfileProof struct {
	Profile Profile
	Targets Targets // all that may be touched
	Machine knob.Machine
	Gauge   Gauge
	Options search.Options
	Lease   TrialOptions // see [Proof.Lease]

	Folder string                           // of the journal
	Open   func() (*journal.Journal, error) // opens it for changing
}

// Do finds the steps of the profile that can be tried, and searches them. What cannot be
// is among the skipped, also with an error.
func (p ProfileProof) Do(ctx context.Context) (result *ProofResult, skipped []Skipped, err error) {
	candidates, skipped, err := p.candidates()
	if err != nil {
		return nil, skipped, err
	}
	if len(candidates) == 0 {
		return nil, skipped, verr.New(verr.Failed, "cannot prove profile "+p.Profile.Name, "none of its steps would change anything on this path",
			"see why with: venturi tune --profile "+p.Profile.Name+" --plan, with the same targets")
	}
	j, err := p.openJournal()
	if err != nil {
		return nil, skipped, err
	}
	defer j.Close()
	proof := Proof{
		Journal: j, Machine: p.Machine, Gauge: p.Gauge, Metrics: Metrics(p.Profile.Name),
		Candidates: candidates, Options: p.Options, Lease: p.Lease,
	}
	result, err = proof.Do(ctx)
	if result != nil && len(result.Noise)+len(result.Rows) > 0 {
		result.Rows = append(result.Rows, pruned(skipped)...)
	}
	return result, skipped, err
}

// Serve lets whoever is on the other end of a stream turn the steps of the profile on and
// off, and takes all of it back when the stream ends.
func (p ProfileProof) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	candidates, skipped, err := p.candidates()
	if err != nil {
		return err
	}
	j, err := p.openJournal()
	if err != nil {
		return err
	}
	defer j.Close()
	toggles := &localToggles{Journal: j, Machine: p.Machine, Candidates: candidates, Lease: p.Lease}
	return serveToggles(ctx, in, out, toggles, pruned(skipped))
}

// candidates are the steps of the profile that a proof can try.
func (p ProfileProof) candidates() ([]Candidate, []Skipped, error) {
	assignments, skipped, err := p.Profile.Assignments(p.Machine, p.Targets)
	if err != nil {
		return nil, skipped, err
	}
	assignments, unmeasurable := measurable(assignments)
	return Candidates(assignments), append(skipped, unmeasurable...), nil
}

// openJournal opens the journal, in which nothing may be on trial.
func (p ProfileProof) openJournal() (*journal.Journal, error) {
	j, err := p.Open()
	if err != nil {
		return nil, err
	}
	if err := CheckNoLease(j.History(), p.Folder); err != nil { // one may have begun since
		j.Close()
		return nil, err
	}
	return j, nil
}

// leaseMargin is how much longer than its budget a proof may take until what it
// left is undone: preparing and rolling back are not part of the budget.
const leaseMargin = 5 * time.Minute

// ProofLease is the lease of a proof with a budget. Hold is that of [TrialOptions].
func ProofLease(budget time.Duration, hold func(txn int) error) TrialOptions {
	return TrialOptions{Lease: budget + leaseMargin, Hold: hold}
}

// CheckBudget refuses a budget in which what a profile may come to on some targets and a
// path cannot be tried. Pair is how long the measurements of two states take.
func (p Profile) CheckBudget(budget, pair time.Duration, named Targets) error {
	tries := p.Tries(named)
	pairs := search.Least(tries)
	least := time.Duration(pairs) * pair
	if budget >= least {
		return nil
	}
	return verr.New(verr.Usage, fmt.Sprintf("cannot prove profile %s with --budget %s", p.Name, budget),
		fmt.Sprintf("up to %d changes need %d pairs of measurements, of about %s each", tries, pairs, pair.Round(10*time.Millisecond)), LeastBudget(least))
}

// CheckNoLease refuses a proof while something has a lease: a proof has the journal for
// so long that a trial could not be undone at its end.
func CheckNoLease(h journal.History, folder string) error {
	leases, err := OpenLeases(h, folder)
	if err != nil || len(leases) == 0 {
		return err
	}
	l := leases[0]
	return verr.New(verr.Busy, "cannot run a proof now", fmt.Sprintf("transaction %d is %s, and could not be undone during the proof", l.Txn, l.Kind()), l.HowToEnd())
}

// Kind is what has the lease, for people.
func (l Lease) Kind() string {
	if l.Proof {
		return "what a proof tried"
	}
	return "a trial"
}

// HowToEnd says how the lease can be ended before its time.
func (l Lease) HowToEnd() string {
	if l.Proof {
		return fmt.Sprintf("undo it: venturi undo %d", l.Txn)
	}
	return fmt.Sprintf("undo it: venturi undo %d; or keep it: venturi confirm %[1]d", l.Txn)
}
