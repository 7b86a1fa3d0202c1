package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/venturi-net/venturi/internal/fastpath"
)

// counterKinds are kinds of counters on the command line. Once they are given they are not nil, even
// if there are none.
type counterKinds struct{ to *[]string }

// noCounters stands for no kind at all.
const noCounters = "none"

// keepCountersFlag adds --keep-counters.
func keepCountersFlag(f *pflag.FlagSet, to *[]string) {
	f.Var(counterKinds{to}, "keep-counters", fmt.Sprintf("carry nothing while counters of these kinds would miss packets: %s (separated by commas), or %s (default: none)", strings.Join(fastpath.CounterKinds, ", "), noCounters))
	f.Lookup("keep-counters").NoOptDefVal = strings.Join(fastpath.PurposefulCounters, ",")
}

func (k counterKinds) String() string {
	if k.to == nil {
		return ""
	}
	return strings.Join(*k.to, ",")
}

func (k counterKinds) Set(text string) error {
	if *k.to != nil {
		return errors.New("it is given twice: write all kinds after one \"=\", separated by commas")
	}
	kinds := []string{}
	if text == noCounters {
		*k.to = kinds
		return nil
	}
	for kind := range strings.SplitSeq(text, ",") {
		if !slices.Contains(fastpath.CounterKinds, kind) {
			return fmt.Errorf("unknown kind %q: use %s, separated by commas, or %s", kind, strings.Join(fastpath.CounterKinds, ", "), noCounters)
		}
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	*k.to = kinds
	return nil
}

func (k counterKinds) Type() string { return "kinds" }
