package journal

import (
	"slices"

	"github.com/venturi-net/venturi/internal/setting"
)

// addSideEffect gives what is known of a side effect of the entry's write. One that is not
// known yet did not exist before the write.
func (e *Entry) addSideEffect(s setting.Setting) *sideEffect {
	id := s.ID()
	if k := e.sideEffect(id); k != nil {
		return k
	}
	k := &sideEffect{setting: s, id: id}
	e.sideEffects = append(e.sideEffects, k)
	return k
}

func (e *Entry) sideEffect(id string) *sideEffect {
	for _, k := range e.sideEffects {
		if k.id == id {
			return k
		}
	}
	return nil
}

// touches tells whether the entry's setting, or one around it, is what is looked for.
func (e *Entry) touches(is func(id string) bool) bool {
	return is(e.id) || slices.ContainsFunc(e.sideEffects, func(k *sideEffect) bool { return is(k.id) })
}

// result is what the write left of the side effect, as far as is known.
func (k *sideEffect) result() setting.Value {
	if k.new != nil {
		return *k.new
	}
	return k.old
}

// result is what the entry's write made of its setting, as far as is known.
func (e *Entry) result() setting.Value {
	if e.Readback != nil {
		return *e.Readback
	}
	return e.New
}

// valueFor is the new value, or the old one.
func (e *Entry) valueFor(on bool) setting.Value {
	if on {
		return e.result()
	}
	return e.Old
}

// original is what the setting held when the write was about to happen, whatever old
// value it was handed since.
func (e *Entry) original() setting.Value {
	if len(e.earlierOld) > 0 {
		return e.earlierOld[0]
	}
	return e.Old
}

// hadBefore tells whether the setting held a value before the write.
func (e *Entry) hadBefore(v setting.Value) bool {
	return v.Equal(e.Old) || slices.ContainsFunc(e.earlierOld, v.Equal)
}

// isResult tells whether a value is what the entry's write makes of its setting.
func (r *reader) isResult(e *Entry, v setting.Value) bool {
	return v.Equal(e.result()) || e.State == InDoubt && r.settings.Matches(e.Setting, e.New, v)
}

// explains tells whether the entry may have left its setting with a value: the new one,
// or an old one, for it may be in doubt, or have been toggled back; or with what a
// write of either leaves that was killed in the middle.
func (r *reader) explains(e *Entry, v setting.Value) bool {
	halfway := r.settings.PartialWrite(e.Setting, e.result(), v) || r.settings.PartialWrite(e.Setting, e.Old, v)
	return halfway || r.isResult(e, v) || e.hadBefore(v)
}

// oldOf is what a write found in a setting, its own or one around it.
func (e *Entry) oldOf(id string) (v setting.Value, known bool) {
	if e.id == id {
		return e.Old, true
	}
	if k := e.sideEffect(id); k != nil {
		return k.old, true
	}
	return v, false
}

// resultOf is what a write made of a setting, its own or one around it.
func (e *Entry) resultOf(id string) setting.Value {
	if k := e.sideEffect(id); k != nil {
		return k.result()
	}
	return e.result()
}

// changes tells whether the value of a setting rests on what an open write made of
// it, its own or one around it: not, where a write that was toggled back stands for
// the value from before, or did when the next one came.
func (h *history) changes(e *Entry, id string) bool {
	if e.id == id {
		return true
	}
	k := e.sideEffect(id)
	if k == nil || k.new == nil {
		return false
	}
	if next := h.nextChange(e, id); next != nil {
		v, _ := next.oldOf(id)
		return !v.Equal(k.old)
	}
	return !e.toggledOff
}

// laterOpen are the open writes after one.
func (h *history) laterOpen(e *Entry) []*Entry {
	at := slices.Index(h.entries, e)
	return slices.DeleteFunc(slices.Clone(h.entries[at+1:]), func(l *Entry) bool { return !l.State.Open() })
}

// nextChange is the first open write after one that changed a setting; nil: none.
func (h *history) nextChange(e *Entry, id string) *Entry {
	for _, l := range h.laterOpen(e) {
		if h.changes(l, id) {
			return l
		}
	}
	return nil
}

// interleaved tells whether an open write between two others is of a setting that lies
// around one of theirs.
func (h *history) interleaved(e, above *Entry) bool {
	for _, l := range h.laterOpen(e) {
		if l == above {
			break
		}
		if e.sideEffect(l.id) != nil || above.sideEffect(l.id) != nil {
			return true
		}
	}
	return false
}

// handovers says what later writes are to be told when a setting has another value
// beneath them: those that found what fits, as far as the first that changed
// it. Foreign: what one of them found does not fit, so somebody else changed it
// before.
func (h *history) handovers(e *Entry, s setting.Setting, id string, fits func(setting.Value) bool, old setting.Value) (tell []handover, foreign *Entry) {
	var toggled []setting.Value // what writes made of it that were toggled back since
	doubt := false              // there is one that may have changed it
	for _, l := range h.laterOpen(e) {
		v, known := l.oldOf(id)
		if !known {
			continue
		}
		if !fits(v) {
			if doubt || slices.ContainsFunc(toggled, v.Equal) {
				return tell, nil
			}
			return tell, l
		}
		to := handover{Entry: l.ID, Old: old}
		if l.id != id {
			to.Setting = &s
		}
		tell = append(tell, to)
		if h.changes(l, id) {
			break
		}
		doubt = doubt || l.State == InDoubt
		if k := l.sideEffect(id); k != nil && k.new != nil {
			toggled = append(toggled, *k.new)
		}
	}
	return tell, nil
}
