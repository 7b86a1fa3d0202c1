package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/knob/table"
	"github.com/venturi-net/venturi/internal/tune"
	"github.com/venturi-net/venturi/internal/verr"
)

// nearestFlag finds the flag that was probably meant in the text of an
// "unknown flag" error; empty if none is near.
func nearestFlag(cmd *cobra.Command, text string) string {
	_, typed, found := strings.Cut(text, "unknown flag: --")
	if !found {
		return ""
	}
	best, bestDistance := "", 3 // two typing errors at most
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		d := distance(typed, f.Name)
		if strings.HasPrefix(f.Name, typed) && len(typed) > 1 {
			d = 1
		}
		if d < bestDistance {
			best, bestDistance = f.Name, d
		}
	})
	return best
}

// nearestName finds the name that was probably meant; empty if none is near.
func nearestName(typed string, names []string) string {
	best, bestDistance := "", 3 // two typing errors at most
	for _, name := range names {
		if d := distance(typed, name); d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best
}

// findKnob is [knob.Find], and knows what was probably meant.
func findKnob(name string) (knob.Entry, error) {
	e, err := table.Find(name)
	var names []string
	for _, k := range table.All() {
		names = append(names, k.Name)
	}
	return e, didYouMean(err, nearestName(name, names))
}

// findProfile is [tune.FindProfile], and knows what was probably meant.
func findProfile(name string) (tune.Profile, error) {
	var names []string
	for _, p := range tune.Profiles() {
		names = append(names, p.Name)
	}
	if name == "" {
		return tune.Profile{}, verr.New(verr.Usage, "cannot tune", "no profile is named", "name one with --profile: "+strings.Join(names, ", "))
	}
	p, err := tune.FindProfile(name)
	return p, didYouMean(err, nearestName(name, names))
}

// didYouMean adds a name that is near to an error about one that is not there.
func didYouMean(err error, near string) error {
	v := new(verr.Error)
	if near == "" || !errors.As(err, &v) || v.Code != verr.Usage {
		return err
	}
	return verr.New(v.Code, v.Summary, v.Reason, fmt.Sprintf("did you mean %s? If not, %s", near, v.Hint))
}

// distance is the number of letters to insert, delete or replace to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
