package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/unit"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/result"
)

// Outcomes are what becomes of packets that a fast path's programs see, in the order
// of the report. A reason that is not here is shown by its key.
var Outcomes = []struct{ Key, Text string }{
	{"carried_out", "carried out of its pod"},
	{"carried_in", "carried into its pod"},
	{"slow_no_daemon", "slow: the fast path is off"},
	{"slow_unknown", "slow: its flow is not known yet"},
	{"slow_unproven", "slow: waits for an answer, or to be forwarded this way"},
	{"slow_full", "slow: no room in the table of flows"},
	{"slow_flags", "slow: opens or ends a connection"},
	{"slow_stale", "slow: rules or addresses changed since"},
	{"slow_size", "slow: too large for the path"},
	{"slow_fragment", "slow: a fragment"},
	{"slow_protocol", "slow: neither TCP nor UDP"},
	{"slow_not_ipv4", "slow: not IPv4"},
	{"slow_not_ipv6", "slow: not IPv6"}, // of a fast path for IPv6
	{"slow_options", "slow: has options"},
	{"slow_ttl", "slow: TTL expires here"},
	{"slow_ecn", "slow: congestion marked on the path"},
	{"slow_checksum", "slow: its outer header has a checksum"},
	{"slow_encapsulated", "slow: already has tunnel headers"},
	{"slow_source", "slow: unexpected source"},
}

// Outcome says in words what a key of the packets of an [analysis.FastPath] means.
func Outcome(key string) string {
	for _, f := range Outcomes {
		if f.Key == key {
			return f.Text
		}
	}
	return sanitize.Text(strings.ReplaceAll(key, "_", " "))
}

// ByOutcome lists the keys of the packets that there were, in the order of Outcomes.
func ByOutcome(f *analysis.FastPath) []string {
	place := func(key string) int {
		for i := range Outcomes {
			if Outcomes[i].Key == key {
				return i
			}
		}
		return len(Outcomes)
	}
	keys := slices.DeleteFunc(slices.Collect(maps.Keys(f.Packets)), func(key string) bool { return f.Packets[key] == 0 })
	slices.SortFunc(keys, func(a, b string) int { return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a, b)) })
	return keys
}

// FastBlock shows for each load what became of the packets of each path with a fast
// path; false: there is none.
func FastBlock(s *analysis.Summary) (Block, bool) {
	b := Block{Name: "fast path", Caption: "what became of the packets that its programs saw, on both machines",
		Columns: []Column{{"load", true, 0}, {"path", true, 0}, {"packets", true, 0}, {"number", false, 0}, {"share", false, 0}}}
	ways := slices.ContainsFunc(s.Cells, func(c analysis.Cell) bool {
		return slices.ContainsFunc(c.Rows, func(r analysis.Row) bool { return r.FastPath != nil && r.FastPath.SlowIngress != nil })
	})
	if ways {
		b.Columns = append(b.Columns, Column{"out of pods", false, 0}, Column{"into pods", false, 0})
	}
	for _, c := range s.Cells {
		load := CellName(c.Cell)
		for _, r := range c.Rows {
			if r.FastPath == nil {
				continue
			}
			name := sanitize.Text(r.Arm.Name)
			add := func(what, number, share, out, into string) {
				b.Rows = append(b.Rows, []string{load, name, what, number, share, out, into}[:len(b.Columns)])
				load, name = "", ""
			}
			seen := r.FastPath.Total()
			for _, key := range ByOutcome(r.FastPath) {
				n := r.FastPath.Packets[key]
				out, into := "", ""
				if of, told := r.FastPath.SlowIngress[key]; told {
					out, into = unit.Count(n-of), unit.Count(of)
				}
				add(Outcome(key), unit.Count(n), unit.Percent(float64(n)/float64(max(seen, 1))), out, into)
			}
			if seen == 0 {
				add("none were seen", "0", "", "", "")
			}
			add("flows in its table at most", unit.Count(r.FastPath.Flows), "", "", "")
		}
	}
	return b, len(b.Rows) > 0
}

// NoFastPath is said when what became of packets is asked for, and nothing is known.
const NoFastPath = "No path of this record has a fast path, or what it carried was not recorded."

const (
	// mostlySlow is the share carried below which a figure is not that of a fast
	// path.
	mostlySlow = 0.5
	// slowNamed is how many loads are named for each path.
	slowNamed = 4
)

// slowBanners warn of each path whose fast path did not carry most of the packets:
// whoever compares it measured the path below it.
func slowBanners(rec *result.Record, s *analysis.Summary) (out []string) {
	for _, arm := range rec.Plan.Arms {
		var loads []string
		for i := range s.Cells {
			for _, r := range s.Cells[i].Rows {
				if f := r.FastPath; r.Arm.Name == arm.Name && f != nil && f.Carried < mostlySlow {
					loads = append(loads, fmt.Sprintf("%s (%s%s)", CellName(s.Cells[i].Cell), unit.Percent(f.Carried), mostOf(f)))
				}
			}
		}
		if len(loads) == 0 {
			continue
		}
		if more := len(loads) - slowNamed; more > 0 {
			loads = append(loads[:slowNamed], fmt.Sprintf("%d more", more))
		}
		text := fmt.Sprintf("MOSTLY SLOW: the fast path of %s carried less than half of the packets in %s. It is mostly the path below it that was measured there.",
			sanitize.Text(arm.Name), strings.Join(loads, ", "))
		out = append(out, text)
	}
	return out
}

// mostOf says why most of the packets were slow that were.
func mostOf(f *analysis.FastPath) string {
	most := ""
	for _, key := range ByOutcome(f) {
		if strings.HasPrefix(key, "slow_") && (most == "" || f.Packets[key] > f.Packets[most]) {
			most = key
		}
	}
	if most == "" {
		return "; its programs saw no packets"
	}
	return "; most are " + Outcome(most)
}
