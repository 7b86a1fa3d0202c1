package bench

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/manypods"
	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/testenv/comparetest"
)

// Each node has the limits that it should have, and each of them is missed by the figure that it is of.
func TestPodsLimits(t *testing.T) {
	good := manypods.Figures{First: 100 * time.Millisecond, All: 2 * time.Second, Idle: 0.0049, Memory: 39 * megabyte}
	for _, n := range defaultPods().nodes {
		want := 2
		for _, limit := range []time.Duration{n.first, n.all} {
			if limit > 0 {
				want++
			}
		}
		missed := func(f manypods.Figures) (texts []string) {
			limits := n.requirements(fastpath.VXLAN, f)
			if len(limits) != want {
				t.Errorf("%d pods: %d limits, want %d", n.pods, len(limits), want)
			}
			for _, l := range limits {
				if !l.Holds {
					texts = append(texts, l.Text)
				}
			}
			return texts
		}
		if texts := missed(good); len(texts) > 0 {
			t.Errorf("missed with good figures: %q", texts)
		}
		for says, spoil := range map[string]func(f *manypods.Figures){
			"first pod": func(f *manypods.Figures) { f.First += time.Millisecond },
			"all pods":  func(f *manypods.Figures) { f.All += time.Millisecond },
			"idle":      func(f *manypods.Figures) { f.Idle = 0.01 },
			"MB":        func(f *manypods.Figures) { f.Memory = 60 * megabyte },
		} {
			f := good
			spoil(&f)
			has := says != "first pod" && says != "all pods" || says == "first pod" && n.first > 0 || says == "all pods" && n.all > 0
			texts := missed(f)
			if has != (len(texts) == 1) || has && !strings.Contains(texts[0], says) {
				t.Errorf("%d pods, spoilt %s: missed %q", n.pods, says, texts)
			}
		}
	}
}

// The median of some starts is judged, figure by figure.
func TestPodsMedians(t *testing.T) {
	got := medians([]manypods.Figures{
		{First: 3, All: 30, CPU: 1, Idle: 0.1, Memory: 7, Private: 1}, {First: 1, All: 50, CPU: 2, Idle: 0.3, Memory: 5, Private: 3}, {First: 9, All: 40, CPU: 3, Idle: 0.2, Memory: 6, Private: 2},
	})
	if want := (manypods.Figures{First: 3, All: 40, CPU: 2, Idle: 0.2, Memory: 6, Private: 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Daemons are started on nodes of both kinds, and measured; how fast they are is judged on a quiet machine.
func TestPodsShort(t *testing.T) {
	h := comparetest.Host(t)
	if answer, err := feature.Programs.Ask(); answer != feature.Yes {
		t.Skipf("this kernel has no fast path: %v", err)
	}
	c := defaultPods()
	c.nodes, c.starts, c.idle = []podsNode{{pods: 20, peers: 3, memory: 1}}, 2, 100*time.Millisecond
	var out bytes.Buffer
	limits, err := c.check(t.Context(), &out, h)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", out.String())
	if len(limits) != 4 {
		t.Errorf("%d limits, want those of idleness and memory, of both kinds: %v", len(limits), limits)
	}
	for _, l := range limits {
		if strings.Contains(l.Text, "MB") && l.Holds {
			t.Errorf("a daemon takes next to no memory: %s", l.Text)
		}
	}
}
