package display

import (
	"io"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/tune"
)

// plannedStep is a step that would change something, for machines.
type plannedStep struct {
	plannedKnob
	State  tune.StepState `json:"state"`
	Name   string         `json:"name"`
	Reason string         `json:"why"`
	Note   string         `json:"note,omitempty"`
	Next   []string       `json:"next,omitempty"` // values that a proof tries after this one
}

// PrintTuning prints what a profile would change, what it would not, and why.
func PrintTuning(out io.Writer, profile tune.Profile, planned []tune.Planned, skipped []tune.Skipped, asJSON, all bool) error {
	steps := []plannedStep{}
	for i, k := range plannedKnobs(planned) {
		w := planned[i].Assignment
		s := plannedStep{plannedKnob: k, State: w.Step.State, Name: w.Step.Name, Reason: w.Step.Reason, Note: w.Step.Note}
		if len(w.Ladder) > 1 {
			s.Next = w.Ladder[1:]
		}
		steps = append(steps, s)
	}
	if asJSON {
		return PrintJSON(out, map[string]any{"version": JSONVersion, "profile": profile.Name, "title": profile.Title, "steps": steps, "skipped": append([]tune.Skipped{}, skipped...)})
	}
	sanitize.Fprintf(out, "%s: %s\n", profile.Name, profile.Title)
	if len(steps) > 0 {
		sanitize.Fprintf(out, "\nwould be changed:\n")
	}
	for _, s := range steps {
		sanitize.Fprintf(out, "  %s%s: %s -> %s  [%s]\n", s.Knob, ofTarget(s.Target), shortened(s.Now.Value, 60), s.Value, s.State)
		for _, text := range []string{s.Reason, s.Note} {
			if text != "" {
				sanitize.Fprintf(out, "      %s\n", indentWrapped(text, "      "))
			}
		}
	}
	printSkipped(out, skipped, all)
	if len(steps) == 0 {
		_, err := sanitize.Fprintf(out, "\nnothing would be changed\n")
		return err
	}
	sanitize.Fprintf(out, "\nwhat would be written:\n")
	if err := PrintPlan(out, planned, false); err != nil {
		return err
	}
	_, err := sanitize.Fprintf(out, "\nNothing was changed: --apply makes these changes, all or none.\n")
	return err
}

// printSkipped prints what is left out: how many steps for each reason, or each step.
func printSkipped(out io.Writer, skipped []tune.Skipped, all bool) {
	if len(skipped) == 0 {
		return
	}
	if all {
		sanitize.Fprintf(out, "\nleft out:\n")
		for _, s := range grouped(skipped) {
			sanitize.Fprintf(out, "  %s%s  [%s]\n      %s\n", indentWrapped(s.Step.Name, "    "), ofTarget(s.Target), s.Step.State, indentWrapped(s.Reason, "      "))
		}
		return
	}
	sanitize.Fprintf(out, "\nleft out (each, and why: --all):\n")
	var order []string
	counts := map[string]int{}
	for _, s := range skipped {
		why := whyLeft(s)
		if counts[why]++; counts[why] == 1 {
			order = append(order, why)
		}
	}
	for _, why := range order {
		sanitize.Fprintf(out, "  %3d  %s\n", counts[why], why)
	}
}

// whyLeft is the kind of a reason in words, with what would bring the step in.
func whyLeft(s tune.Skipped) string {
	switch s.Kind {
	case tune.NotNamed:
		if flag := namedBy[s.Step.On]; flag != "" && s.Target == (knob.Target{}) {
			return s.Reason + ": " + flag
		}
		return s.Reason
	case tune.Open:
		return string(s.Kind) + ": --prove"
	}
	return string(s.Kind)
}

// namedBy are the flags that name what steps are of.
var namedBy = map[tune.Group]string{
	tune.Host: "--host", tune.Machines: "--host", tune.Pods: "--netns NETNS",
	tune.NICs: "--dev CARD", tune.Tunnels: "--dev TUNNEL", tune.Veths: "--dev VETH",
	tune.Manifests: "--manifest FILE", tune.Switches: "--db SOCKET", tune.Centrals: "--db SOCKET",
}

// grouped puts steps together that are left out for the same reason: most of
// them, because nothing is named that they are of.
func grouped(skipped []tune.Skipped) (groups []tune.Skipped) {
	at := map[[2]string]int{}
	for _, s := range skipped {
		s.Reason = strings.TrimPrefix(s.Reason, string(s.Step.State)+": ")
		key := [2]string{string(s.Step.State), s.Reason}
		i, known := at[key]
		switch {
		case known && s.Target == (knob.Target{}):
			if names := strings.Split(groups[i].Step.Name, "; "); !slices.Contains(names, s.Step.Name) {
				groups[i].Step.Name += "; " + s.Step.Name
			}
			continue
		case s.Target == (knob.Target{}):
			at[key] = len(groups)
		}
		groups = append(groups, s)
	}
	return groups
}

// ofTarget formats a target to follow the name of a knob.
func ofTarget(t knob.Target) string {
	if text := t.String(); text != "" {
		return " of " + text
	}
	return ""
}

// indentWrapped wraps a text between words and indents all lines but the first.
func indentWrapped(text, margin string) sanitize.Safe {
	return sanitize.Safe(strings.ReplaceAll(string(wrapCell(text)), "\n\t\t\t", "\n"+margin))
}
