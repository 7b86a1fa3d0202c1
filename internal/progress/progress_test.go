package progress

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/analysis/recordtest"
	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/result"
)

// screen replays what a terminal would show: lines, cursor up, erase below.
func screen(t *testing.T, out string) []string {
	t.Helper()
	var lines []string
	for _, part := range strings.Split(out, "\x1b[J") {
		text, up, found := strings.Cut(part, "\x1b[")
		if text != "" {
			lines = append(lines, strings.Split(strings.TrimSuffix(text, "\n"), "\n")...)
		}
		if !found {
			continue
		}
		n := 0
		for _, c := range strings.TrimSuffix(up, "A") {
			n = 10*n + int(c-'0')
		}
		if n > len(lines) {
			t.Fatalf("goes up %d of %d lines", n, len(lines))
		}
		lines = lines[:len(lines)-n]
	}
	return lines
}

// events are those of a run of two cells and three series, as far as it has got.
func events() []experiment.Event {
	rec := recordtest.Make(recordtest.Truth{
		Arms:  []recordtest.Arm{recordtest.Host(), recordtest.Copy(), recordtest.Path("vxlan", 1.4)},
		Cells: []result.Cell{recordtest.TCPLat, recordtest.UDPLat}, Series: 5, Rounds: 6, Seed: 1,
	})
	var out []experiment.Event
	for s := range 3 {
		for c := range 2 {
			out = append(out, experiment.Event{Series: s + 2, Cell: c, Remaining: 90 * time.Second, Record: rec})
		}
	}
	return append(out, experiment.Event{Series: rec.Plan.Series, Record: rec})
}

// TestTerminal wants one picture at a time, no line wider than the terminal,
// and nothing left at the end.
func TestTerminal(t *testing.T) {
	var out bytes.Buffer
	p := &Progress{w: &out, terminal: true, width: 72, height: 24, reportedSeries: -1}
	p.Say("raising two machines")
	if got := screen(t, out.String()); len(got) != 1 || !strings.Contains(got[0], "raising") {
		t.Errorf("screen %q", got)
	}
	for _, e := range events() {
		p.Event(e)
		got := screen(t, out.String())
		if e.Series == e.Record.Plan.Series {
			continue
		}
		if len(got) != 3 || !strings.Contains(got[0], "about 1m30s") || !strings.Contains(got[1], "tcp_lat/1") ||
			!strings.Contains(got[2], "vxlan 1.") {
			t.Errorf("screen %q", got)
		}
		for _, line := range got {
			if n := len([]rune(line)); n >= 72 {
				t.Errorf("%d columns: %q", n, line)
			}
		}
	}
	p.Done()
	if got := screen(t, out.String()); len(got) != 0 {
		t.Errorf("left at the end: %q", got)
	}
}

// TestShortTerminal wants what does not fit counted, not drawn.
func TestShortTerminal(t *testing.T) {
	var out bytes.Buffer
	p := &Progress{w: &out, terminal: true, width: 72, height: 3, reportedSeries: -1}
	p.Event(events()[0])
	got := screen(t, out.String())
	if len(got) != 2 || !strings.Contains(got[1], "and 2 more") {
		t.Errorf("screen %q", got)
	}
	p.Done()
	if got := screen(t, out.String()); len(got) != 0 {
		t.Errorf("left at the end: %q", got)
	}
}

// TestPlain wants a line a series, without a single control character.
func TestPlain(t *testing.T) {
	var out bytes.Buffer
	p := New(&out)
	p.Say("raising two machines")
	for _, e := range events() {
		p.Event(e)
	}
	p.Done()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 4 || !strings.Contains(lines[1], "series 3/5") || !strings.Contains(lines[1], "±") {
		t.Errorf("lines %q", lines)
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Error("control characters in plain output")
	}
}

// A run that ends when all is decided tells the time, not series that it will not come to.
func TestUntilDecided(t *testing.T) {
	e := events()[0]
	rec := *e.Record
	rec.Plan.UntilDecided, rec.Plan.Budget = true, 3*time.Minute
	e.Record = &rec
	var drawn, plain bytes.Buffer
	(&Progress{w: &drawn, terminal: true, width: 120, height: 24, reportedSeries: -1}).Event(e)
	New(&plain).Event(e)
	if want := "[##########..........] series 3, now tcp_lat/1, at most 1m30s left"; !strings.Contains(drawn.String(), want) {
		t.Errorf("drawn: %q", drawn.String())
	}
	if want := "venturi: series 3, at most 1m30s left"; !strings.HasPrefix(plain.String(), want) {
		t.Errorf("plain: %q", plain.String())
	}
}

func TestSilent(t *testing.T) {
	var out bytes.Buffer
	p := Silent(&out)
	for _, e := range events() {
		p.Event(e)
	}
	if out.Len() > 0 {
		t.Errorf("silent progress says %q", out.String())
	}
}
