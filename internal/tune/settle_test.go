package tune

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/setting"
)

// A switch waits for what it disturbs. What a driver makes anew, as for other channels, takes up to a
// second.
func TestSettleOfBackends(t *testing.T) {
	want := map[string]time.Duration{ // by backend and key; all others take hardly any time
		"channel": time.Second, "ring": time.Second, "pause": time.Second, "privflag": time.Second,
		"link mtu": 500 * time.Millisecond, "link": 100 * time.Millisecond,
		"rss": 200 * time.Millisecond, "qdisc": 50 * time.Millisecond,
		"coalesce": 20 * time.Millisecond, "feature": 20 * time.Millisecond,
	}
	backends := Backends("")
	s := toggles{settings: setting.NewSettings(backends...)}
	for _, b := range backends {
		for _, key := range append(slices.Collect(maps.Keys(b.SettleOf)), "") {
			name := strings.TrimSpace(b.Name + " " + key)
			got := s.settle([]*toggledSetting{{setting: setting.Setting{Backend: b.Name, Key: key}}})
			if least := max(want[name], minSettle); got != least {
				t.Errorf("%s: it waits for %v, want %v", name, got, least)
			}
			delete(want, name)
		}
	}
	for name := range want {
		t.Errorf("there is no backend or key %q", name)
	}
}
