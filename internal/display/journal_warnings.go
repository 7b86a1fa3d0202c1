package display

import (
	"fmt"
	"io"

	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/tune"
	"github.com/venturi-net/venturi/internal/verr"
)

// WarnJournal prints what is wrong with a journal: that it is damaged, and
// that trials were not undone when they ended.
func WarnJournal(w io.Writer, h journal.History, folder string) error {
	for _, d := range h.Damaged {
		if d.Acknowledged {
			continue
		}
		sanitize.Fprintf(w, "venturi: the journal of changes is damaged: %s; all other records hold\n", d)
	}
	for _, s := range h.Inconsistent {
		sanitize.Fprintf(w, "venturi: the journal of changes has %s\n", s)
	}
	trials, err := tune.OpenLeases(h, folder)
	for _, t := range trials {
		if why := Overdue(t); why != "" {
			verr.Print(w, verr.New(verr.Failed, fmt.Sprintf("transaction %d is still %s, and nothing undoes it", t.Txn, t.Kind()), why, t.HowToEnd()))
		}
	}
	return err
}

// WarnProofs prints that a proof was killed, to a command that has the journal open for
// changing, so that none runs: what it tried still stands; or, until somebody
// changes something else, that it was undone.
func WarnProofs(w io.Writer, h journal.History) {
	for i, t := range h.Txns {
		switch {
		case !t.OfProof():
		case t.Open():
			sanitize.Fprintf(w, "venturi: a proof was killed, and what it tried still stands (transaction %d); undo it with: venturi undo %[1]d\n", t.ID)
		case !t.Ended && i == len(h.Txns)-1 && len(t.Entries) > 0:
			sanitize.Fprintf(w, "venturi: a proof was killed, and what it tried was undone (transaction %d); see it with: venturi journal %[1]d\n", t.ID)
		}
	}
}
