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
	j := &Journal{options: Options{Boot: boot, Sight: host.Reader{}.Sight()}, settings: settings, h: all}
	found := map[int]*ConflictError{}
	for _, e := range all.entries {
		if !e.State.Open() || j.otherBoot(e) && !settings.Persistent(e.Setting) || j.otherFiles(e) {
			continue
		}
		if c := j.conflict(e); c != nil {
			found[e.ID] = c
		}
	}
	return found
}

// conflict looks for one in the setting of an open write; beneath a later write, in
// what that one found. Nil: there is none, or nobody knows.
func (j *Journal) conflict(e *Entry) *ConflictError {
	if j.h.nextChange(e, e.id) != nil {
		_, foreign := j.h.handovers(e, e.Setting, e.id, func(v setting.Value) bool { return j.explains(e, v) }, e.Old)
		if foreign == nil {
			return nil
		}
		v, _ := foreign.oldOf(e.id)
		return &ConflictError{Entry: e, Now: v}
	}
	current, err := j.settings.Read(e.Setting)
	if err != nil {
		return nil
	}
	if !j.explains(e, current) {
		return &ConflictError{Entry: e, Now: current}
	}
	if k := j.unexplained(e, current); k != nil {
		return &ConflictError{Entry: e, Now: current, SideEffect: k}
	}
	return nil
}
