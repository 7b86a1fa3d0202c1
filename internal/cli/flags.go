package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/load"
)

// runFlags are the flags of all commands that leave records.
func runFlags(f *pflag.FlagSet, q *compare.Request) {
	f.Uint64Var(&q.Seed, "seed", 0, "seed of the random order; 0: from the clock (the report names it)")
	f.StringVar(&q.Out, "out", "", "folder for the record (default: a new one below "+compare.RunsFolder+"/)")
	f.BoolVar(&q.Wait, "wait", false, "wait while another run measures instead of failing")
}

// ownCommand is the command line that a record notes.
func ownCommand(env *Env) []string { return append([]string{"venturi"}, env.Args...) }

// number is a whole number on the command line, within bounds. It is 0 when it
// is left out, and cannot be given as 0 unless the bounds allow that.
type number struct {
	to       *int
	min, max int
}

func hostsFlag(to *int) number    { return number{to, lab.DefaultHosts, lab.MaxHosts} }
func servicesFlag(to *int) number { return number{to, 0, lab.MaxServices} }

func (n number) String() string {
	if n.to == nil || *n.to == 0 {
		return ""
	}
	return strconv.Itoa(*n.to)
}

func (n number) Set(text string) error {
	v, err := strconv.Atoi(text)
	if err != nil || v < n.min || v > n.max {
		return fmt.Errorf("give a number from %d to %d", n.min, n.max)
	}
	*n.to = v
	return nil
}

func (n number) Type() string { return "int" }

// share is a part of a whole on the command line: 3%, or 0.03.
type share float64

func (s *share) String() string {
	if *s == 0 {
		return ""
	}
	return load.FormatShare(float64(*s))
}

func (s *share) Set(text string) error {
	v, err := compare.ParseShare(text)
	if err != nil {
		return err
	}
	*s = share(v)
	return nil
}

func (s *share) Type() string { return "share" }

// rateFlag reads something per second.
func rateFlag(to *float64) func(string) error {
	return func(text string) (err error) {
		*to, err = load.ParseRate(text)
		return err
	}
}

// effect is the size of an effect: a share that is more than nothing.
type effect struct{ share *share }

func (e effect) String() string {
	if e.share == nil {
		return ""
	}
	return e.share.String()
}

func (e effect) Set(text string) error {
	var v share
	if err := v.Set(text); err != nil {
		return err
	}
	if v <= 0 || v > 1 {
		return fmt.Errorf("%q is not an effect: it is above 0%% and at most 100%%", text)
	}
	*e.share = v
	return nil
}

func (e effect) Type() string { return e.share.Type() }
