package tune

import (
	"fmt"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/knob/table"
	"github.com/venturi-net/venturi/internal/search"
)

// SkipKind is the kind of a reason for which a step is left out.
type SkipKind string

// Reasons.
const (
	NotNamed     SkipKind = "nothing of its kind is named"
	LeftToPerson SkipKind = "obsolete, or left to a person"
	OwnedByOther SkipKind = "another program looks after it"
	Unmet        SkipKind = "it needs something else first"
	Unfounded    SkipKind = "what it helps against was not seen here"
	AlreadySet   SkipKind = "it is so already"
	Unable       SkipKind = "it is not there, or cannot be read or set"
	Open         SkipKind = "only a proof can tell which value helps"
	Unmeasurable SkipKind = "nothing that a proof measures would show it"
)

// Skipped is a step that gives no assignment on a target, or on none of its group.
type Skipped struct {
	Step     Step        `json:"step"`
	Target   knob.Target `json:"target,omitzero"` // zero: the machine, or there is no target of its group
	Kind     SkipKind    `json:"reason"`
	Reason   string      `json:"why"`
	Observed string      `json:"seen,omitempty"` // the values for which the step's condition does not hold
}

// pruned are the rows of a proof for steps that were not tried because of what the
// machine's counters and settings say.
func pruned(skipped []Skipped) (rows []search.Row) {
	for _, s := range skipped {
		if s.Observed == "" {
			continue
		}
		w := Assignment{Knob: knob.Entry{Facts: knob.Facts{Name: s.Step.Knob}}, Step: &s.Step}
		row := search.Row{Knob: w.Knob.Name + stepOf(w), Verdict: search.VerdictNotTried, Reason: s.Reason}
		if on := s.Target.String(); on != "" {
			row.Reason = on + ": " + s.Reason
		}
		rows = append(rows, row)
	}
	return rows
}

// absent says that nothing of a group is named, and of network cards why what is named is none.
func (g Group) absent(named Targets) string {
	switch g {
	case Host:
		return "the host as a whole is not named"
	case Machines:
		return "the host's own network namespace is not named"
	case Pods:
		return "no namespaces of pods are named"
	case NICs:
		var others []string
		for kind, targets := range map[string][]knob.Target{"a tunnel": named.Tunnels, "a veth or netkit": named.Veths} {
			for _, t := range targets {
				others = append(others, fmt.Sprintf("%s is %s", t.Device, kind))
			}
		}
		if len(others) > 0 {
			slices.Sort(others)
			return "no nics are named: " + strings.Join(others, ", ")
		}
	}
	return "no " + string(g) + " are named"
}

// Tries is how many changes the profile comes to at most on a path and on what is
// named beside it, as far as that can be told before the path is there.
func (p Profile) Tries(named Targets) (n int) {
	ofPath := []Group{NICs, Tunnels, Veths, Machines, Pods}
	for _, s := range p.Steps {
		entry, err := table.Find(s.Knob)
		if err != nil || s.barred() != "" || entry.ManualOnly != "" || entry.Scope == knob.ScopeManifest {
			continue
		}
		if slices.Contains(ofPath, s.On) || len(named.InGroup(s.On)) > 0 {
			n += max(1, len(s.Ladder))
		}
	}
	return n
}

// measurable parts assignments that a measurement here can judge from those that it
// cannot: of a file nothing comes until somebody applies it, and what ends another
// program, or is its own until then, would have to be so for longer than the moment
// that a proof gives it.
func measurable(all []Assignment) (assignments []Assignment, skipped []Skipped) {
	for _, w := range all {
		s := Skipped{Target: w.Target, Kind: Unmeasurable}
		if w.Knob.Scope == knob.ScopeManifest {
			s.Reason = "a file changes nothing that could be measured here: apply it to a pair of nodes, and compare those"
		} else if s.Reason = tooSlow(w.Knob.Name, all); s.Reason == "" {
			assignments = append(assignments, w)
			continue
		}
		if w.Step != nil {
			s.Step = *w.Step
		}
		skipped = append(skipped, s)
	}
	return assignments, skipped
}

// Settled parts assignments of a value from those of whatever value a proof
// finds to be the best. Of a ladder the first value is taken; where that
// stands already, or cannot be, the next one would be a guess.
func Settled(all []Assignment) (settled []Assignment, open []Skipped) {
	for _, w := range all {
		s := w.Step
		if s.Value == "" && (s.Ladder == nil || w.Value != s.Ladder[0]) {
			open = append(open, Skipped{Step: *s, Target: w.Target, Kind: Open, Reason: "which value helps here, only a proof can tell: " + strings.Join(w.Ladder, ", ")})
			continue
		}
		settled = append(settled, w)
	}
	return settled, open
}
