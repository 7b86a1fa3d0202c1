package journal

import (
	"fmt"
	"slices"
)

// history is what the records of a log say, put together.
type history struct {
	txns    []*Txn
	entries []*Entry // in the order of their writes
	damaged []Damage
	strange []string // records that make no sense after those before them
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
			b.Lease.Kind = Trial
		}
		h.txns = append(h.txns, &Txn{ID: b.Txn, Time: b.Time, Boot: b.Boot, Who: b.Who, Command: b.Command, Version: b.Version, Lease: b.Lease})
	case r.Intent != nil:
		h.intend(r.Intent)
	case r.Done != nil:
		if e := h.entry(r.Done.Entry); e != nil {
			e.State, e.Found = Done, &r.Done.Found
			for _, k := range r.Done.Around {
				e.aside(k.Cell).after = &k.Value
			}
		}
	case r.Turn != nil:
		if e := h.entry(r.Turn.Entry); e != nil {
			e.turn = r.Turn
		}
	case r.Turned != nil:
		if e := h.entry(r.Turned.Entry); e != nil && e.turn != nil {
			e.off, e.turn = !e.turn.On, nil
		}
	case r.Closed != nil:
		if e := h.entry(r.Closed.Entry); e != nil {
			e.State, e.Why, e.Closed = r.Closed.State, r.Closed.Why, r.Closed.Time
		}
		for _, to := range r.Closed.HandOn {
			h.take(to)
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
		h.strange = append(h.strange, "a record of a kind that this version does not know")
	}
}

func (h *history) intend(i *intent) {
	t := h.txn(i.Txn)
	if t == nil {
		// Its beginning was lost. That of another boot would be, too: without a
		// boot id, its values are taken to be of this one, and looked at.
		t = &Txn{ID: i.Txn}
		h.txns = append(h.txns, t)
	}
	e := &Entry{ID: i.Entry, Txn: i.Txn, Knob: i.Knob, Cell: i.Cell, Old: i.Old, New: i.New, State: InDoubt, id: i.Cell.ID()}
	for _, k := range i.Around {
		e.aside(k.Cell).before = k.Value
	}
	t.Entries = append(t.Entries, e)
	h.entries = append(h.entries, e)
}

func (h *history) take(to handOn) {
	e := h.entry(to.Entry)
	switch {
	case e == nil:
	case to.Cell == nil:
		e.once = append(e.once, e.Old)
		e.Old = to.Old
	default:
		k := e.aside(*to.Cell)
		k.before = to.Old
		if to.All {
			k.after = &to.Left
		}
	}
}

func (h *history) entry(id int) *Entry {
	for _, e := range slices.Backward(h.entries) {
		if e.ID == id {
			return e
		}
	}
	h.strange = append(h.strange, fmt.Sprintf("a record of write %d, whose beginning is not there", id))
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
