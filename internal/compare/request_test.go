package compare

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

func TestParseSizes(t *testing.T) {
	for text, want := range map[string][]int{
		"1":           {1},
		"64":          {64},
		"1k":          {1000},
		"1K":          {1024},
		"1m,1M":       {1000000, 1 << 20},
		"8:64:*2":     {8, 16, 32, 64},
		"8:63:*2":     {8, 16, 32},
		"100:300:100": {100, 200, 300},
		"1,8:16:8":    {1, 8, 16},
		"5:5:1":       {5},
		"1K:4K:1K":    {1024, 2048, 3072, 4096},
	} {
		got, err := ParseSizes(text)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	sweep, err := ParseSizes("8:256K:*2")
	if err != nil || len(sweep) != 16 || sweep[15] != 256<<10 {
		t.Errorf("qperf's sweep: %v, %v", sweep, err)
	}
	for _, text := range []string{"", ",", "0", "-1", "+1", "x", "8:", "8:64", "8:64:", "8:64:*1", "8:64:*0", "8:64:0",
		"64:8:*2", "8:64:*2:3", "1:100:1", "9999999999999", "1KK", "K", "1 2"} {
		if got, err := ParseSizes(text); verr.Code(err) != verr.Usage {
			t.Errorf("%q: %v, %v; want a usage error", text, got, err)
		}
	}
}

func FuzzParseSizes(f *testing.F) {
	for _, s := range []string{"8:256K:*2", "1,2,3", "100:500:100", "1m", ":::", "*"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		sizes, err := ParseSizes(text)
		if err == nil && (len(sizes) == 0 || len(sizes) > mostSizes) {
			t.Errorf("%q gives %d sizes", text, len(sizes))
		}
		for _, n := range sizes {
			if n < 1 {
				t.Errorf("%q gives size %d", text, n)
			}
		}
	})
}

func TestBaseline(t *testing.T) {
	const a, b = "attach:from=ns:x,to=ns:y", "attach:two,from=ns:y,to=ns:x"
	for _, c := range []struct {
		baseline    string
		paths, want []string
	}{
		{"", []string{a, b}, []string{a, b}},
		{"", []string{a}, []string{"host", a}},
		{"", []string{a, b, "host"}, []string{"host", a, b}}, // that is a lab's wire
		{"two", []string{a, b}, []string{b, a}},
		{b, []string{a, b}, []string{b, a}},
		{"host", []string{a, b}, []string{"host", a, b}},
		{"routed", []string{"vxlan", "routed:mtu=1400"}, []string{"routed:mtu=1400", "vxlan"}},
		{"routed", []string{"vxlan"}, []string{"routed", "vxlan"}},
	} {
		r := resolve(t, Request{Paths: c.paths, Baseline: c.baseline})
		if !slices.Equal(r.Paths, c.want) || r.withoutLab != (!slices.Contains(r.Paths, "host") && strings.HasPrefix(r.Paths[0], "attach")) {
			t.Errorf("%q of %v: %v, found %v; want %v", c.baseline, c.paths, r.Paths, r.withoutLab, c.want)
		}
	}
	r := resolve(t, Request{Paths: []string{a, b}})
	if arms := r.Plan().Arms; len(arms) != 3 || arms[0].Name != "attach" || arms[1].Name != "attach.copy" || arms[2].Name != "two" {
		t.Errorf("arms %+v", arms)
	}
}

func TestHostFirst(t *testing.T) {
	for _, c := range []struct{ paths, want []string }{
		{nil, []string{"host", "routed", "vxlan"}},
		{[]string{"vxlan"}, []string{"host", "vxlan"}},
		{[]string{"vxlan", "host", "routed"}, []string{"host", "vxlan", "routed"}},
		{[]string{"host", "host"}, []string{"host", "host"}},
		{[]string{"vxlan:vni=7", "host"}, []string{"host", "vxlan:vni=7"}},
	} {
		if got := resolve(t, Request{Paths: c.paths}).Paths; !slices.Equal(got, c.want) {
			t.Errorf("%v becomes %v, want %v", c.paths, got, c.want)
		}
	}
}

// TestPlan wants the arms and cells that a run would have: names stay with
// their paths, loads have sizes of their own, and no cell comes twice.
func TestPlan(t *testing.T) {
	p, err := Request{
		Paths: []string{"vxlan", "host", "routed"}, Names: []string{"overlay", "", "plain"}, Budget: 2 * time.Minute,
		Cells: []CellSpec{{Load: "tcp_bw"}, {Load: "tcp_bw", Sizes: "32K:128K:*2", Flows: []int{1, 4}}, {Load: "tcp_lat", Sizes: "8,8"}},
	}.Plan()
	if err != nil {
		t.Fatal(err)
	}
	var arms, cells []string
	for _, a := range p.Arms {
		arms = append(arms, a.Name+"="+a.Path)
	}
	for _, c := range p.Cells {
		cells = append(cells, c.Name)
	}
	if want := "host=host host.copy=host overlay=vxlan plain=routed"; strings.Join(arms, " ") != want {
		t.Errorf("arms %v, want %s", arms, want)
	}
	if want := "tcp_bw/65536 tcp_bw/32768 tcp_bw/32768/flows=4 tcp_bw/65536/flows=4 tcp_bw/131072 tcp_bw/131072/flows=4 tcp_lat/8"; strings.Join(cells, " ") != want {
		t.Errorf("cells %v, want %s", cells, want)
	}
	if took := experiment.Duration(p, 1); took > 2*time.Minute || took < time.Minute {
		t.Errorf("%d series of %d rounds take %v of 2m", p.Series, p.Rounds, took)
	}
}

// A load on a schedule has its own rate, or the one that is asked for; its slices hold
// some requests.
func TestRateOfCells(t *testing.T) {
	for _, c := range []struct {
		rate  float64
		names string
		slice time.Duration
	}{{0, "probe/64 ping/56", 100 * time.Millisecond}, {1000, "probe/64 ping/56", 100 * time.Millisecond},
		{2, "probe/64/rate=2 ping/56/rate=2", 2500 * time.Millisecond}, {2500, "probe/64/rate=2.5k ping/56/rate=2.5k", 100 * time.Millisecond}} {
		p, err := Request{Loads: []string{"probe", "ping"}, Rate: c.rate}.Plan()
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, cell := range p.Cells {
			names = append(names, cell.Name)
			if cell.Slice != c.slice || cell.Rate != cmp.Or(c.rate, 1000) || cell.Metric != result.RoundTrip {
				t.Errorf("at %v: %+v", c.rate, cell)
			}
		}
		if strings.Join(names, " ") != c.names {
			t.Errorf("at %v: cells %v, want %s", c.rate, names, c.names)
		}
	}
}

// TestRefused wants what makes no sense refused before root is asked for, with
// the flag or the value in the text.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		q    Request
		text string
	}{
		"path":      {Request{Paths: []string{"nowhere"}}, "nowhere"},
		"load":      {Request{Loads: []string{"tcp_bw", "icmp"}}, "icmp"},
		"sizes":     {Request{Sizes: "8:256K:*0"}, "8:256K:*0"},
		"datagram":  {Request{Loads: []string{"udp_lat"}, Sizes: "64K"}, "65507"},
		"flows":     {Request{Flows: []int{0}}, "--flows"},
		"batch":     {Request{Loads: []string{"tcp_lat"}, Batch: 8}, "--batch"},
		"wire":      {Request{Wire: "tso=perhaps"}, "perhaps"},
		"margin":    {Request{Margin: 2}, "--margin"},
		"precision": {Request{Precision: -1}, "--precision"},
		"slice":     {Request{Slice: time.Millisecond}, "--slice"},
		"services":  {Request{Services: -1}, "--services"},
		"series":    {Request{Series: -1}, "--series"},
		"budget":    {Request{Budget: time.Second}, "--budget"},
		"cells":     {Request{Cells: []CellSpec{{Load: "udp_lat", Sizes: "64K"}}}, "65507"},
		"its flows": {Request{Cells: []CellSpec{{Load: "udp_lat", Flows: []int{9999}}}}, "--flows"},
		"rate":      {Request{Loads: []string{"ping"}, Rate: 20_000}, "--rate"},
		"no rate":   {Request{Loads: []string{"ping", "tcp_lat"}, Rate: 100}, "tcp_lat cannot run with --rate 100"},
		"no slot":   {Request{Loads: []string{"ping"}, Rate: 2, Slice: 100 * time.Millisecond}, "--slice"},
		"schedules": {Request{Loads: []string{"probe"}, Flows: []int{1, 2}}, "probe cannot run with 2 flows"},
		"no number": {Request{Loads: []string{"ping"}, Sizes: "8"}, "at least 16 bytes"},
		"too fast":  {Request{Loads: []string{"tcp_bw"}, Rate: 1e14}, "10 Tb/s"},
		"too slow":  {Request{Loads: []string{"udp_bw"}, Rate: 0.01}, "fewer than 5 messages"},
		"rate with": {Request{Loads: []string{"tcp_bw"}, Rate: 1e9, BesideTools: []string{"iperf3"}, Slice: time.Second}, "leave --rate out"},
		"burst":     {Request{Loads: []string{"udp_bw"}, Rate: 1e5, Batch: 64}, "--batch"},
		"names":     {Request{Paths: []string{"routed", "vxlan"}, Names: []string{"a", "a"}}, `"a"`},
		"tool":      {Request{BesideTools: []string{"ttcp"}}, "ttcp"},
		"tool in VM": {Request{Paths: []string{"vm-vlan", "host"}, NoHost: true, BesideTools: []string{"qperf"}},
			"cannot run qperf beside vm-vlan"},
	} {
		_, err := c.q.Resolve()
		if verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
