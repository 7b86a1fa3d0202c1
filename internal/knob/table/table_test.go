package table

import (
	"regexp"
	"slices"
	"testing"

	"github.com/venturi-net/venturi/internal/knob"
)

// What a person reads of a knob is there, once.
func TestTableIsComplete(t *testing.T) {
	name := regexp.MustCompile(`^[a-z]+\.[a-z0-9_]+$`)
	known := map[string]bool{}
	count := 0
	for _, s := range Sections() {
		if s.Name == "" || s.Title == "" {
			t.Errorf("section %+v has no name or title", s)
		}
		count += len(s.Entries)
		for _, e := range s.Entries {
			if !name.MatchString(e.Name) {
				t.Errorf("%s: the name is not SECTION.KNOB", e.Name)
			}
			if known[e.Name] {
				t.Errorf("%s is there twice", e.Name)
			}
			known[e.Name] = true
			for what, text := range map[string]string{"title": e.Title, "scope": string(e.Scope), "evidence": e.Evidence, "grade": string(e.Grade)} {
				if text == "" {
					t.Errorf("%s: the %s is missing", e.Name, what)
				}
			}
			if !slices.Contains([]knob.Grade{knob.GradeA, knob.GradeB, knob.GradeC, knob.GradeD}, e.Grade) {
				t.Errorf("%s: there is no grade %s", e.Name, e.Grade)
			}
			if !slices.Contains([]knob.ScopeKind{knob.ScopeMachine, knob.ScopeNetns, knob.ScopeDevice, knob.ScopeSwitch, knob.ScopeManifest}, e.Scope) {
				t.Errorf("%s: there is no scope %s", e.Name, e.Scope)
			}
			if (e.Knob == nil) != (e.Instead != "") {
				t.Errorf("%s: what is obsolete says what to do instead, and has no knob", e.Name)
			}
			if e.Instead == "" && (e.Values == "" || e.Risk == "" || e.Needs == "" || e.Undo == "" || len(e.Helps) == 0) {
				t.Errorf("%s: values, risk, needs, undo or what it helps is missing", e.Name)
			}
		}
	}
	if all := len(All()); all != count || all < 5 {
		t.Errorf("the table has %d knobs, its sections have %d", all, count)
	}
}
