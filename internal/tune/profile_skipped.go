package tune

import (
	"slices"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/search"
)

// Reason is the kind of a reason for which a step is left out.
type Reason string

// Reasons.
const (
	Unnamed      Reason = "nothing of its kind is named"
	LeftToPerson Reason = "obsolete, or left to a person"
	Owned        Reason = "another program looks after it"
	Unmet        Reason = "it needs something else first"
	Unfounded    Reason = "what it helps against was not seen here"
	Already      Reason = "it is so already"
	Unable       Reason = "it is not there, or cannot be read or set"
	Open         Reason = "only a proof can tell which value helps"
	Unmeasurable Reason = "nothing that a proof measures would show it"
)

// Skipped is a step that gives no wish on a target, or on none of its group.
type Skipped struct {
	Step   Step        `json:"step"`
	Target knob.Target `json:"target,omitzero"` // zero: the machine, or there is no target of its group
	Reason Reason      `json:"reason"`
	Why    string      `json:"why"`
	Seen   string      `json:"seen,omitempty"` // the values for which the step's condition does not hold
}

// Pruned are the rows of a proof for steps that were not tried because of what the
// machine's counters and settings say.
func Pruned(skipped []Skipped) (rows []search.Row) {
	for _, s := range skipped {
		if s.Seen == "" {
			continue
		}
		w := Wish{Knob: knob.Entry{Facts: knob.Facts{Name: s.Step.Knob}}, Step: &s.Step}
		row := search.Row{Knob: w.Knob.Name + stepOf(w), Verdict: search.NotTried, Why: s.Why}
		if on := s.Target.String(); on != "" {
			row.Why = on + ": " + s.Why
		}
		rows = append(rows, row)
	}
	return rows
}

// absent says that nothing of a group is named.
func (g Group) absent() string {
	if g == Host {
		return "the machine as a whole is not named"
	}
	return "no " + string(g) + " are named"
}

// Tries is how many changes the profile comes to at most on a path and on what is
// named beside it, as far as that can be told before the path is there.
func (p Profile) Tries(named Targets) (n int) {
	ofPath := []Group{NICs, Tunnels, Veths, Machines, Pods}
	for _, s := range p.Steps {
		entry, err := knob.Find(s.Knob)
		if err != nil || s.barred() != "" || entry.Never != "" || entry.Scope == knob.ScopeManifest {
			continue
		}
		if slices.Contains(ofPath, s.On) || len(named.of(s.On)) > 0 {
			n += max(1, len(s.Ladder))
		}
	}
	return n
}

// Measurable parts wishes that a measurement here can judge from those that it
// cannot: of a file nothing comes until somebody applies it, and what ends another
// program, or is its own until then, would have to be so for longer than the moment
// that a proof gives it.
func Measurable(all []Wish) (wishes []Wish, skipped []Skipped) {
	for _, w := range all {
		s := Skipped{Target: w.Target, Reason: Unmeasurable}
		if w.Knob.Scope == knob.ScopeManifest {
			s.Why = "a file changes nothing that could be measured here: apply it to a pair of nodes, and compare those"
		} else if s.Why = tooSlow(w.Knob.Name, all); s.Why == "" {
			wishes = append(wishes, w)
			continue
		}
		if w.Step != nil {
			s.Step = *w.Step
		}
		skipped = append(skipped, s)
	}
	return wishes, skipped
}
