package compare

import (
	"slices"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

func TestParseBeside(t *testing.T) {
	for text, want := range map[string]result.BackgroundLoad{
		"tcp_bw":      {Load: "tcp_bw", Size: 64 << 10, Flows: 1, Cores: "same"},
		"udp_bw@100k": {Load: "udp_bw", Size: 1, Flows: 1, Rate: 1e5, Cores: "same"},
		"udp_bw@50%":  {Load: "udp_bw", Size: 1, Flows: 1, Share: 0.5, Maximum: "udp_bw/1", Cores: "same"},
		"tcp_bw@5G":   {Load: "tcp_bw", Size: 64 << 10, Flows: 1, Rate: 5e9, Cores: "same"},
	} {
		if got, err := ParseBeside(text, ""); err != nil || *got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"tcp_sing", "tcp_lat", "ping@100", "udp_bw@", "udp_bw@many", "udp_bw@0%", "udp_bw@101%", "udp_bw@%", "udp_bw@NaN%", "udp_bw@0", "tcp_bw@1000000G"} {
		if got, err := ParseBeside(text, "same"); verr.Code(err) != verr.Usage {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func TestParseBesideAlone(t *testing.T) {
	if b, err := ParseBeside("", ""); b != nil || err != nil {
		t.Errorf("nothing: %+v, %v", b, err)
	}
	if _, err := ParseBeside("", "other"); verr.Code(err) != verr.Usage {
		t.Errorf("cores alone: %v", err)
	}
	if b, err := ParseBeside("udp_bw", "other"); err != nil || b.Cores != "other" {
		t.Errorf("%+v, %v", b, err)
	}
}

func TestBesideRefused(t *testing.T) {
	for name, c := range map[string]struct {
		q    Request
		text string
	}{
		"no latency": {Request{Loads: []string{"tcp_bw"}}, "tcp_bw beside another load"},
		"tool":       {Request{Loads: []string{"tcp_lat"}, BesideTools: []string{"qperf"}}, "--with"},
		"cores":      {Request{Loads: []string{"ping"}, Background: &result.BackgroundLoad{Load: "udp_bw", Size: 1, Flows: 1, Cores: "some"}}, "--probe-core some"},
	} {
		if c.q.Background == nil {
			c.q.Background = &result.BackgroundLoad{Load: "udp_bw", Size: 1, Flows: 1, Cores: "same"}
		}
		if _, err := c.q.Resolve(); verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	p, err := Request{Loads: []string{"ping"}, Background: &result.BackgroundLoad{Load: "udp_bw", Size: 1, Flows: 1, Rate: 1e5, Cores: "same"}}.Plan()
	if err != nil {
		t.Fatal(err)
	}
	if want := "ping/56/beside=udp_bw/1@100k/cores=same"; p.Cells[0].Name != want {
		t.Errorf("cell %s, want %s", p.Cells[0].Name, want)
	}
}

// A share of the maximum puts the maximum into the plan, once, and before.
func TestShareOfMaximum(t *testing.T) {
	share, err := ParseBeside("udp_bw@50%", "")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Request{Loads: []string{"ping", "probe"}, Background: share}.Plan()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"udp_bw/1", "ping/56/beside=udp_bw/1@50%/cores=same", "probe/64/beside=udp_bw/1@50%/cores=same"}
	if got := cellNames(p); !slices.Equal(got, want) {
		t.Errorf("cells %v, want %v", got, want)
	}
}

func TestCurve(t *testing.T) {
	shares, err := ParseCurve([]string{"50", "0", " 90%", "50"})
	if err != nil || !slices.Equal(shares, []float64{0, 0.5, 0.9}) {
		t.Fatalf("%v, %v", shares, err)
	}
	p, err := Request{Curve: shares}.Plan()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"udp_bw/1", "probe/64", "probe/64/beside=udp_bw/1@50%/cores=same", "probe/64/beside=udp_bw/1@90%/cores=same"}
	if got := cellNames(p); !slices.Equal(got, want) {
		t.Errorf("cells %v, want %v", got, want)
	}
	for _, c := range p.Cells[1:] {
		if c.Curve != "probe/64 beside udp_bw/1" {
			t.Errorf("%s is of curve %q", c.Name, c.Curve)
		}
	}
	for _, points := range [][]string{{"50"}, {"0", "0"}, {"0", "101"}, {"0", "-1"}, {"0", "x"}} {
		if got, err := ParseCurve(points); verr.Code(err) != verr.Usage {
			t.Errorf("%q: %v, %v", points, got, err)
		}
	}
}

func cellNames(p *result.Plan) (names []string) {
	for _, c := range p.Cells {
		names = append(names, c.Name)
	}
	return names
}
