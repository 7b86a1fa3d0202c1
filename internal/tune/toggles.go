package tune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/search"
	"github.com/venturi-net/venturi/internal/setting"
)

// toggles turn candidates on and off, any number of times, inside of one
// transaction that is undone in the end. Each candidate was set once, by the
// journal's rules, so that a process that is killed leaves nothing that
// "venturi undo" does not know.
type toggles struct {
	tx       *journal.Tx
	settings *setting.Settings
	toggled  []*toggledSetting // in the order of their writes
	now      search.Subset
}

// toggledSetting is one setting that candidates write.
type toggledSetting struct {
	setting setting.Setting
	knob    string
	base    setting.Value
	values  map[int]setting.Value // by candidate
	// entry of a setting that a single candidate writes, which is toggled: both values
	// are on disk. A setting that several write is written by the journal each time,
	// for it must know which of them stands.
	entry *journal.Entry
}

// minSettle is how long any write takes to calm down.
const minSettle = 2 * time.Millisecond

// prepare sets each candidate once, sees that it takes effect, and takes it back.
// It gives the candidates that can be switched, and rows that say why the others cannot. Error: one
// could not be taken back.
func prepare(ctx context.Context, j *journal.Journal, tx *journal.Tx, m knob.Machine, all []Candidate) (*toggles, []Candidate, []search.Row, error) {
	s := &toggles{tx: tx, settings: m.Settings}
	shared := sharedSettings(m, all)
	var fit []Candidate
	var unfit []search.Row
	for _, c := range all {
		if err := ctx.Err(); err != nil {
			return s, nil, nil, err
		}
		before := openWrites(j, tx)
		entries, err := setAll(tx, m, c)
		if err != nil && openWrites(j, tx) != before {
			return s, nil, nil, fmt.Errorf("undo %s: %w", c.Name, err)
		}
		if err == nil && len(entries) == 0 {
			unfit = append(unfit, search.Row{Knob: c.Name, Verdict: search.VerdictNotTried, Reason: "it is so already"})
			continue
		}
		if err != nil {
			unfit = append(unfit, search.Row{Knob: c.Name, Verdict: search.VerdictNotTried, Reason: reason(err)})
			continue
		}
		n := len(fit)
		fit = append(fit, c)
		for _, e := range entries {
			s.record(n, e, shared[e.Setting.ID()])
		}
		s.now = search.Subset{n}
		if err := s.switchTo(ctx, nil); err != nil {
			return s, nil, nil, cmp.Or(context.Cause(ctx), fmt.Errorf("undo %s: %w", c.Name, err))
		}
	}
	return s, fit, unfit, nil
}

// setAll sets a candidate's assignments, all or none.
func setAll(tx *journal.Tx, m knob.Machine, c Candidate) ([]*journal.Entry, error) {
	var entries []*journal.Entry
	for _, w := range c.Assignments {
		written, err := Set(tx, m, w)
		if err != nil {
			return nil, errors.Join(err, tx.Revert(entries, "another write of "+c.Name+" failed"))
		}
		entries = append(entries, written...)
	}
	return entries, nil
}

// openWrites counts the writes of a transaction that there may be something to undo of.
func openWrites(j *journal.Journal, tx *journal.Tx) (n int) {
	for _, t := range j.History().Txns {
		if t.ID != tx.ID() {
			continue
		}
		for _, e := range t.Entries {
			if e.State.Open() {
				n++
			}
		}
	}
	return n
}

// sharedSettings tells which settings would be written more than once.
func sharedSettings(m knob.Machine, all []Candidate) map[string]bool {
	once, shared := map[string]bool{}, map[string]bool{}
	for _, c := range all {
		for _, w := range c.Assignments {
			writes, err := w.Knob.Plan(m, w.Target, w.Value)
			if err != nil {
				continue // setting it will say why
			}
			for _, write := range writes {
				id := write.Setting.ID()
				shared[id] = once[id]
				once[id] = true
			}
		}
	}
	return shared
}

// record notes what a candidate wrote.
func (s *toggles) record(candidate int, e *journal.Entry, shared bool) {
	for _, c := range s.toggled {
		if c.setting.ID() == e.Setting.ID() {
			c.values[candidate], c.entry = *e.Readback, nil
			return
		}
	}
	c := &toggledSetting{setting: e.Setting, knob: e.Knob, base: e.Old, values: map[int]setting.Value{candidate: *e.Readback}}
	if !shared {
		c.entry = e
	}
	s.toggled = append(s.toggled, c)
}

// valueIn is what the setting holds in a state.
func (c *toggledSetting) valueIn(state search.Subset) setting.Value {
	v := c.base
	for _, k := range state {
		if own, writes := c.values[k]; writes {
			v = own
		}
	}
	return v
}

// switchTo brings the machine into a state: first what goes back, in the opposite order
// of how it was written, then what is turned on. When ctx ends it has written all of that, and waits no more.
func (s *toggles) switchTo(ctx context.Context, to search.Subset) error {
	var back, on []*toggledSetting
	for _, c := range s.toggled {
		want := c.valueIn(to)
		if want.Equal(c.valueIn(s.now)) {
			continue
		}
		if want.Equal(c.base) {
			back = append(back, c)
		} else {
			on = append(on, c)
		}
	}
	slices.Reverse(back)
	writes := append(back, on...)
	for _, c := range writes {
		if err := s.write(c, c.valueIn(to)); err != nil {
			return err
		}
	}
	s.now = to
	return host.Sleep(ctx, s.settle(writes))
}

// settle is how long what some writes disturb takes to calm down.
func (s *toggles) settle(writes []*toggledSetting) (longest time.Duration) {
	for _, c := range writes {
		longest = max(longest, minSettle, s.settings.Settle(c.setting))
	}
	return longest
}

func (s *toggles) write(c *toggledSetting, v setting.Value) error {
	if c.entry != nil {
		return s.tx.Toggle(c.entry, !v.Equal(c.base))
	}
	_, err := s.tx.Set(c.knob, setting.Write{Setting: c.setting, Value: v})
	return err
}
