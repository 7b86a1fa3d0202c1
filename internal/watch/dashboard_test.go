package watch

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// dashboard is what Grafana reads of its JSON, as far as ours uses it.
type dashboard struct {
	UID           string `json:"uid"`
	Title         string `json:"title"`
	SchemaVersion int    `json:"schemaVersion"`
	Panels        []struct {
		ID          int
		Type, Title string
		Datasource  datasource
		GridPos     struct{ X, Y, W, H int }
		Targets     []struct {
			RefID      string `json:"refId"`
			Datasource datasource
			Expr       string
		}
	}
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
	Annotations struct {
		List []struct {
			Datasource datasource
			Expr       string
		}
	}
}

type datasource struct{ Type, UID string }

var (
	metricInQuery = regexp.MustCompile(`(venturi_\w+)(?:\{([^}]*)\})?`)
	labelInQuery  = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)`)
	varInQuery    = regexp.MustCompile(`\$(\w+)`)
)

// Every query of the dashboard asks for metrics and labels that a service has, and its
// panels fit the grid without lying over each other.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("../../contrib/grafana/venturi.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	if d.UID == "" || d.Title == "" || d.SchemaVersion < 30 || len(d.Panels) < 5 {
		t.Errorf("uid %q, title %q, schema %d, %d panels", d.UID, d.Title, d.SchemaVersion, len(d.Panels))
	}
	metrics, variables, queries := gathered(t), map[string]bool{}, []string{}
	for _, v := range d.Templating.List {
		variables[v.Name] = true
		if v.Type == "query" {
			queries = append(queries, v.Definition)
		}
	}
	for _, a := range d.Annotations.List {
		queries = append(queries, a.Expr)
	}
	types, ids, taken := []string{"timeseries", "stat", "table"}, map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if !slices.Contains(types, p.Type) || p.Title == "" || ids[p.ID] || len(p.Targets) == 0 || p.Datasource.UID != "${datasource}" {
			t.Errorf("panel %d %q of type %q on %q, with %d targets", p.ID, p.Title, p.Type, p.Datasource.UID, len(p.Targets))
		}
		ids[p.ID] = true
		if p.GridPos.X+p.GridPos.W > 24 || p.GridPos.W < 1 || p.GridPos.H < 1 {
			t.Errorf("panel %q is out of the grid", p.Title)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if taken[at] != "" {
					t.Fatalf("panel %q lies over %q", p.Title, taken[at])
				}
				taken[at] = p.Title
			}
		}
		for _, target := range p.Targets {
			if target.RefID == "" || target.Datasource != p.Datasource {
				t.Errorf("panel %q has a target without a name or data source", p.Title)
			}
			queries = append(queries, target.Expr)
		}
	}
	for _, q := range queries {
		checkQuery(t, q, metrics, variables)
	}
}

func checkQuery(t *testing.T, query string, metrics map[string]map[string]bool, variables map[string]bool) {
	t.Helper()
	found := metricInQuery.FindAllStringSubmatch(query, -1)
	if len(found) == 0 {
		t.Errorf("query %q asks for no metric of ours", query)
	}
	for _, m := range found {
		labels, known := metrics[m[1]]
		if !known {
			t.Errorf("query %q: there is no metric %s", query, m[1])
		}
		for _, l := range labelInQuery.FindAllStringSubmatch(m[2], -1) {
			if !labels[l[1]] {
				t.Errorf("query %q: %s has no label %s", query, m[1], l[1])
			}
		}
	}
	for _, v := range varInQuery.FindAllStringSubmatch(query, -1) {
		if !variables[v[1]] {
			t.Errorf("query %q: there is no variable %s", query, v[1])
		}
	}
	if strings.Count(query, "(") != strings.Count(query, ")") || strings.Count(query, "{") != strings.Count(query, "}") {
		t.Errorf("query %q is not closed", query)
	}
}
