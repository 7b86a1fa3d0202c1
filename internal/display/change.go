package display

import (
	"fmt"
	"io"
	"time"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/sanitize"
)

// CommitResult is the JSON form of what was changed.
type CommitResult struct {
	Transactions              // none: nothing had to be changed
	Knobs        []KnobChange `json:"knobs"`
	Undo         string       `json:"undo,omitempty"`    // the command for it
	Confirm      string       `json:"confirm,omitempty"` // of a trial
}

// KnobChange is the value of a knob before and after.
type KnobChange struct {
	Knob   string       `json:"knob"`
	Target knob.Target  `json:"target,omitzero"`
	Old    knob.Reading `json:"old"`
	New    knob.Reading `json:"new"`
}

func (d CommitResult) Print(out io.Writer, trial time.Duration) error {
	w := columns(out)
	for _, k := range d.Knobs {
		change := fmt.Sprintf("%s -> %s", k.Old.Value, k.New.Value)
		if k.Old.Value == k.New.Value {
			change = k.New.Value + " already"
		}
		sanitize.Fprintf(w, "%s\t%s\t%s\n", k.Knob, change, k.Target)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	told := map[string]bool{}
	for _, k := range d.Knobs {
		if note := k.New.Note; note != "" && !told[note] {
			told[note] = true
			sanitize.Fprintf(out, "  %s: %s\n", k.Knob, indentWrapped(note, "    "))
		}
	}
	switch {
	case len(d.Txns) == 0:
		sanitize.Fprintf(out, "nothing had to be changed\n")
	case d.Confirm != "":
		sanitize.Fprintf(out, "on trial for %s; keep it with: %s; undo it before with: %s\n", trial, d.Confirm, d.Undo)
	default:
		sanitize.Fprintf(out, "undo with: %s\n", d.Undo)
	}
	return nil
}
