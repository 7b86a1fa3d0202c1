package result

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
)

// The parser of slices reads what encoding/json reads, or leaves it to that.
func FuzzSlice(f *testing.F) {
	for _, s := range []Slice{
		{Cell: "udp_lat/1", Arm: "host", Series: 1, Round: 7, Start: -5, Elapsed: 25e6, Latency: &Latency{Requests: 9, Replies: 8, RTTMedian: 7, Lost: 1, RTTSum: 6, RTT: []byte("abc"), PerFlow: []int64{1, 2}}},
		{Cell: "udp_bw/1", Arm: "vxlan", Stream: &Stream{SentMessages: 5, RateNs: 1e9, PerFlow: []int64{}}, Background: &Stream{RecvBytes: 1}},
		{Cell: "a<b>\u2028", Arm: "\"\\", Failed: "no reply\n"},
	} {
		text, err := json.Marshal(Line{Slice: &s})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for _, text := range []string{
		`{"slice":{}}`, `{"slice":{"cell":"a","cell":"b"}}`, `{"slice":{"cell":null}}`, `{"slice":{"round":01}}`, `{"slice":{"round":1e3}}`,
		`{"slice":{"round":9223372036854775808}}`, `{"slice":{"latency":{"rtt":"YWJj","rtt":""}}}`, "{\"slice\":{\"latency\":{\"rtt\":\"YW\rJj\"}}}",
		`{"slice":{"latency":{"rtt":"YWJ"}}}`, `{"slice":{"latency":{"rtt":"YQ=="}}}`, `{"slice":{"latency":{"rtt":"Y==="}}}`, `{"slice":{"latency":{"rtt":"YWJjYWJjYWI=YWJj"}}}`,
		`{"slice":{"latency":{"rtt":"=","lateness":"====","rtt":""}}}`, `{"slice":{"latency":{"rtt":"YWJjYWJjYWJjYW-j"}}}`, `{"slice":{"latency":{"rtt":"YWJjYWJj`, "{\"slice\":{\"arm\":\"\xff\"}}", `{"slice":{"latency":{"per_flow":[1,]}}}`, `{"slice":{"latency":{"lost":1},"latency":{"late":2}}}`,
		`{"slice":{"Cell":"a"}}`, `{"slice":{"cell":"a"}} `, `{"slice":{"cell":"a"}},`, `{"slice":{"start":-}}`, `{"slice":{"start":-0}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if slices.Contains(line, '\n') {
			return
		}
		var p scanner
		p.reset()
		got, h, ok := p.slice(line)
		if !ok {
			return
		}
		h.decode(got.Latency, true, true)
		want, err := parseLine(2, line)
		if err != nil {
			t.Fatalf("%s: %v, but it was read", line, err)
		}
		if !reflect.DeepEqual(want.Slice, got) {
			a, _ := json.Marshal(want.Slice)
			b, _ := json.Marshal(got)
			t.Fatalf("%s: read as\n%s, want\n%s", line, b, a)
		}
	})
}

// What the writer writes, the parser knows: it is not slow by a detour.
func TestSliceIsKnown(t *testing.T) {
	full := Slice{Cell: "udp_lat/1", Arm: "host", Series: 1, Round: 7, Start: 5, Elapsed: 25e6}
	full.Latency, full.Stream, full.Background = &Latency{}, &Stream{}, &Stream{}
	fill(reflect.ValueOf(full.Latency).Elem())
	fill(reflect.ValueOf(full.Stream).Elem())
	fill(reflect.ValueOf(full.Background).Elem())
	text, err := json.Marshal(Line{Slice: &full})
	if err != nil {
		t.Fatal(err)
	}
	var p scanner
	p.reset()
	got, h, ok := p.slice(text)
	h.decode(got.Latency, true, true)
	if !ok || !reflect.DeepEqual(*got, full) {
		t.Errorf("%s is read as %+v, %v", text, got, ok)
	}
}

// fill sets every field, so that a new one that the parser does not know is found.
func fill(v reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Field(i); f.Interface().(type) {
		case int64:
			f.SetInt(int64(i + 1))
		case []byte:
			f.SetBytes([]byte("histogram"))
		case []int64:
			f.Set(reflect.ValueOf([]int64{1, 2}))
		}
	}
}

// A set of rounds takes each round once, in whatever order.
func TestRoundSet(t *testing.T) {
	var s roundSet
	for _, r := range []struct {
		round int
		added bool
	}{{0, true}, {1, true}, {1, false}, {5, true}, {3, true}, {4, true}, {4, false}, {0, false}, {2, true}, {3, false}, {7, true}, {6, true}} {
		if got := s.add(r.round); got != r.added {
			t.Errorf("round %d: %v, want %v", r.round, got, r.added)
		}
	}
	if len(s.stretches) != 1 || s.stretches[0] != (stretch{0, 7}) {
		t.Errorf("stretches %v", s.stretches)
	}
}
