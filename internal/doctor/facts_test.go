package doctor

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/knob/table"
)

var (
	codeForm  = regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	knobWords = regexp.MustCompile(`\b(venturi knob set|knobs?) ([a-z]+\.[a-z_]+(?:, [a-z]+\.[a-z_]+)*)`)
)

// Every rule says all that there is to say, in the same form.
func TestFacts(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Table {
		if !codeForm.MatchString(r.Code) || seen[r.Code] {
			t.Errorf("code %q is not of the form one-two-three, or there are two of it", r.Code)
		}
		seen[r.Code] = true
		for field, text := range map[string]string{"Title": r.Title, "Looks": r.Looks, "Effect.Size": r.Effect.Size, "Effect.Source": r.Effect.Source} {
			if text == "" || strings.HasSuffix(text, ".") {
				t.Errorf("%s: %s is %q: want words without a full stop", r.Code, field, text)
			}
		}
		if !slices.Contains([]string{"A", "B", "C", "D"}, r.Effect.Grade) {
			t.Errorf("%s: grade %q", r.Code, r.Effect.Grade)
		}
		if !slices.Contains(Severities, r.Severity) {
			t.Errorf("%s: severity %q", r.Code, r.Severity)
		}
		if r.Knob == "" && r.Do == "" {
			t.Errorf("%s says neither which knob mends it nor what to do", r.Code)
		}
		if r.Value != "" && r.Knob == "" {
			t.Errorf("%s has a value for no knob", r.Code)
		}
	}
}

// Every knob that a rule names can be turned, those in its words too.
func TestKnobsExist(t *testing.T) {
	there := map[string]bool{}
	for _, e := range table.All() {
		there[e.Name] = e.Instead == ""
	}
	named := map[string]bool{}
	for _, r := range Table {
		names := []string{r.Knob}
		for _, m := range knobWords.FindAllStringSubmatch(r.Do, -1) {
			names = append(names, strings.Split(m[2], ", ")...)
		}
		for _, name := range names {
			named[name] = true
			if name != "" && !there[name] {
				t.Errorf("%s names knob %q, and there is none of that name", r.Code, name)
			}
		}
	}
	if !named["nic.channels"] || !named["net.backlog"] {
		t.Error("known names were not found: does the test still know how they are written?")
	}
}
