package compare

import (
	"maps"
	"slices"
	"testing"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/tool"
	"github.com/venturi-net/venturi/result"
)

// The CPU time around a tool is that of each machine's own cores, where machines have such.
func TestToolMeters(t *testing.T) {
	pair := load.Pair{From: host.Endpoint{Machine: "m1"}, To: host.Endpoint{Machine: "m2"}}
	for _, c := range []struct {
		cores map[string][]int
		want  []string
	}{
		{nil, []string{"m1"}},
		{map[string][]int{"m1": {0}, "m2": {0}}, []string{"m1", "m2"}},
	} {
		recorders, err := toolRunner{&tool.Tool{Name: "planted"}, c.cores}.recorders(pair)
		if err != nil {
			t.Fatal(err)
		}
		var machines []string
		for _, rec := range recorders {
			rec.Begin(0)
			rec.End(0)
			for _, m := range rec.Meters() {
				machines = append(machines, m.Machine)
				if cores := coresOf(&m); c.cores != nil && !slices.Equal(cores, []string{"cpu0"}) {
					t.Errorf("%s has the cores %v", m.Machine, cores)
				}
			}
		}
		if !slices.Equal(machines, c.want) {
			t.Errorf("with the cores %v, meters of %v, want %v", c.cores, machines, c.want)
		}
		if err := closeAll(recorders); err != nil {
			t.Error(err)
		}
	}
}

func coresOf(m *result.Meter) []string {
	return slices.Sorted(maps.Keys(maps.Collect(m.Cores("busy"))))
}
