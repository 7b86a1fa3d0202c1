package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/venturi-net/venturi/internal/display"
	"github.com/venturi-net/venturi/internal/fleet"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/tune"
	"github.com/venturi-net/venturi/internal/verr"
)

// thisMachine is what knobs read.
func thisMachine() knob.Machine {
	return knob.Machine{Settings: setting.NewSettings(tune.Backends("")...)}
}

// journalFolder is where this machine's journal is.
func journalFolder(env *Env) (string, error) {
	if folder := env.Getenv(journal.FolderVariable); folder != "" {
		return folder, journal.CheckFolder(folder)
	}
	return journal.Folder, nil
}

const (
	journalWait = 10 * time.Second // for who has it open
	reopenWait  = 90 * time.Second // the same, at the end of a fast path: see [reopenJournal]
	trialWait   = time.Second      // a trial must not begin beside who holds it for long
)

// openJournal opens the journal for changing, and tells what is wrong with it.
func openJournal(env *Env, wait time.Duration) (*journal.Journal, error) {
	return openAfter(env, wait, func(*journal.Journal) error { return nil })
}

// openAfter does something in the journal before it tells what is wrong with it.
func openAfter(env *Env, wait time.Duration, first func(*journal.Journal) error) (*journal.Journal, error) {
	folder, err := journalFolder(env)
	if err != nil {
		return nil, err
	}
	j, err := journal.Open(journal.Options{
		Folder: folder, Settings: thisMachine().Settings, Wait: wait,
		User: journal.User(env.Getenv), Command: sanitize.Command(slices.DeleteFunc(ownCommand(env), func(word string) bool { return word == "--hold" })...), Version: Version(),
	})
	if err != nil {
		return nil, permissionError("cannot open the journal of changes", err)
	}
	if err = first(j); err == nil {
		display.WarnProofs(env.Stderr, j.History())
		err = display.WarnJournal(env.Stderr, j.History(), folder)
	}
	if err != nil {
		j.Close()
		return nil, err
	}
	return j, nil
}

// openToChange opens the journal to make changes, and first undoes what was on
// trial when the machine was rebooted.
func openToChange(env *Env, wait time.Duration) (*journal.Journal, error) {
	return openAfter(env, wait, func(j *journal.Journal) error {
		ended, outcomes, err := tune.UndoExpired(j)
		if err != nil || len(ended) == 0 {
			return err
		}
		for _, txn := range ended {
			sanitize.Fprintf(env.Stderr, "venturi: the lease of transaction %d ended with a reboot; it is undone now:\n", txn)
		}
		if left := display.PrintUndone(env.Stderr, outcomes); left != nil {
			verr.Print(env.Stderr, left) // no reason to change nothing else
		}
		return nil
	})
}

// waitForJournal opens the journal however long somebody else has it, and says who.
// It ends with ctx.
func waitForJournal(ctx context.Context, env *Env) (*journal.Journal, error) {
	return takeJournal(ctx, env, func(*journal.Txn) bool { return false })
}

// takeJournal is waitForJournal, and asks whoever has it open to end if end says so of its transaction; nil: that is
// not known.
func takeJournal(ctx context.Context, env *Env, end func(*journal.Txn) bool) (*journal.Journal, error) {
	const turn = 500 * time.Millisecond
	for told := false; ; told = true {
		j, err := openJournal(env, turn)
		if verr.Code(err) != verr.Busy {
			return j, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		folder, err := journalFolder(env)
		if err != nil {
			return nil, err
		}
		t := runningTxn(folder)
		if end(t) {
			if err := journal.RequestEnd(folder); err != nil {
				return nil, err
			}
		}
		if told {
			continue
		}
		who := ""
		if t != nil {
			who = fmt.Sprintf(": transaction %d of %s, %s", t.ID, t.User, t.Command)
		}
		sanitize.Fprintf(env.Stderr, "venturi: waiting for another venturi that is changing this machine%s\n", who)
	}
}

// anyProof is for [takeJournal]: whichever proof runs is to end. One that changes only its lab has an ordinary
// transaction, and who has the journal for a moment does not look.
func anyProof(*journal.Txn) bool { return true }

// reopenJournal opens the journal for who has ended a fast path, and has a proof end that would have it open for long.
// It waits for less than the time after which systemd or Kubernetes kills the process, three minutes.
func reopenJournal(env *Env) (*journal.Journal, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), reopenWait, verr.New(verr.Busy, "cannot record that the fast path has ended",
		"another venturi has had the journal open for "+reopenWait.String(), "wait until that one is done, and then run: venturi fastpath disable"))
	defer cancel()
	return takeJournal(ctx, env, anyProof)
}

// runningTxn is the transaction of whoever has the journal open; nil: that is not known.
func runningTxn(folder string) *journal.Txn {
	h, err := journal.ReadHistory(folder)
	if err != nil || len(h.Txns) == 0 || h.Txns[len(h.Txns)-1].Ended {
		return nil
	}
	return h.Txns[len(h.Txns)-1]
}

// holder gives what starts the process that undoes a transaction at the end of its
// lease.
func holder(env *Env) func(txn int) error {
	return func(txn int) error {
		folder, err := journalFolder(env)
		if err != nil {
			return err
		}
		command, err := program()
		if err != nil {
			return err
		}
		return netcfg.StartDetached(append(command, tune.HolderArgs(folder, txn)...), env.Environ())
	}
}

// commitFlags are the flags of all commands that change settings.
type commitFlags struct {
	trial  time.Duration
	asJSON bool
	hold   bool // one of several machines: see [fleet.Settle]
}

func (c *commitFlags) flags(f *pflag.FlagSet) {
	f.DurationVar(&c.trial, "trial", 0, "undo it after this time, such as 120s, unless \"venturi confirm\" comes first")
	f.BoolVar(&c.asJSON, "json", false, "print the result as JSON")
	f.BoolVar(&c.hold, "hold", false, "undo it unless standard input says to keep it")
	_ = f.MarkHidden("hold") // another venturi says it
}

// check refuses what makes no sense, or may not be, before anything is read.
func (c *commitFlags) check(f *pflag.FlagSet, assignments []tune.Assignment) error {
	if err := checkTrial(f, c.trial); err != nil {
		return err
	}
	for _, w := range assignments {
		if w.Knob.Scope == knob.ScopeManifest {
			continue
		}
		if err := needRoot("cannot set "+w.Knob.Name, onlyRootChanges); err != nil {
			return err
		}
	}
	return nil
}

// checkTrial refuses a trial that would be over before anybody has seen it.
func checkTrial(f *pflag.FlagSet, trial time.Duration) error {
	if !f.Changed("trial") || trial >= time.Second {
		return nil
	}
	return verr.New(verr.Usage, "cannot make a trial of "+trial.String(), "it is shorter than a second", "give a time such as 120s or 5m")
}

// checkTrialApplied refuses a trial of no change.
func checkTrialApplied(what string, trial time.Duration, apply bool) error {
	if trial == 0 || apply {
		return nil
	}
	return verr.New(verr.Usage, what+" on trial", "nothing is changed without --apply", "add --apply, or leave out --trial")
}

// commit carries assignments out in one transaction, and prints what was changed.
func (c *commitFlags) commit(ctx context.Context, env *Env, planned []tune.Planned) error {
	if len(tune.Total(planned)) == 0 {
		return c.print(env.Stdout, journal.History{}, 0, planned)
	}
	wait := journalWait
	if c.trial > 0 || c.hold {
		wait = trialWait
	}
	j, err := openToChange(env, wait)
	if err != nil {
		return err
	}
	defer j.Close()
	trial := tune.TrialOptions{Lease: c.trial, Hold: holder(env)}
	if c.hold {
		trial.Lease = cmp.Or(c.trial, fleet.HoldLease)
		until := time.Now().Add(min(trial.Lease, fleet.HoldLease))
		trial.Settle = func(ctx context.Context, txn int) error {
			return fleet.Settle(ctx, env.Stdin, env.Stdout, until, func() (bool, error) {
				late, err := j.Expired()
				return slices.Contains(late, txn), err
			})
		}
	}
	var assignments []tune.Assignment
	for _, p := range planned {
		assignments = append(assignments, p.Assignment)
	}
	txn, _, err := tune.Apply(ctx, j, thisMachine(), assignments, trial)
	if err == nil && c.hold && c.trial == 0 && txn > 0 {
		err = j.Confirm(txn)
	}
	if err == nil {
		err = c.print(env.Stdout, j.History(), txn, planned)
	}
	if err != nil && c.hold && txn > 0 {
		return tune.UndoHeld(j, txn, err)
	}
	return err
}

func (c *commitFlags) print(out io.Writer, h journal.History, txn int, planned []tune.Planned) error {
	told, err := display.NewTransactions(display.SelectTxns(h, txn), nil)
	if err != nil {
		return err
	}
	done := display.CommitResult{Transactions: told, Knobs: []display.KnobChange{}}
	for _, p := range planned {
		now, err := p.Assignment.Knob.Get(thisMachine(), p.Assignment.Target)
		if err != nil && txn > 0 {
			return verr.Wrap(verr.Failed, "cannot read back "+p.Assignment.Knob.Name, err, fmt.Sprintf("the changes were made; undo them with: venturi undo %d", txn))
		}
		if err != nil {
			return err
		}
		done.Knobs = append(done.Knobs, display.KnobChange{Knob: p.Assignment.Knob.Name, Target: p.Assignment.Target, Old: p.Now, New: now})
	}
	if txn > 0 {
		done.Undo = fmt.Sprintf("venturi undo %d", txn)
		if c.trial > 0 {
			done.Confirm = fmt.Sprintf("venturi confirm %d", txn)
		}
	}
	if c.asJSON {
		return display.PrintJSON(out, done)
	}
	return done.Print(out, c.trial)
}
