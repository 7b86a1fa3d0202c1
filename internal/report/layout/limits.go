package layout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/sanitize"
)

// mostLoads is how many loads a limit names.
const mostLoads = 4

// limitGroup is where the same thing limits figures, on one wire.
type limitGroup struct {
	wire   int // index of the record
	effect string
	loads  []string
	paths  []string // with how far it is so of each
}

// limitTexts say what limits the figures of the tables, for each wire: the paths of a load
// together, and once for the loads in which it is the same.
func (all sources) limitTexts(entries []entry) (out []string) {
	var groups []*limitGroup
	for _, e := range entries {
		if e.inTable && e.Baseline == "" {
			groups = all.addLimits(groups, &e)
		}
	}
	order := map[string]int{}
	for _, g := range groups {
		if _, known := order[g.effect]; !known {
			order[g.effect] = len(order)
		}
	}
	slices.SortStableFunc(groups, func(a, b *limitGroup) int {
		return cmp.Or(cmp.Compare(a.wire, b.wire), cmp.Compare(order[a.effect], order[b.effect]))
	})
	for _, g := range mergeLoads(groups) {
		loads := g.loads
		if more := len(loads) - mostLoads; more > 0 {
			loads = append(slices.Clone(loads[:mostLoads]), fmt.Sprintf("%d more", more))
		}
		out = append(out, all[g.wire].labelWire(fmt.Sprintf("%s: %s: %s", strings.Join(loads, "; "), g.effect, strings.Join(g.paths, ", "))))
	}
	return out
}

// addLimits adds what limits the figure of an entry.
func (all sources) addLimits(groups []*limitGroup, e *entry) []*limitGroup {
	s := all.find(e.Wire)
	if s == nil {
		return groups
	}
	c, r := s.row(s.host, e.Path, e)
	if r == nil {
		return groups
	}
	wire, load := slices.Index(all, s), view.CellName(c.Cell)
	for _, l := range view.Limitations(r, c) {
		i := slices.IndexFunc(groups, func(g *limitGroup) bool { return g.wire == wire && g.effect == l.Effect && g.loads[0] == load })
		if i < 0 {
			i, groups = len(groups), append(groups, &limitGroup{wire: wire, effect: l.Effect, loads: []string{load}})
		}
		groups[i].paths = view.Union(groups[i].paths, []string{sanitize.Text(e.Path) + " (" + l.Amount + ")"})
	}
	return groups
}

// mergeLoads brings loads together in which the same is so of the same paths.
func mergeLoads(groups []*limitGroup) (out []*limitGroup) {
	for _, g := range groups {
		i := slices.IndexFunc(out, func(o *limitGroup) bool {
			return o.wire == g.wire && o.effect == g.effect && slices.Equal(o.paths, g.paths)
		})
		if i < 0 {
			out = append(out, g)
			continue
		}
		out[i].loads = append(out[i].loads, g.loads...)
	}
	return out
}

// missingPlaces are places of a path without a figure, for one reason.
type missingPlaces struct {
	path, reason string
	places       int
}

// missingText says of which paths the tables have no figure, and why; empty: they have all. Of a
// rate that was not held the limits tell.
func missingText(entries []entry) string {
	var all []*missingPlaces
	for _, e := range entries {
		if e.Baseline != "" || !e.inTable || e.measured || e.NotHeld {
			continue
		}
		i := slices.IndexFunc(all, func(m *missingPlaces) bool { return m.path == e.Path && m.reason == e.Missing })
		if i < 0 {
			i, all = len(all), append(all, &missingPlaces{path: e.Path, reason: e.Missing})
		}
		all[i].places++
	}
	var parts []string
	for _, m := range all {
		parts = append(parts, fmt.Sprintf("%s in %s: %s", sanitize.Text(m.path), view.Plural(m.places, "place", "places"), m.reason))
	}
	return strings.Join(parts, "; ")
}
