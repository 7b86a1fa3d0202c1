package compare

import (
	"fmt"
	"testing"
)

// What cannot be read on both machines is said once.
func TestMissingFacts(t *testing.T) {
	var f missingFacts
	f.add("a", []string{"no rules", "no devices"})
	f.add("b", []string{"no rules"})
	if got, want := fmt.Sprint(f.warnings()), "[{fact-missing a and b: no rules  } {fact-missing a: no devices  }]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
