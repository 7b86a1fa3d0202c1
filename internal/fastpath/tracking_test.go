package fastpath_test

import (
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/audit"
)

// The programs take it that rules go by connection tracking until rules were read that do not. With each change, what
// they have learned ends.
func TestTracking(t *testing.T) {
	fast := newFast(t)
	follow, err := fastpath.FollowTracking(fast)
	must(t, err)
	const routed, bridged = 1, 2
	var is uint32
	if must(t, fast.Tracking.Get(&is)); is != routed|bridged {
		t.Errorf("at first the programs take it that %d goes by connection tracking", is)
	}
	tracks := audit.RulesetAudit{Tracks: true}
	for _, c := range []struct {
		name    string
		rules   audit.RulesetAudit
		asks    bool
		sysctl  string
		want    uint32
		changed bool
	}{
		{"none", audit.RulesetAudit{}, false, "", 0, true},
		{"none, a bridge asks", audit.RulesetAudit{}, true, "1\n", 0, false},
		{"some", tracks, false, "", routed, true},
		{"some, no bridge asks", tracks, false, "0\n", routed, false},
		{"some, all bridges ask", tracks, false, "1\n", routed | bridged, true},
		{"some, a bridge asks", tracks, true, "0\n", routed | bridged, false},
		{"some, for bridges", audit.RulesetAudit{Tracks: true, TracksBridged: true}, false, "", routed | bridged, false},
		{"none again", audit.RulesetAudit{}, false, "", 0, true},
	} {
		var before, after uint32
		must(t, fast.Epoch.Get(&before))
		must(t, follow(c.rules, c.asks, c.sysctl))
		must(t, fast.Epoch.Get(&after))
		if must(t, fast.Tracking.Get(&is)); is != c.want || (after != before) != c.changed {
			t.Errorf("%s: the programs take it that %d goes by connection tracking, want %d; what they have learned ends: %v, want %v", c.name, is, c.want, after != before, c.changed)
		}
	}
}
