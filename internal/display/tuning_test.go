package display

import (
	"bytes"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/tune"
)

// A plan says in a line for each reason how many steps it leaves out, and by which flag
// they would come in; all of them, when it is asked to.
func TestPlanFoldsWhatIsLeftOut(t *testing.T) {
	step := func(name string, on tune.Group) tune.Step { return tune.Step{Name: name, On: on, State: tune.NotShown} }
	skipped := []tune.Skipped{
		{Step: step("rings", tune.NICs), Kind: tune.NotNamed, Reason: "no nics are named"},
		{Step: step("channels", tune.NICs), Kind: tune.NotNamed, Reason: "no nics are named"},
		{Step: step("governor", tune.Host), Kind: tune.NotNamed, Reason: "the host as a whole is not named"},
		{Step: step("merging", tune.Veths), Target: knob.Target{Device: "v0"}, Kind: tune.AlreadySet, Reason: "it is on already"},
		{Step: step("merging", tune.Veths), Target: knob.Target{Device: "v1"}, Kind: tune.AlreadySet, Reason: "it is max already"},
		{Step: step("buffers", tune.Pods), Kind: tune.Open, Reason: "which value helps here"},
	}
	for all, want := range map[bool][]string{
		false: {"  2  no nics are named: --dev CARD\n", "  1  the host as a whole is not named: --host\n", "  2  it is so already\n", "only a proof can tell which value helps: --prove\n", "--all"},
		true:  {"rings; channels", "governor", "it is on already", "it is max already", "which value helps here"},
	} {
		var out bytes.Buffer
		if err := PrintTuning(&out, tune.Profile{Name: "x"}, nil, skipped, false, all); err != nil {
			t.Fatal(err)
		}
		for _, text := range want {
			if !strings.Contains(out.String(), text) {
				t.Errorf("all %v: no %q in\n%s", all, text, &out)
			}
		}
	}
	var out bytes.Buffer
	if err := PrintTuning(&out, tune.Profile{Name: "x"}, nil, skipped, true, false); err != nil || strings.Count(out.String(), `"reason"`) != len(skipped) {
		t.Errorf("%v\n%s", err, &out)
	}
}
