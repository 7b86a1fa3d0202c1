package compare

import (
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

func TestParseBeside(t *testing.T) {
	for text, want := range map[string]result.BackgroundLoad{
		"tcp_bw":      {Load: "tcp_bw", Size: 64 << 10, Flows: 1, Cores: "same"},
		"udp_bw@100k": {Load: "udp_bw", Size: 1, Flows: 1, Rate: 1e5, Cores: "same"},
		"tcp_bw@5G":   {Load: "tcp_bw", Size: 64 << 10, Flows: 1, Rate: 5e9, Cores: "same"},
	} {
		if got, err := ParseBeside(text, ""); err != nil || *got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"tcp_sing", "tcp_lat", "ping@100", "udp_bw@", "udp_bw@many", "udp_bw@0", "tcp_bw@1000000G"} {
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
		"tool":       {Request{Loads: []string{"tcp_lat"}, Tools: []string{"qperf"}}, "--with"},
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
