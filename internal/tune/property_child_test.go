package tune

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/knob/table"
	"github.com/venturi-net/venturi/internal/setting"
)

// childOrder is what a child is told to do, in one line.
type childOrder struct {
	Seed         uint64
	Undo         bool      // undo all, and else play a sequence
	Force        bool      // also what somebody else changed
	Point        string    // at which it kills itself; empty: nowhere
	Passes       int       // how often it passes that before
	Fault        string    // what goes wrong with a write
	FaultAt      int       // with which, from 1 on
	ForeignEdits bool      // somebody else changes things in between
	Case         *knobCase // set this to its first value, and nothing else
}

// answer is what a child says before it ends, if it does.
type answer struct {
	Sets      map[string]int // knobs that were turned
	Conflicts []setting.Setting
	Errors    []string
}

// points are those of the protocol, and before and after each call of the system.
var points = []string{
	string(journal.PointRead), string(journal.PointRecorded), string(journal.PointWritten), string(journal.PointMarked),
	string(journal.PointUndoing), string(journal.PointRestored), string(journal.PointClosed), "before a read", "before a write", "after a write",
}

// faults are what can go wrong with a write.
var faults = []string{"", "", "nothing happens, and it says no", "it happens, and it says no", "nothing happens, and it says yes"}

// child carries out orders from its standard input: "undo" in one process,
// sequences in others, so that nothing is known but what the journal tells.
func child(args []string) int {
	if err := runOrder(args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		return 1
	}
	return 0
}

func runOrder(file string) error {
	w, err := loadTestbed(file)
	if err != nil {
		return err
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var o childOrder
		if err := json.Unmarshal(in.Bytes(), &o); err != nil {
			return err
		}
		c := &actor{w: w, order: o, passesLeft: o.Passes, answer: answer{Sets: map[string]int{}}}
		if err := c.act(); err != nil {
			return err
		}
		text, err := json.Marshal(c.answer)
		if err != nil {
			return err
		}
		if _, err := fmt.Printf("%s\n", text); err != nil {
			return err
		}
	}
	return in.Err()
}

// actor is a child while it carries out one order.
type actor struct {
	w          *testbed
	order      childOrder
	answer     answer
	passesLeft int // passes of the point until it is killed
	writes     int
	m          knob.Machine
	j          *journal.Journal
	txs        []*journal.Tx
	log        *os.File
}

// passPoint kills the process at the point that was ordered.
func (a *actor) passPoint(point string) {
	if point != a.order.Point {
		return
	}
	if a.passesLeft--; a.passesLeft < 0 {
		a.note("killed at %q", point)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		time.Sleep(time.Hour)
	}
}

func (a *actor) note(format string, args ...any) { fmt.Fprintf(a.log, format+"\n", args...) }

// errFault is the error of a write that was made to go wrong.
var errFault = errors.New("injected")

// wrap puts a backend under the orders of the test.
func (a *actor) wrap(b setting.Backend) setting.Backend {
	read, write := b.Read, b.Write
	b.Read = func(s setting.Setting) (setting.Value, error) {
		a.passPoint("before a read")
		return read(s)
	}
	b.Write = func(s setting.Setting, v setting.Value) error {
		a.passPoint("before a write")
		defer a.passPoint("after a write")
		a.writes++
		if a.writes != a.order.FaultAt || a.order.Fault == "" {
			return write(s, v)
		}
		a.note("fault at %s: %s", s, a.order.Fault)
		switch a.order.Fault {
		case faults[3]:
			return errors.Join(write(s, v), errFault)
		case faults[4]:
			return nil
		}
		return errFault
	}
	return b
}

func (a *actor) act() error {
	var err error
	if a.log, err = os.OpenFile(filepath.Join(a.w.folder, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	defer a.log.Close()
	a.m = a.w.machine(a.wrap)
	a.j, err = journal.Open(journal.Options{Folder: a.w.Journal, Settings: a.m.Settings, User: "a test", OnPoint: func(p journal.CrashPoint) { a.passPoint(string(p)) }})
	if err != nil {
		return err
	}
	defer a.j.Close()
	if a.order.Undo {
		return a.undo()
	}
	return a.play(rand.New(rand.NewPCG(a.order.Seed, 0)))
}

func (a *actor) undo() error {
	a.note("undo all, %+v", a.order)
	outcomes, err := a.j.Undo(nil, journal.UndoOptions{Force: a.order.Force})
	if err != nil {
		return err
	}
	for _, o := range outcomes {
		conflict := new(journal.ConflictError)
		switch {
		case errors.As(o.Err, &conflict):
			a.answer.Conflicts = append(a.answer.Conflicts, o.Entry.Setting)
		case o.Err != nil:
			a.answer.Errors = append(a.answer.Errors, fmt.Sprintf("%s: %v", o.Entry.Setting, o.Err))
		}
		a.note("  %s: %s %s %v", o.Entry.Setting, o.Entry.State, o.Entry.Reason, o.Err)
	}
	return nil
}

// play plays a sequence of what users do, at random.
func (a *actor) play(r *rand.Rand) error {
	a.note("sequence %+v", a.order)
	if d := a.order.Case; d != nil {
		tx, err := a.j.Begin(0)
		if err != nil {
			return err
		}
		a.setKnob(tx, *d, d.Values[0])
		return tx.End()
	}
	var entries []*journal.Entry
	steps := 2 + r.IntN(5)
	if a.order.ForeignEdits {
		steps += 8
	}
	for range steps {
		n := r.IntN(12)
		if len(a.txs) == 0 || n == 0 {
			tx, err := a.j.Begin([]time.Duration{0, time.Hour}[r.IntN(2)])
			if err != nil {
				return err
			}
			a.txs = append(a.txs, tx)
		}
		tx := a.txs[r.IntN(len(a.txs))]
		if a.order.ForeignEdits && len(entries) > 0 && r.IntN(2) == 0 {
			if err := a.editForeign(r, entries); err != nil {
				return err
			}
			continue
		}
		switch {
		case n < 8:
			entries = append(entries, a.set(r, tx)...)
		case n == 8 && len(entries) > 0:
			e := entries[r.IntN(len(entries))]
			for _, on := range []bool{false, true, r.IntN(2) == 0} {
				if e.State == journal.Applied {
					a.note("toggle %s %v: %v", e.Setting, on, tx.Toggle(e, on))
				}
			}
		case n == 9:
			_, err := a.j.Undo([]int{tx.ID()}, journal.UndoOptions{})
			a.note("undo %d: %v", tx.ID(), err)
		case n == 10:
			a.note("confirm %d: %v", tx.ID(), a.j.Confirm(tx.ID()))
		}
	}
	return nil
}

func (a *actor) set(r *rand.Rand, tx *journal.Tx) []*journal.Entry {
	d := a.w.Menu[r.IntN(len(a.w.Menu))]
	for d.Target.File != "" && r.IntN(4) > 0 || a.order.ForeignEdits && d.Target.Device+d.Target.File != "" && r.IntN(8) > 0 {
		d = a.w.Menu[r.IntN(len(a.w.Menu))] // of files there are many; somebody else changes sysctls
	}
	return a.setKnob(tx, d, d.Values[r.IntN(len(d.Values))])
}

// setKnob turns a knob.
func (a *actor) setKnob(tx *journal.Tx, d knobCase, value string) []*journal.Entry {
	e, err := table.Find(d.Knob)
	if err != nil {
		a.note("%v", err)
		return nil
	}
	a.note("%d: set %s of %s to %s", tx.ID(), d.Knob, d.Target, value)
	entries, err := Set(tx, a.m, Assignment{Knob: e, Target: d.Target, Value: value})
	a.note("  %d writes, %v", len(entries), err)
	if err != nil {
		a.answer.Errors = append(a.answer.Errors, err.Error())
	}
	if len(entries) > 0 {
		a.answer.Sets[d.Knob]++
	}
	return entries
}

// editForeign changes a number that we have changed, to one that nobody else sets, as
// somebody who knows nothing of the journal.
func (a *actor) editForeign(r *rand.Rand, entries []*journal.Entry) error {
	entries = slices.DeleteFunc(slices.Clone(entries), func(e *journal.Entry) bool {
		return e.Setting.Backend != "sysctl" || e.State != journal.Applied
	})
	if len(entries) == 0 {
		return nil
	}
	e := entries[r.IntN(len(entries))]
	now, err := a.m.Settings.Read(e.Setting)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(strings.TrimSpace(now.String()))
	if err != nil || n < 10 {
		return nil
	}
	other := n + 1 + r.IntN(500)
	if n > math.MaxInt32-500 { // as large as can be, some are by default
		other = 2*n - other
	}
	foreign := setting.Text(fmt.Sprintf("%d\n", other))
	text, err := json.Marshal(setting.Write{Setting: e.Setting, Value: foreign})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(a.w.folder, "others"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	a.note("somebody else: %s = %s", e.Setting, foreign)
	plain := a.w.machine(func(b setting.Backend) setting.Backend { return b })
	if err := plain.Settings.Write(e.Setting, foreign); err != nil {
		return errors.Join(err, f.Close())
	}
	_, err = fmt.Fprintf(f, "%s\n", text)
	return errors.Join(err, f.Close())
}
