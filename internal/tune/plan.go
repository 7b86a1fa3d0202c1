package tune

import (
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// Planned is what an assignment would come to.
type Planned struct {
	Assignment Assignment
	Now        knob.Reading
	Changes    []Change // none: the knob has the value already
}

// Change is one write that would change what a setting holds.
type Change struct {
	Setting setting.Setting `json:"cell"`
	Old     setting.Value   `json:"old"`
	New     setting.Value   `json:"new"`
}

// DryRun carries assignments out, one after the other, on settings that only remember
// what is written to them: two settings of one file are two changes of it, and
// what a knob refuses is known before anything is changed. Error: the first assignment
// that cannot be.
func DryRun(m knob.Machine, assignments []Assignment) ([]Planned, error) {
	m.Settings = m.Settings.Overlay()
	var all []Planned
	for _, w := range assignments {
		p := Planned{Assignment: w}
		var err error
		if p.Now, err = w.Knob.Get(m, w.Target); err == nil {
			p.Changes, err = dryRun(m, w)
		}
		if err != nil {
			return nil, verr.Wrap(verr.Failed, fmt.Sprintf("cannot set %s to %s", w.Knob.Name, w.Value), err, "nothing was changed")
		}
		all = append(all, p)
	}
	return all, nil
}

// dryRun carries one assignment out on settings that are an overlay, and gives the writes
// that change something.
func dryRun(m knob.Machine, w Assignment) (changes []Change, err error) {
	writes, err := w.Knob.Plan(m, w.Target, w.Value)
	if err != nil {
		return nil, err
	}
	for _, write := range writes {
		old, err := m.Settings.Read(write.Setting)
		if err != nil {
			return nil, err
		}
		if m.Settings.Equivalent(write.Setting, write.Value, old) {
			continue
		}
		if err := m.Settings.Write(write.Setting, write.Value); err != nil {
			return nil, err
		}
		changes = append(changes, Change{write.Setting, old, write.Value})
	}
	return changes, nil
}

// isApplied tells whether all that an assignment would write stands there.
func isApplied(m knob.Machine, w Assignment) (bool, error) {
	m.Settings = m.Settings.Overlay()
	changes, err := dryRun(m, w)
	return err == nil && len(changes) == 0, err
}

// Total puts changes of one setting together: from what it holds now to what it
// would hold in the end, in the order of their first ones.
func Total(planned []Planned) []Change {
	var total []Change
	at := map[string]int{}
	for _, p := range planned {
		for _, c := range p.Changes {
			id := c.Setting.ID()
			if i, known := at[id]; known {
				total[i].New = c.New
				continue
			}
			at[id] = len(total)
			total = append(total, c)
		}
	}
	return total
}

// Diff is the change as a unified diff: of a file by its lines, of any other value
// as a text of its own. It can be shown on a terminal.
func (c Change) Diff() string {
	whole := func(v setting.Value) []byte {
		text := string(v.Data)
		if v.Present && c.Setting.Backend != "file" && !strings.HasSuffix(text, "\n") {
			text += "\n" // else each of them would be told to lack its line end
		}
		return []byte(text)
	}
	name := sanitize.Text(c.Setting.String())
	text := string(diff.Diff(name, whole(c.Old), name, whole(c.New)))
	_, text, _ = strings.Cut(text, "\n") // the first line is a command
	return sanitize.Lines(text)
}
