package study

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/report/layout"
	"github.com/venturi-net/venturi/internal/verr"
)

// good is a study with every key.
const good = `name: my-overlay
title: My overlay against plain routes
question: >-
  Is it
  slower?
source: a write-up
machines: {hosts: 2, services: 10, cores: {m1: "0,2", m2: 1}}
wires:
  - {name: hw, options: {tso: on, mtu: 1400}}
  - {name: sw, options: "tso=off"}
paths:
  - path: routed
  - {name: mine, path: vxlan, options: {vni: 42, csum: off}}
  - {name: base, path: host}
loads:
  - load: tcp_lat
  - {load: tcp_bw, sizes: 8:256K:*2, flows: [1, 8]}
  - {load: tcp_rr, response: 16K, emulated: no}
budget: 10m
emulated-budget: 40m
margin: 5%
tables:
  - title: By message size
    rows: [load, path, flows]
    columns: size
    paths: [mine, base, routed]
    baseline: routed
    figures:
      - {name: bw, load: tcp_bw, sizes: "8,1K", flows: "1,8", unit: MB/s}
      - {load: tcp_bw, sizes: 1K, show: retransmits}
  - title: Latency
    rows: path
    figures:
      - load: tcp_lat
  - title: Answers
    rows: path
    figures:
      - {load: tcp_rr, response: 16K}
`

func TestParse(t *testing.T) {
	s, err := Parse("good.yaml", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != "my-overlay" || s.Question != "Is it slower?" || s.Hosts != 2 || s.Services != 10 || s.Budget != 10*time.Minute || s.Margin != 0.05 || s.Cores != "m1=0,2 m2=1" {
		t.Errorf("%+v", s)
	}
	if want := []Path{{"base", "host"}, {"routed", "routed"}, {"mine", "vxlan:vni=42,csum=off"}}; !slices.Equal(s.Paths, want) {
		t.Errorf("paths %v, want %v", s.Paths, want)
	}
	if want := []Wire{{"hw", "tso=on,mtu=1400"}, {"sw", "tso=off"}}; !slices.Equal(s.Wires, want) {
		t.Errorf("wires %v, want %v", s.Wires, want)
	}
	table := s.Tables[0]
	if !slices.Equal(table.Rows, []layout.Axis{"load", "path", "flows"}) || !slices.Equal(table.Columns, []layout.Axis{"size"}) || table.Baseline != "routed" {
		t.Errorf("table %+v", table)
	}
	bw, again, lat := table.Figures[0], table.Figures[1], s.Tables[1].Figures[0]
	if !slices.Equal(bw.Sizes, []int{8, 1024}) || !slices.Equal(bw.Flows, []int{1, 8}) || bw.Unit != "MB/s" || bw.Retransmits {
		t.Errorf("figure %+v", bw)
	}
	if !again.Retransmits || again.Unit != "" || lat.Unit != "us" || !slices.Equal(lat.Sizes, []int{1}) {
		t.Errorf("figures %+v and %+v", again, lat)
	}
	if answers := s.Tables[2].Figures[0]; s.Loads[2].Response != 16<<10 || answers.Response != 16<<10 {
		t.Errorf("answers of %d bytes, shown are %d", s.Loads[2].Response, answers.Response)
	}
	if !slices.Equal(s.Tables[1].Paths, []string{"base", "routed", "mine"}) {
		t.Errorf("a table that names no paths has %v", s.Tables[1].Paths)
	}
}

// TestRequests wants one comparison a wire, and the budget shared among them.
func TestRequests(t *testing.T) {
	s, err := Parse("good.yaml", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	all := s.Requests()
	if len(all) != 2 || all[0].Wire != "tso=on,mtu=1400" || all[1].Wire != "tso=off" {
		t.Fatalf("%+v", all)
	}
	for _, q := range all {
		if q.Budget != 5*time.Minute || q.Margin != 0.05 || q.Services != 10 || q.Hosts != 2 || q.Cores != "m1=0,2 m2=1" {
			t.Errorf("%+v", q)
		}
		p, err := q.Plan()
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Arms) != 4 || len(p.Cells) != 34 || p.Arms[0].Name != "base" || p.Arms[3].Name != "mine" {
			t.Errorf("arms %+v, %d cells", p.Arms, len(p.Cells))
		}
	}
	if got := s.Folders("run"); !slices.Equal(got, []string{"run/hw", "run/sw"}) {
		t.Errorf("folders %v", got)
	}
	s.Wires = s.Wires[:1]
	if got := s.Folders("run"); !slices.Equal(got, []string{"run"}) {
		t.Errorf("folders of one wire %v", got)
	}
}

// TestRefused changes one line of the good study, and wants that line named.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ name, old, new, why string }{
		{"unknown key", "source: a", "sauce: a", `there is no key "sauce" here`},
		{"unknown key below", "baseline: routed", "basis: routed", `there is no key "basis" here`},
		{"unknown key of a figure", "show: retransmits", "shows: retransmits", `there is no key "shows" here`},
		{"key twice", "source: a", "name: a", `the key "name" is there twice`},
		{"no YAML", "source: a", "source: [a", "it is not YAML"},
		{"a list for a word", "source: a write-up", "source: [a]", "one value is wanted"},
		{"a word for a list", "machines: {hosts: 2, services: 10, cores: {m1: \"0,2\", m2: 1}}", "machines: lots", "a map of keys is wanted"},
		{"a name", "name: my-overlay", "name: My Overlay", `"My Overlay" cannot be a name`},
		{"no title", "title: My overlay against plain routes", "title:", "the study has no title"},
		{"hosts", "hosts: 2", "hosts: 1", `hosts is "1", not a number from 2`},
		{"services", "services: 10", "services: many", `services is "many", not a number`},
		{"cores", "m2: 1", "m2: x", "machine m2 has no cores"},
		{"cores of one machine", ", m2: 1}", "}", "machine m2 has no cores"},
		{"cores of two machines", "m2: 1", "m2: 0", "core 0 is that of m1 and of m2"},
		{"cores of a third machine", "m2: 1", "m2: 1, m3: 3", "the lab has no machine \"m3\""},
		{"response", "{load: tcp_rr, response: 16K, emulated: no}\nbudget", "{load: tcp_rr, response: many}\nbudget", `"many" is not a number of bytes`},
		{"several responses", "{load: tcp_rr, response: 16K, emulated: no}\nbudget", "{load: tcp_rr, response: '1,2'}\nbudget", "all answers have the same size"},
		{"response of a stream", "{load: tcp_rr, response: 16K, emulated: no}\nbudget", "{load: tcp_bw, response: 16K}\nbudget", "tcp_bw"},
		{"response of a figure", "      - {load: tcp_rr, response: 16K}\n", "      - {load: tcp_rr, response: 8K}\n", "tcp_rr/1/response=8192 is shown and not measured"},
		{"tool-time", "margin: 5%", "tool-time: soon", `the tool-time is "soon"`},
		{"tool-time without a tool", "margin: 5%", "tool-time: 10s", "none is named"},
		{"wire", "tso=off", "tso=perhaps", "tso is"},
		{"wire without a name", "name: sw, ", "", "this wire has no name"},
		{"wires of one name", "name: sw", "name: hw", "two wires are called hw"},
		{"a wire too narrow", "mtu: 1400", "mtu: 9", "mtu"},
		{"driver", "path: routed", "path: warp", `unknown path "warp"`},
		{"option", "vni: 42", "vin: 42", `vxlan has no option "vin"`},
		{"option out of range", "vni: 42", "vni: 0", `vni is "0"`},
		{"option twice", "{name: mine, path: vxlan,", "{name: mine, path: 'vxlan:vni=1',", "has options already"},
		{"options in a list", "options: {vni: 42, csum: off}", "options: [vni]", "there is a list where options are wanted"},
		{"no path", "{name: base, path: host}", "{name: base}", "this path has no key path"},
		{"paths of one name", "name: mine", "name: routed", "two paths are called routed"},
		{"a name of a path", "name: mine", "name: m.ine", `"m.ine" cannot be a name`},
		{"a long name", "name: mine", "name: a-name-that-is-far-too-long-for-a-socket", "cannot name a path"},
		{"load", "load: tcp_lat", "load: tcp_late", `unknown load "tcp_late"`},
		{"sizes", "sizes: 8:256K:*2", "sizes: 8:256K:*1", "never ends"},
		{"flows", "flows: [1, 8]", "flows: [1, x]", `flows is "x"`},
		{"many flows", "flows: [1, 8]", "flows: [1, 9999]", "9999"},
		{"emulated", "emulated: no", "emulated: off", `emulated is "off", but must be yes or no`},
		{"nothing emulated", "tcp_lat\n  - {load: tcp_bw, sizes: 8:256K:*2, flows: [1, 8]", "tcp_lat\n    emulated: no\n  - {load: tcp_bw, sizes: 8:256K:*2, flows: [1, 8], emulated: no", "no load is left where the CPU is emulated"},
		{"emulated-budget", "emulated-budget: 40m", "emulated-budget: late", `the emulated-budget is "late"`},
		{"small emulated-budget", "emulated-budget: 40m", "emulated-budget: 9m", `the emulated-budget is "9m"`},
		{"budget", "budget: 10m", "budget: soon", `the budget is "soon"`},
		{"small budget", "budget: 10m", "budget: 10s", "fewer tell nothing"},
		{"margin", "margin: 5%", "margin: much", `"much" is not a share`},
		{"margin of none", "margin: 5%", "margin: 0%", "the margin is 0"},
		{"large margin", "margin: 5%", "margin: 300%", `the margin is "300%", not a share between 0 and 50 %`},
		{"axis", "columns: size", "columns: length", `cannot go by "length"`},
		{"axis twice", "columns: size", "columns: path", "by path twice"},
		{"axis missing", "  - title: By message size\n    rows: [load, path, flows]", "  - title: By message size\n    rows: [load, path]", "more than one flows"},
		{"path of a table", "paths: [mine, base, routed]", "paths: [mine, yours]", `no path "yours"`},
		{"baseline", "baseline: routed", "baseline: yours", `no path "yours" to compare with`},
		{"figure", "      - load: tcp_lat\n", "      - load: udp_lat\n", "udp_lat/1 is shown and not measured"},
		{"size of a figure", `sizes: "8,1K"`, "sizes: 9", "tcp_bw/9 is shown and not measured"},
		{"unit", "unit: MB/s", "unit: us", `tcp_bw cannot be shown in "us"`},
		{"what to show", "show: retransmits", "show: colours", "must be retransmits"},
		{"a unit of what was full", "show: retransmits", "show: full, unit: us", "have no unit"},
		{"many threads", "sizes: 1K, show: retransmits", "sizes: 1K, threads: 2, show: retransmits", "tcp_bw with 1 flows on 2 threads"},
		{"threads", "sizes: 1K, show: retransmits", "sizes: 1K, threads: x, show: retransmits", `threads is "x"`},
		{"a unit of retransmits", "show: retransmits", "show: retransmits, unit: us", "have no unit"},
		{"retransmits of latency", "      - load: tcp_lat\n", "      - {load: tcp_lat, show: retransmits}\n", "tcp_lat has no retransmits"},
	} {
		before, _, found := strings.Cut(good, c.old)
		if !found {
			t.Fatalf("%s: %q is not in the study", c.name, c.old)
		}
		line := strings.Count(before, "\n") + 1
		_, err := Parse("bad.yaml", []byte(strings.Replace(good, c.old, c.new, 1)))
		e := new(verr.Error)
		if !errors.As(err, &e) || e.Code != verr.Usage || !strings.Contains(e.Reason, c.why) || e.Hint == "" {
			t.Errorf("%s: %v, want %q", c.name, err, c.why)
			continue
		}
		if at := atLine(t, e.Reason, "bad.yaml"); at != line && c.name != "no YAML" {
			t.Errorf("%s: line %d, want %d: %v", c.name, at, line, e.Reason)
		}
	}
}

// wired is a study with a table over its wires, and a path on one of them.
const wired = `name: wired
title: b
wires: [{name: sw, options: "tunnel-tso=off"}, {name: hw}]
paths:
  - path: routed
  - {path: vxlan, wires: sw}
loads: [{load: tcp_bw, flows: [1, 640]}, {load: tcp_bw, flows: 640, threads: 5}]
tables:
  - title: One wire
    rows: path
    figures: [{load: tcp_bw}]
  - title: All wires
    rows: [path, wire]
    columns: load
    figures:
      - {name: many, load: tcp_bw, flows: 640}
      - {name: cost, load: tcp_bw, flows: 640, show: cpu}
      - {name: on five threads, load: tcp_bw, flows: 640, threads: 5, show: full}
`

// A path that is on one wire only is measured and shown there alone.
func TestWires(t *testing.T) {
	s, err := Parse("wired.yaml", []byte(wired))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]string{{"host", "routed", "vxlan"}, {"host", "routed"}} {
		q := s.Requests()[i]
		if !slices.Equal(q.Names, want) || !slices.Equal(q.Paths, want) {
			t.Errorf("wire %d: paths %v called %v, want %v", i, q.Paths, q.Names, want)
		}
		plan, err := q.Plan()
		if err != nil {
			t.Fatal(err)
		}
		l := s.Layout(s.Wires[i])
		if len(l.Tables) != 1 || l.Tables[0].Title != "One wire" || !slices.Equal(l.Tables[0].Paths, want) {
			t.Errorf("wire %d: tables %+v", i, l.Tables)
		}
		plan.Wire = []string{"tso=on,tunnel-tso=off,gro=off,csum=on,mtu=1500", "tso=on,tunnel-tso=on,gro=off,csum=on,mtu=1500"}[i]
		if w, ok := s.WireOf(*plan); !ok || w != s.Wires[i] {
			t.Errorf("wire %d: its record is taken for one of %+v", i, w)
		}
	}
	l := s.CrossWireLayout()
	if len(l.Tables) != 1 || !slices.Equal(l.Tables[0].Wires, []string{"sw", "hw"}) || !l.Tables[0].Figures[1].CPU ||
		!l.Tables[0].Figures[2].Full || l.Tables[0].Figures[2].Threads != 5 || s.Loads[1].Threads != 5 {
		t.Errorf("over all wires: %+v", l.Tables)
	}
	for _, c := range []struct{ old, new, why string }{
		{"wires: sw}", "wires: [sw, up]}", `the study has no wire "up"`},
		{"path: routed", "{path: host, wires: sw}\n  - path: routed", "the host network is on every wire"},
		{"wires: [{name: sw, options: \"tunnel-tso=off\"}, {name: hw}]", "wires: [{name: sw}]", "the study has only one"},
		{"show: cpu", "show: cpu, unit: Gb/s", "cpu has no other unit"},
		{"flows: 640, threads: 5, show", "flows: 640, threads: 4, show", "/threads=4 is shown and not measured"},
		{"{load: tcp_bw, flows: [1, 640]}", "{load: tcp_bw, flows: [1, 640]}, {load: tcp_bw, sizes: 64, flows: 640}", ""},
	} {
		if !strings.Contains(wired, c.old) {
			t.Fatalf("%q is not in the study", c.old)
		}
		_, err := Parse("wired.yaml", []byte(strings.Replace(wired, c.old, c.new, 1)))
		if c.why == "" && err != nil || c.why != "" && (verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), c.why)) {
			t.Errorf("%s: %v, want %q", c.new, err, c.why)
		}
	}
}

// TestRefusedWhole wants what is missing or too much refused.
func TestRefusedWhole(t *testing.T) {
	for name, c := range map[string]struct{ text, why string }{
		"empty":      {"", "the file is empty"},
		"comment":    {"# nothing\n", "the file is empty"},
		"a word":     {"study\n", "a map of keys is wanted"},
		"two":        {good + "---\n" + good, "one study"},
		"no paths":   {"name: a\ntitle: b\n", "the study has no paths"},
		"no loads":   {"name: a\ntitle: b\npaths: [{path: routed}]\n", "the study has no loads"},
		"no tables":  {"name: a\ntitle: b\npaths: [{path: routed}]\nloads: [{load: tcp_lat}]\n", "the study has no tables"},
		"no figure":  {"name: a\ntitle: b\npaths: [{path: routed}]\nloads: [{load: tcp_lat}]\ntables: [{title: c}]\n", "the table has no figures"},
		"false host": {"name: a\ntitle: b\npaths: [{name: host, path: routed}]\n", "is not the host network"},
		"binary":     {"\x00\x01", "it is not YAML"},
	} {
		_, err := Parse("bad.yaml", []byte(c.text))
		if verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v, want %q", name, err, c.why)
		}
	}
}

// atLine reads the line from FILE:LINE: text; 0 when there is none.
func atLine(t *testing.T, why, file string) (line int) {
	t.Helper()
	rest, ok := strings.CutPrefix(why, file+":")
	if !ok {
		t.Fatalf("%q does not begin with the file", why)
	}
	for _, digit := range rest {
		if digit < '0' || digit > '9' {
			break
		}
		line = 10*line + int(digit-'0')
	}
	return line
}

// A real tool's time is that of all of its runs; a study can be read where the tool is missing.
func TestToolTime(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	s, err := Parse("a.yaml", []byte("name: a\ntitle: b\npaths: [{path: routed}]\nloads: [{load: tcp_bw, tool: iperf3}]\ntool-time: 10s\n"+
		"tables: [{title: c, rows: path, figures: [{load: tcp_bw, tool: iperf3}]}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Requests()[0].Plan()
	if err != nil || p.Cells[0].Slice != 10*time.Second {
		t.Errorf("%+v, %v", p, err)
	}
	if sum, err := s.Summary(); err != nil || sum.ToolTime != 10 {
		t.Errorf("%+v, %v", sum, err)
	}
	var text strings.Builder
	if err := s.Explain(&text); err != nil || !strings.Contains(text.String(), "each runs for 10s at a time") || !strings.Contains(text.String(), `no program "iperf3"`) {
		t.Errorf("%s, %v", text.String(), err)
	}
}

// The host network is measured though it is not named, under its own name.
func TestHostIsAdded(t *testing.T) {
	s, err := Parse("a.yaml", []byte("name: a\ntitle: b\npaths: [{path: routed}]\nloads: [{load: tcp_lat}]\ntables: [{title: c, rows: path, figures: [{load: tcp_lat}]}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if want := []Path{{"host", "host"}, {"routed", "routed"}}; !slices.Equal(s.Paths, want) || len(s.Wires) != 1 || len(s.Requests()) != 1 {
		t.Errorf("paths %v, wires %v", s.Paths, s.Wires)
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	file := dir + "/mine.yaml"
	if err := os.WriteFile(file, []byte(good), 0o644); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(file); err != nil || s.Name != "my-overlay" {
		t.Errorf("%+v, %v", s, err)
	}
	large := dir + "/large.yaml"
	if err := os.WriteFile(large, make([]byte, mostBytes+1), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, why := range map[string]string{
		"warp":               "no study of that name",
		dir + "/none.yaml":   "no such file",
		large:                "larger than",
		"calico-bgp-vs-ovs.": "no such file",
	} {
		if _, err := Open(name); verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %q", name, err, why)
		}
	}
	if _, err := Open(dir); verr.Code(err) == verr.OK {
		t.Error("a folder was read as a study")
	}
}

// FuzzParse: no file makes the parser panic, every refusal is one for a user,
// and what is accepted can be planned and laid out.
func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte("name: a\ntitle: b\npaths: [{path: routed}]\nloads: [{load: tcp_lat}]\ntables: [{title: c, rows: path, figures: [{load: tcp_lat}]}]\n"))
	f.Add([]byte("a: &a [*a, *a]\nb: !!binary x\n<<: {name: c}\n---\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse("fuzz.yaml", data)
		if err != nil {
			if e := new(verr.Error); !errors.As(err, &e) || e.Code != verr.Usage || !strings.HasPrefix(e.Reason, "fuzz.yaml:") || e.Hint == "" {
				t.Fatalf("%#v", err)
			}
			return
		}
		for _, q := range s.Requests() {
			if _, err := q.Plan(); err != nil {
				t.Fatal(err)
			}
		}
		for _, table := range slices.Concat(s.Layout(s.Wires[0]).Tables, s.CrossWireLayout().Tables) {
			if err := table.Check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
