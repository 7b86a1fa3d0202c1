package tune

import (
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/search"
)

// A candidate that comes without assignments is left out, and the others are switched by
// their own names.
func TestStreamTogglesSwitchByName(t *testing.T) {
	var in strings.Builder
	s := DialToggles(&in, strings.NewReader(`{"candidates":[{"name":"empty","assignments":[]},
		{"name":"listen","assignments":[{"knob":"net.listen","target":{},"value":"8192"}]}]}
		{}`))
	fit, _, err := s.Prepare(t.Context())
	if err != nil || len(fit) != 1 || fit[0].Name != "listen" {
		t.Fatalf("prepared %+v, %v", fit, err)
	}
	if err := s.Switch(t.Context(), search.Subset{0}); err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(in.String()); got != `{"on":["listen"]}` {
		t.Errorf("asked for %s", got)
	}
}
