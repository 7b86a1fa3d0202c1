package journal

import (
	"fmt"
	"slices"

	"github.com/venturi-net/venturi/internal/change"
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
		h.txns = append(h.txns, &Txn{ID: b.Txn, Time: b.Time, Boot: b.Boot, Who: b.Who, Command: b.Command, Version: b.Version, Lease: b.Lease})
	case r.Intent != nil:
		h.intend(r.Intent)
	case r.Done != nil:
		if e := h.entry(r.Done.Entry); e != nil {
			e.State, e.Found, e.after = Done, &r.Done.Found, r.Done.Around
		}
	case r.Undoing != nil:
		for _, id := range r.Undoing.Entries {
			if e := h.entry(id); e != nil {
				e.undoing = r.Undoing
			}
		}
	case r.Closed != nil:
		if e := h.entry(r.Closed.Entry); e != nil {
			e.State, e.Why, e.Closed = r.Closed.State, r.Closed.Why, r.Closed.Time
		}
	case r.Rebase != nil:
		if e := h.entry(r.Rebase.Entry); e != nil {
			e.Old = r.Rebase.Old
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
	e := &Entry{ID: i.Entry, Txn: i.Txn, Knob: i.Knob, Cell: i.Cell, Old: i.Old, New: i.New, State: InDoubt, before: i.Around}
	t.Entries = append(t.Entries, e)
	h.entries = append(h.entries, e)
}

// above is the next write of the same cell that is still open; nil: none.
func (h *history) above(e *Entry) *Entry {
	at := slices.Index(h.entries, e)
	return firstOpen(h.entries[at+1:], e.Cell)
}

// firstOpen is the first open write of a cell in a list; nil: none.
func firstOpen(list []*Entry, cell change.Cell) *Entry {
	id := cell.ID()
	for _, e := range list {
		if e.State.Open() && e.Cell.ID() == id {
			return e
		}
	}
	return nil
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

// keptOf finds the value of a cell in a list.
func keptOf(list []Kept, cell change.Cell) (change.Value, bool) {
	for _, k := range list {
		if k.Cell.ID() == cell.ID() {
			return k.Value, true
		}
	}
	return change.Value{}, false
}
