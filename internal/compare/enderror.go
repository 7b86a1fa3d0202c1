package compare

import (
	"context"
	"strings"

	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// EndError returns the error for how a run ended.
func EndError(ctx context.Context, rec *result.Record) error {
	if rec.End != nil && rec.End.Reason == result.Interrupted {
		return context.Cause(ctx)
	}
	for _, w := range rec.Warnings {
		if w.Code == "arm-failed" || w.Code == "tool-failed" {
			return verr.New(verr.Partial, "path "+w.Arm+" was not measured to the end", warningReason(w.Text),
				"the other paths are reported above; see whether this one is up with: venturi lab up "+sanitize.Shell(armSpec(rec, w.Arm)))
		}
	}
	return nil
}

// warningReason strips from a warning the words that say what became of the arm.
func warningReason(warning string) string {
	for _, before := range []string{"left out from here: ", "left out of this cell from here: "} {
		warning = strings.TrimPrefix(warning, before)
	}
	return warning
}

// armSpec is how a user gives the path of an arm: with its options.
func armSpec(rec *result.Record, arm string) string {
	for _, a := range rec.Plan.Arms {
		switch {
		case a.Name != arm:
		case a.Options == "":
			return a.Path
		default:
			return a.Path + ":" + a.Options
		}
	}
	return arm
}
