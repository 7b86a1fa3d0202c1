package journal

import (
	"fmt"
	"slices"
)

// history is what the records of a log say, put together.
type history struct {
	txns         []*Txn
	entries      []*Entry // in the order of their writes
	damaged      []Damage
	inconsistent []string // records that make no sense after those before them
}

func replay(text []byte) *history {
	records, damaged := parse(text)
	h := &history{damaged: damaged}
	for _, r := range records {
		h.apply(r)
	}
	return h
}

// apply adds what one record says. What it cannot belong to was lost.
func (h *history) apply(r record) {
	switch {
	case r.Begin != nil:
		b := r.Begin
		if b.Lease != nil && b.Lease.Kind == "" {
			b.Lease.Kind = TrialLease
		}
		h.txns = append(h.txns, &Txn{ID: b.Txn, Time: b.Time, Boot: b.Boot, User: b.User, Command: b.Command, Version: b.Version, Lease: b.Lease, Sight: b.Sight})
	case r.Intent != nil:
		h.addIntent(r.Intent)
	case r.Done != nil:
		if e := h.entry(r.Done.Entry); e != nil {
			e.State, e.Readback = Applied, &r.Done.Readback
			for _, k := range r.Done.SideEffects {
				e.addSideEffect(k.Setting).new = &k.Value
			}
		}
	case r.Restore != nil:
		if e := h.entry(r.Restore.Entry); e != nil {
			e.restore = r.Restore
		}
	case r.Restored != nil:
		if e := h.entry(r.Restored.Entry); e != nil && e.restore != nil {
			e.toggledOff, e.restore = !e.restore.On, nil
		}
	case r.Closed != nil:
		if e := h.entry(r.Closed.Entry); e != nil {
			e.State, e.Reason, e.Closed = r.Closed.State, r.Closed.Reason, r.Closed.Time
		}
		for _, to := range r.Closed.Handovers {
			h.inherit(to)
		}
	case r.End != nil:
		if t := h.txn(r.End.Txn); t != nil {
			t.Ended = true
		}
	case r.Confirm != nil:
		if t := h.txn(r.Confirm.Txn); t != nil {
			t.Confirmed = r.Confirm.Time
		}
	default:
		h.inconsistent = append(h.inconsistent, "a record of a kind that this version does not know")
	}
}

func (h *history) addIntent(i *intentRecord) {
	t := h.txn(i.Txn)
	if t == nil {
		// Its beginning was lost. That of another boot would be, too: without a
		// boot id, its values are taken to be of this one, and looked at.
		t = &Txn{ID: i.Txn}
		h.txns = append(h.txns, t)
	}
	e := &Entry{ID: i.Entry, Txn: i.Txn, Knob: i.Knob, Setting: i.Setting.AfterWrite(i.New), Old: i.Old, New: i.New, State: InDoubt, id: i.Setting.ID()}
	for _, k := range i.SideEffects {
		e.addSideEffect(k.Setting).old = k.Value
	}
	t.Entries = append(t.Entries, e)
	h.entries = append(h.entries, e)
}

func (h *history) inherit(to handover) {
	e := h.entry(to.Entry)
	switch {
	case e == nil:
	case to.Setting == nil:
		e.earlierOld = append(e.earlierOld, e.Old)
		e.Old = to.Old
	default:
		k := e.addSideEffect(*to.Setting)
		k.old = to.Old
		if to.All {
			k.new = &to.Result
		}
	}
}

func (h *history) entry(id int) *Entry {
	for _, e := range slices.Backward(h.entries) {
		if e.ID == id {
			return e
		}
	}
	h.inconsistent = append(h.inconsistent, fmt.Sprintf("a record of write %d, whose beginning is not there", id))
	return nil
}

func (h *history) txn(id int) *Txn {
	for _, t := range slices.Backward(h.txns) {
		if t.ID == id {
			return t
		}
	}
	return nil
}

// next are the first free numbers for a transaction and for an entry.
func (h *history) next() (txn, entry int) {
	for _, t := range h.txns {
		txn = max(txn, t.ID)
	}
	for _, e := range h.entries {
		entry = max(entry, e.ID)
	}
	return txn + 1, entry + 1
}
