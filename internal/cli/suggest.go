package cli

import (
	"regexp"
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
	if typed == "dry-run" && cmd.Flags().Lookup("plan") != nil {
		return "plan" // what other programs call it
	}
	best, bestDistance := "", 3 // two typing errors at most
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		d := verr.Distance(typed, f.Name)
		if strings.HasPrefix(f.Name, typed) && len(typed) > 1 {
			d = 1
		}
		if d < bestDistance {
			best, bestDistance = f.Name, d
		}
	})
	return best
}

var (
	exclusiveFlags = regexp.MustCompile(`^if any flags in the group .* none of the others can be; \[(.*)\] were all set$`)
	argumentCount  = regexp.MustCompile(`^(?:requires|accepts) (at least |at most )?(\d+) arg\(s\), (?:only )?received (\d+)$`)
)

// plainUsage says in plain words what cobra says about flags that exclude each other and about the
// number of arguments; all else stays as it is.
func plainUsage(cmd *cobra.Command, why string) string {
	if m := exclusiveFlags.FindStringSubmatch(why); m != nil {
		return "--" + strings.Join(strings.Fields(m[1]), " and --") + " exclude each other"
	}
	if m := argumentCount.FindStringSubmatch(why); m != nil {
		noun := "arguments"
		if m[2] == "1" {
			noun = "argument"
		}
		return "it takes " + m[1] + m[2] + " " + noun + ", and got " + m[3] + ": " + cmd.UseLine()
	}
	return why
}

// findKnob is [table.Find], and knows what was probably meant.
func findKnob(name string) (knob.Entry, error) {
	e, err := table.Find(name)
	var names []string
	for _, k := range table.All() {
		names = append(names, k.Name)
	}
	return e, verr.Suggest(err, verr.Nearest(name, names))
}

// findProfile is [tune.FindProfile], and knows what was probably meant.
func findProfile(name string) (tune.Profile, error) {
	var names []string
	for _, p := range tune.Profiles() {
		names = append(names, p.Name)
	}
	if name == "" {
		return tune.Profile{}, verr.New(verr.Usage, "cannot tune", "no profile is given", "choose one with --profile: "+strings.Join(names, ", "))
	}
	p, err := tune.FindProfile(name)
	return p, verr.Suggest(err, verr.Nearest(name, names))
}
