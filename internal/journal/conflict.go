package journal

import (
	"slices"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/setting"
)

// Conflicts looks which open writes an undo would report and leave alone now, for
// somebody else has changed their value since; by the numbers of the writes. What
// cannot be read is left out. Nothing is written, and nobody is waited for.
func (h History) Conflicts(settings *setting.Settings) map[int]*ConflictError {
	boot, err := host.BootID()
	if err != nil {
		return nil
	}
	all := &history{txns: h.Txns}
	for _, t := range h.Txns {
		all.entries = append(all.entries, t.Entries...)
	}
	slices.SortFunc(all.entries, func(a, b *Entry) int { return a.ID - b.ID })
	r := &reader{boot, host.Reader{}.Sight(), settings, all}
	found := map[int]*ConflictError{}
	for _, e := range all.entries {
		if !e.State.Open() || r.otherBoot(e) && !settings.Persistent(e.Setting) || r.otherFiles(e) {
			continue
		}
		if c := r.conflict(e); c != nil {
			found[e.ID] = c
		}
	}
	return found
}

// conflict looks for one in the setting of an open write; beneath a later write, in
// what that one found. Nil: there is none, or nobody knows.
func (r *reader) conflict(e *Entry) *ConflictError {
	if r.h.nextChange(e, e.id) != nil {
		_, foreign := r.h.handovers(e, e.Setting, e.id, func(v setting.Value) bool { return r.explains(e, v) }, e.Old)
		if foreign == nil {
			return nil
		}
		v, _ := foreign.oldOf(e.id)
		return &ConflictError{Entry: e, Now: v}
	}
	current, err := r.settings.Read(e.Setting)
	if err != nil {
		return nil
	}
	if !r.explains(e, current) {
		return &ConflictError{Entry: e, Now: current}
	}
	if k := r.unexplained(e, current); k != nil {
		return &ConflictError{Entry: e, Now: current, SideEffect: k}
	}
	return nil
}
