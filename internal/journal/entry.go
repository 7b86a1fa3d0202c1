package journal

import (
	"slices"

	"github.com/venturi-net/venturi/internal/setting"
)

// aside gives what is known of a cell around the entry's own. One that is not
// known yet did not exist before the write.
func (e *Entry) aside(cell setting.Cell) *aside {
	id := cell.ID()
	if k := e.asideOf(id); k != nil {
		return k
	}
	k := &aside{cell: cell, id: id}
	e.around = append(e.around, k)
	return k
}

func (e *Entry) asideOf(id string) *aside {
	for _, k := range e.around {
		if k.id == id {
			return k
		}
	}
	return nil
}

// touches tells whether the entry's cell, or one around it, is what is looked for.
func (e *Entry) touches(is func(id string) bool) bool {
	return is(e.id) || slices.ContainsFunc(e.around, func(k *aside) bool { return is(k.id) })
}

// left is what the write left of the cell around, as far as is known.
func (k *aside) left() setting.Value {
	if k.after != nil {
		return *k.after
	}
	return k.before
}

// written is what the entry's write made of its cell, as far as is known.
func (e *Entry) written() setting.Value {
	if e.Found != nil {
		return *e.Found
	}
	return e.New
}

// side is the new value, or the old one.
func (e *Entry) side(on bool) setting.Value {
	if on {
		return e.written()
	}
	return e.Old
}

// first is what the cell held when the write was about to happen, whatever old
// value it was handed since.
func (e *Entry) first() setting.Value {
	if len(e.once) > 0 {
		return e.once[0]
	}
	return e.Old
}

// wasBefore tells whether the cell held a value before the write.
func (e *Entry) wasBefore(v setting.Value) bool {
	return v.Equal(e.Old) || slices.ContainsFunc(e.once, v.Equal)
}

// wrote tells whether a value is what the entry's write makes of its cell.
func (j *Journal) wrote(e *Entry, v setting.Value) bool {
	return v.Equal(e.written()) || e.State == InDoubt && j.cells.Alike(e.Cell, e.New, v)
}

// ours tells whether the entry may have left its cell with a value: the new one,
// or an old one, for it may be in doubt, or have been swung back; or with what a
// write of either leaves that was killed in the middle.
func (j *Journal) ours(e *Entry, v setting.Value) bool {
	halfway := j.cells.Halfway(e.Cell, e.written(), v) || j.cells.Halfway(e.Cell, e.Old, v)
	return halfway || j.wrote(e, v) || e.wasBefore(v)
}

// found is what a write found in a cell, its own or one around it.
func (e *Entry) found(id string) (v setting.Value, known bool) {
	if e.id == id {
		return e.Old, true
	}
	if k := e.asideOf(id); k != nil {
		return k.before, true
	}
	return v, false
}

// made is what a write made of a cell, its own or one around it.
func (e *Entry) made(id string) setting.Value {
	if k := e.asideOf(id); k != nil {
		return k.left()
	}
	return e.written()
}

// changes tells whether the value of a cell rests on what an open write made of
// it, its own or one around it: not, where a write that was swung back stands for
// the value from before, or did when the next one came.
func (h *history) changes(e *Entry, id string) bool {
	if e.id == id {
		return true
	}
	k := e.asideOf(id)
	if k == nil || k.after == nil {
		return false
	}
	if next := h.above(e, id); next != nil {
		v, _ := next.found(id)
		return !v.Equal(k.before)
	}
	return !e.off
}

// later are the open writes after one.
func (h *history) later(e *Entry) []*Entry {
	at := slices.Index(h.entries, e)
	return slices.DeleteFunc(slices.Clone(h.entries[at+1:]), func(l *Entry) bool { return !l.State.Open() })
}

// above is the first open write after one that changed a cell; nil: none.
func (h *history) above(e *Entry, id string) *Entry {
	for _, l := range h.later(e) {
		if h.changes(l, id) {
			return l
		}
	}
	return nil
}

// between tells whether an open write between two others is of a cell that lies
// around one of theirs.
func (h *history) between(e, above *Entry) bool {
	for _, l := range h.later(e) {
		if l == above {
			break
		}
		if e.asideOf(l.id) != nil || above.asideOf(l.id) != nil {
			return true
		}
	}
	return false
}

// chain says what later writes are to be told when a cell has another value
// beneath them: those that found what fits, as far as the first that changed
// it. Foreign: what one of them found does not fit, so somebody else changed it
// before.
func (h *history) chain(e *Entry, cell setting.Cell, id string, fits func(setting.Value) bool, old setting.Value) (tell []handOn, foreign *Entry) {
	var swung []setting.Value // what writes made of it that were swung back since
	doubt := false            // there is one that may have changed it
	for _, l := range h.later(e) {
		v, known := l.found(id)
		if !known {
			continue
		}
		if !fits(v) {
			if doubt || slices.ContainsFunc(swung, v.Equal) {
				return tell, nil
			}
			return tell, l
		}
		to := handOn{Entry: l.ID, Old: old}
		if l.id != id {
			to.Cell = &cell
		}
		tell = append(tell, to)
		if h.changes(l, id) {
			break
		}
		doubt = doubt || l.State == InDoubt
		if k := l.asideOf(id); k != nil && k.after != nil {
			swung = append(swung, *k.after)
		}
	}
	return tell, nil
}
