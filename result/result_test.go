package result_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/venturi-net/venturi/internal/analysis/recordtest"
	"github.com/venturi-net/venturi/result"
)

// small is a record with a line of every kind.
func small() *result.Record {
	rec := recordtest.Make(recordtest.Truth{Seed: 1, Series: 1, Rounds: 1, Meters: true, Histograms: false,
		Noise: recordtest.Quiet, Cells: []result.Cell{recordtest.UDPLat, recordtest.TCPBw},
		Arms: []recordtest.Arm{recordtest.Host(), recordtest.Path("vxlan", 1.3)}})
	rec.Warnings = []result.Warning{{Code: "shared-cores", Text: "both machines share cores"}}
	h := result.NewRTT()
	for _, v := range []int64{8000, 9000, 16000} {
		_ = h.RecordValue(v)
	}
	rec.Slices[0].Latency.RTT, _ = result.EncodeRTT(h)
	return rec
}

func encode(t testing.TB, rec *result.Record) []byte {
	t.Helper()
	var out bytes.Buffer
	w := result.NewWriter(&out)
	for _, l := range recordtest.Lines(rec) {
		if err := w.Write(l); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		truth := recordtest.Truth{Seed: r.Uint64(), Series: 1 + r.IntN(3), Rounds: 1 + r.IntN(4), Meters: r.IntN(2) == 0,
			Noise: recordtest.Noisy, Cells: []result.Cell{recordtest.UDPLat, recordtest.UDPMsg}[:1+r.IntN(2)],
			Arms: []recordtest.Arm{recordtest.Host(), recordtest.Copy(), recordtest.Path("vxlan", r.Float64()+0.1)}}
		truth.Arms[2].Loss = r.Float64() / 100
		want := recordtest.Make(truth)
		got, err := result.Read(bytes.NewReader(encode(t, want)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	}
}

// A record that is cut at any byte is never taken for a whole one, and what
// is whole of it is handed over.
func TestCutAnywhere(t *testing.T) {
	rec := small()
	text := encode(t, rec)
	for n := range len(text) {
		got, err := result.Read(bytes.NewReader(text[:n]))
		var syntax *result.SyntaxError
		switch {
		case errors.Is(err, result.ErrTruncated):
			if got == nil {
				t.Fatalf("cut at %d: truncated, but no partial record", n)
			}
			if lines := bytes.Count(text[:n], []byte("\n")); lines >= 2 && len(got.Plan.Arms) == 0 {
				t.Fatalf("cut at %d: the plan is whole, but it is not in the partial record", n)
			}
		case errors.As(err, &syntax):
		default:
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
	if _, err := result.Read(bytes.NewReader(text)); err != nil {
		t.Fatal(err)
	}
}

func TestReadRefuses(t *testing.T) {
	good := strings.Split(strings.TrimSuffix(string(encode(t, small())), "\n"), "\n")
	last := len(good) - 1
	with := func(line int, from, to string) []string {
		out := append([]string{}, good...)
		out[line] = strings.Replace(out[line], from, to, 1)
		if out[line] == good[line] {
			t.Fatalf("line %d has no %q: %s", line, from, good[line])
		}
		return out
	}
	without := func(line int) []string { return append(append([]string{}, good[:line]...), good[line+1:]...) }
	twice := func(line int) []string {
		return append(append(append([]string{}, good[:line+1]...), good[line]), good[line+1:]...)
	}
	slice := 0
	for i, l := range good {
		if strings.HasPrefix(l, `{"slice"`) {
			slice = i
			break
		}
	}
	for _, tc := range []struct {
		name  string
		lines []string
		want  error // nil: a SyntaxError
		says  string
	}{
		{"other file", []string{"hello"}, result.ErrNotRecord, ""},
		{"other JSON", []string{`{"a":1}`}, result.ErrNotRecord, ""},
		{"other format", with(0, result.Format, "other"), result.ErrNotRecord, ""},
		{"newer", with(0, `"version":1`, `"version":2,"unheard":{}`), result.ErrNewer, ""},
		{"version 0", with(0, `"version":1`, `"version":0`), nil, "version 0"},
		{"unknown key", with(slice, `"round":`, `"roundd":`), nil, "roundd"},
		{"unknown key in header", with(0, `"version":1`, `"version":1,"unheard":{}`), nil, "unheard"},
		{"two kinds in a line", with(last, `{"end"`, `{"warning":{"code":"a","text":"b"},"end"`), nil, "exactly one"},
		{"no kind in a line", append(good[:1:1], "{}"), nil, "exactly one"},
		{"two headers", twice(0), nil, "second header"},
		{"two plans", twice(1), nil, "second plan"},
		{"no plan", without(1), nil, "before the plan"},
		{"slice twice", twice(slice), nil, "twice"},
		{"slice lost", without(slice), nil, "counts"},
		{"line after the end", append(append([]string{}, good...), good[slice]), nil, "follows"},
		{"negative count", with(slice, `"replies":`, `"replies":-`), nil, "negative"},
		{"unknown arm", with(slice, `"arm":"`, `"arm":"x`), nil, "not in the plan"},
		{"unknown cell", with(slice, `"cell":"`, `"cell":"x`), nil, "not in the plan"},
		{"huge series", with(slice, `"series":0`, `"series":999999999`), nil, "out of range"},
		{"negative round", with(slice, `"round":0`, `"round":-1`), nil, "out of range"},
		{"fraction", with(slice, `"round":0`, `"round":0.5`), nil, ""},
		{"no baseline", with(1, `"role":"baseline"`, `"role":"copy"`), nil, "baseline"},
		{"unknown role", with(1, `"role":"baseline"`, `"role":"king"`), nil, "role"},
		{"unknown metric", with(1, `"metric":"one-way"`, `"metric":"x"`), nil, "metric"},
		{"margin", with(1, `"margin":0.03`, `"margin":1e300`), nil, "margin"},
		{"confidence", with(1, `"confidence":0.95`, `"confidence":1`), nil, "confidence"},
		{"no series", with(1, `"series":1`, `"series":0`), nil, "series"},
		{"text after an object", with(slice, `}}}`, `}}} {}`), nil, "follows"},
		{"not JSON", with(slice, `{`, `(`), nil, ""},
	} {
		_, err := result.Read(strings.NewReader(strings.Join(tc.lines, "\n") + "\n"))
		var syntax *result.SyntaxError
		switch {
		case tc.want != nil && !errors.Is(err, tc.want), tc.want == nil && !errors.As(err, &syntax):
			t.Errorf("%s: %v", tc.name, err)
		case !strings.Contains(err.Error(), tc.says):
			t.Errorf("%s: %v, must speak of %q", tc.name, err, tc.says)
		}
	}
}

// A file without end of line must not be read into memory whole.
func TestLineLength(t *testing.T) {
	endless := io.MultiReader(strings.NewReader(`{"header":{"format":"`), io.LimitReader(letters{}, 1<<30))
	_, err := result.Read(endless)
	var syntax *result.SyntaxError
	if !errors.As(err, &syntax) || !strings.Contains(err.Error(), "longer") {
		t.Errorf("endless line: %v", err)
	}
}

type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}

// What the writer refuses is not written, and the record goes on.
func TestWriterRefuses(t *testing.T) {
	rec := small()
	var out bytes.Buffer
	w := result.NewWriter(&out)
	refuse := func(what string, l result.Line) {
		t.Helper()
		before := out.Len()
		if err := w.Write(l); err == nil {
			t.Errorf("%s was written", what)
		}
		if out.Len() != before {
			t.Errorf("%s: refused, but something was written", what)
		}
	}
	refuse("a plan before the header", result.Line{Plan: &rec.Plan})
	lines := recordtest.Lines(rec)
	for _, l := range lines[:len(lines)-1] {
		if l.Plan != nil {
			bad := rec.Plan
			bad.Margin = math.NaN()
			refuse("a plan with margin NaN", result.Line{Plan: &bad})
		}
		if err := w.Write(l); err != nil {
			t.Fatal(err)
		}
	}
	refuse("nothing", result.Line{})
	refuse("two at once", result.Line{Warning: &result.Warning{Code: "a"}, End: rec.End})
	refuse("a slice twice", result.Line{Slice: &rec.Slices[0]})
	refuse("an end with a wrong count", result.Line{End: &result.End{Reason: result.Complete, Slices: 1 << 20}})
	if w.Slices() != len(rec.Slices) {
		t.Errorf("writer counts %d slices, there are %d", w.Slices(), len(rec.Slices))
	}
	if err := w.Write(result.Line{End: rec.End}); err != nil {
		t.Fatal(err)
	}
	refuse("a line after the end", result.Line{Warning: &result.Warning{Code: "a"}})
	if _, err := result.Read(&out); err != nil {
		t.Errorf("what the writer let through cannot be read: %v", err)
	}
}

// limited takes n bytes, then says err; a short write without an error is a
// broken writer, and must be noticed too.
type limited struct {
	n   int
	err error
}

func (l *limited) Write(p []byte) (int, error) {
	if len(p) <= l.n {
		l.n -= len(p)
		return len(p), nil
	}
	n := l.n
	l.n = 0
	return n, l.err
}

func TestWriterFullDisk(t *testing.T) {
	for _, tc := range []struct{ says, want error }{
		{&os.PathError{Op: "write", Path: "record.jsonl", Err: syscall.ENOSPC}, syscall.ENOSPC},
		{nil, io.ErrShortWrite},
	} {
		w := result.NewWriter(&limited{n: 400, err: tc.says})
		rec := small()
		var first error
		for _, l := range recordtest.Lines(rec) {
			err := w.Write(l)
			if first == nil {
				first = err
			} else if err != first {
				t.Errorf("after %v the writer says %v", first, err)
			}
		}
		if !errors.Is(first, tc.want) {
			t.Errorf("got %v, want %v", first, tc.want)
		}
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, result.FileName)
	if err := os.WriteFile(file, encode(t, small()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, file} {
		if rec, err := result.Open(path); err != nil || rec.End == nil {
			t.Errorf("open %s: %v", path, err)
		}
	}
	for _, path := range []string{filepath.Join(dir, "none"), t.TempDir()} {
		if _, err := result.Open(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("open %s: %v", path, err)
		}
	}
}

func TestValue(t *testing.T) {
	lat := func(replies, sum int64) *result.Slice {
		return &result.Slice{Elapsed: int64(time.Second), Latency: &result.Latency{Replies: replies, RTTSum: sum}}
	}
	stream := func(messages, bytes, ns int64) *result.Slice {
		return &result.Slice{Stream: &result.Stream{RateMessages: messages, RateBytes: bytes, RateNs: ns}}
	}
	failed := lat(10, 1000)
	failed.Failed = "refused"
	for _, tc := range []struct {
		name string
		s    *result.Slice
		m    result.Metric
		want float64 // 0: none
	}{
		{"one way", lat(10, 160_000), result.OneWay, 8000},
		{"transactions", lat(10, 160_000), result.Transactions, 10},
		{"bandwidth", stream(1, 1250, 1000), result.Bandwidth, 1e10},
		{"messages", stream(5, 5, 1000), result.Messages, 5e6},
		{"no reply", lat(0, 0), result.OneWay, 0},
		{"no reply, rate", lat(0, 0), result.Transactions, 0},
		{"no time", lat(10, 0), result.OneWay, 0},
		{"nothing arrived", stream(0, 0, 1000), result.Bandwidth, 0},
		{"no clock", stream(5, 5, 0), result.Messages, 0},
		{"failed", failed, result.OneWay, 0},
		{"other kind", lat(10, 1000), result.Bandwidth, 0},
		{"other kind", stream(1, 1, 1), result.OneWay, 0},
		{"unknown metric", lat(10, 1000), "x", 0},
		{"empty", &result.Slice{}, result.OneWay, 0},
	} {
		got, ok := tc.s.Value(tc.m)
		if ok != (tc.want > 0) || math.Abs(got-tc.want) > 1e-6*tc.want {
			t.Errorf("%s: %v %v, want %v", tc.name, got, ok, tc.want)
		}
	}
}

func TestRTTRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 3))
	h := result.NewRTT()
	n := int64(0)
	for range 5000 {
		v := int64(math.Exp(r.Float64() * math.Log(float64(result.MaxRTT))))
		if err := h.RecordValue(v); err != nil {
			t.Fatalf("%d ns is in range: %v", v, err)
		}
		n++
	}
	if err := h.RecordValue(result.MaxRTT); err != nil {
		t.Fatal(err)
	}
	enc, err := result.EncodeRTT(h)
	if err != nil {
		t.Fatal(err)
	}
	back, err := result.DecodeRTT(enc)
	if err != nil || !back.Equals(h) {
		t.Fatalf("decoded histogram differs: %v", err)
	}
	buckets, err := result.RTTBuckets(enc)
	if err != nil {
		t.Fatal(err)
	}
	total, last := int64(0), int64(-1)
	for _, b := range buckets {
		if b.Value <= last || b.Count <= 0 {
			t.Fatalf("bucket %+v after value %d", b, last)
		}
		total, last = total+b.Count, b.Value
	}
	if total != n+1 {
		t.Errorf("%d values in buckets, %d were recorded", total, n+1)
	}
	if got := back.ValueAtPercentile(100); math.Abs(float64(got)/float64(result.MaxRTT)-1) > 1e-3 {
		t.Errorf("largest value %d, want %d within 0.1 %%", got, result.MaxRTT)
	}
	if err := result.MergeRTT(back, h); err != nil || back.TotalCount() != 2*(n+1) {
		t.Errorf("merged: %d values, %v", back.TotalCount(), err)
	}
}

func FuzzRead(f *testing.F) {
	text := encode(f, small())
	f.Add(text)
	f.Add(text[:len(text)/2])
	f.Add([]byte(`{"header":{"format":"venturi-record","version":1}}` + "\n{}\n"))
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		rec, err := result.Read(bytes.NewReader(data))
		var syntax *result.SyntaxError
		switch {
		case err == nil:
			// What can be read can be written, and comes back as it was.
			again, err := result.Read(bytes.NewReader(encode(t, rec)))
			if err != nil {
				t.Fatalf("written again, it cannot be read: %v", err)
			}
			one, _ := json.Marshal(rec)
			two, _ := json.Marshal(again)
			if !bytes.Equal(one, two) {
				t.Fatalf("written again, it differs:\n%s\n%s", one, two)
			}
		case errors.Is(err, result.ErrTruncated):
			if rec == nil {
				t.Fatal("truncated, but no partial record")
			}
		case errors.As(err, &syntax), errors.Is(err, result.ErrNewer), errors.Is(err, result.ErrNotRecord):
		default:
			t.Fatalf("untyped error: %v", err)
		}
	})
}

func FuzzDecodeRTT(f *testing.F) {
	h := result.NewRTT()
	for v := int64(1); v < 1e9; v *= 3 {
		_ = h.RecordValue(v)
	}
	enc, err := result.EncodeRTT(h)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(enc)
	f.Add(enc[:len(enc)/2])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := result.DecodeRTT(data)
		buckets, errBuckets := result.RTTBuckets(data)
		if err != nil {
			return
		}
		if errBuckets != nil {
			t.Fatalf("one decoder takes it, the other says %v", errBuckets)
		}
		total := int64(0)
		for _, b := range buckets {
			total += b.Count
		}
		if total != h.TotalCount() {
			t.Fatalf("%d values in buckets, %d in the histogram", total, h.TotalCount())
		}
	})
}
