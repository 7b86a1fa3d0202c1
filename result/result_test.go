package result_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

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

// The points of a curve are read back as they were, and name a maximum that is there.
func TestCurve(t *testing.T) {
	truth := recordtest.Truth{Seed: 1, Series: 1, Rounds: 2, Noise: recordtest.Quiet, Cells: recordtest.Curve(0, 0.5, 0.9),
		Arms: []recordtest.Arm{recordtest.Host(), recordtest.Path("vxlan", 1.3)}}
	want := recordtest.Make(truth)
	for i := range want.Slices {
		if s := want.Slices[i].Stream; s != nil {
			s.PerFlow = []int64{s.RateMessages}
		}
	}
	want.Plan.Cores = map[string][]int{"m1": {0}, "m2": {1}}
	got, err := result.Read(bytes.NewReader(encode(t, want)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	truth.Cells = truth.Cells[1:]
	w := result.NewWriter(io.Discard)
	bad := recordtest.Make(truth)
	if err := errors.Join(w.Write(result.Line{Header: &bad.Header}), w.Write(result.Line{Plan: &bad.Plan})); err == nil {
		t.Error("a maximum that is not in the plan was written")
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
