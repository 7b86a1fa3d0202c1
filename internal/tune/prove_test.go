package tune

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/search"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// fakeGauge measure a shelf: how fast it is, its words say.
type fakeGauge struct {
	host      *fakeHost
	rng       *rand.Rand
	noise     float64
	speed     func(words map[string]string) (latency, rate float64) // as factors, 1 being usual
	onMeasure func(nth int) error                                   // told of each measurement; may be nil
	n         int
}

func (g *fakeGauge) Measure(context.Context) (*result.Record, error) {
	g.n++
	if g.onMeasure != nil {
		if err := g.onMeasure(g.n); err != nil {
			return nil, err
		}
	}
	latency, rate := g.speed(g.host.values)
	vary := func(v float64) int64 { return int64(v * math.Exp(g.noise*g.rng.NormFloat64())) }
	rec := &result.Record{}
	for _, load := range ProveLoads() {
		rec.Plan.Cells = append(rec.Plan.Cells, result.Cell{Name: load + "/1", Load: load})
	}
	if rate == 0 {
		rec.Warnings = []result.Warning{{Code: "arm-failed", Cell: "tcp_lat/1", Text: "no route to host"}}
		return rec, nil
	}
	rec.Slices = []result.Slice{
		{Cell: "tcp_lat/1", Latency: &result.Latency{Replies: 1000, RTTMedian: vary(5e7 * latency)}},
		{Cell: "tcp_bw/1", Stream: &result.Stream{RateMessages: vary(1e6 * rate), RateNs: 1e9, RecvBytes: 1e9, Packets: 1e6}},
		{Cell: "udp_bw/1", Stream: &result.Stream{RateMessages: vary(1e6 * rate), RateNs: 1e9}},
	}
	rec.Meters = []result.Meter{{Cell: "tcp_bw/1", Name: "cpu", WallNs: 1e9, Values: map[string]int64{"busy": vary(1e9)}}}
	return rec, nil
}

func newFakeGauge(s *fakeHost, speed func(map[string]string) (latency, rate float64)) *fakeGauge {
	return &fakeGauge{host: s, rng: rand.New(rand.NewPCG(1, 2)), noise: 0.01, speed: speed}
}

func candidate(key, value string) Candidate {
	return Candidate{Name: key + "=" + value, Assignments: []Assignment{assign(key, value)}}
}

func (s *fakeHost) proof(j *journal.Journal, g Gauge, candidates ...Candidate) Proof {
	return Proof{Journal: j, Machine: s.m, Gauge: g, Metrics: Metrics("balanced"), Candidates: candidates, Options: search.Options{Seed: 5}}
}

// goodIsFast is a shelf on which a word that is good halves the latency.
func goodIsFast(words map[string]string) (latency, rate float64) {
	if words["a"] == "good" {
		return 0.5, 1
	}
	return 1, 1
}

func TestProofFindsWhatHelpsAndLeavesNothing(t *testing.T) {
	before := map[string]string{"a": "bad", "b": "2", "c": "3", "d": "4"}
	s := newFakeHost(t, maps.Clone(before))
	j := s.open(t)
	got, err := s.proof(j, newFakeGauge(s, goodIsFast), candidate("a", "good"), candidate("b", "two"), candidate("c", "three"), candidate("d", "4")).Do(t.Context())
	if err != nil || !slices.Equal(got.Set, []string{"a=good"}) || len(got.Keep) != 1 {
		t.Fatalf("set %q, kept %d, error %v", got.Set, len(got.Keep), err)
	}
	if r := got.Rows[len(got.Rows)-1]; len(got.Rows) != 4 || r.Knob != "d=4" || r.Verdict != search.VerdictNotTried || r.Reason != "it is so already" {
		t.Errorf("rows %+v", got.Rows)
	}
	if e := got.Confirm[0]; e.Metric != "latency" || e.Hi > 0.55 || e.Lo < 0.45 {
		t.Errorf("confirmed %+v", got.Confirm)
	}
	if !maps.Equal(s.values, before) {
		t.Errorf("left %v", s.values)
	}
	for _, txn := range j.History().Txns {
		if txn.Open() || !txn.Ended {
			t.Errorf("transaction %+v is open", txn)
		}
	}
}

// Values of one setting exclude one another: each is tried from the same base.
func TestProofOfLadder(t *testing.T) {
	s := newFakeHost(t, map[string]string{"a": "1", "b": "x"})
	var ladder []Candidate
	for _, v := range []string{"2", "3", "4"} {
		c := candidate("a", v)
		c.Group = "a"
		ladder = append(ladder, c)
	}
	speed := func(words map[string]string) (float64, float64) {
		return 1, map[string]float64{"1": 1, "2": 1.2, "3": 1.6, "4": 1.3}[words["a"]]
	}
	got, err := s.proof(s.open(t), newFakeGauge(s, speed), append(ladder, candidate("b", "y"))...).Do(t.Context())
	if err != nil || !slices.Equal(got.Set, []string{"a=3"}) || s.values["a"] != "1" || s.values["b"] != "x" {
		t.Fatalf("set %q, left %v, error %v", got.Set, s.values, err)
	}
}

// A process that is killed leaves nothing that undo does not take back, wherever
// the search was: single settings and such that several candidates write.
func TestProofKilled(t *testing.T) {
	before := map[string]string{"a": "bad", "b": "1"}
	s := newFakeHost(t, maps.Clone(before))
	g := newFakeGauge(s, goodIsFast)
	checked, dirty := 0, 0
	g.onMeasure = func(n int) error {
		if n%7 != 0 {
			return nil
		}
		checked++
		if !maps.Equal(s.values, before) {
			dirty++
		}
		// What is on disk now is all that the next process has.
		other := newFakeHost(t, maps.Clone(s.values))
		if err := os.CopyFS(other.folder+"/j", os.DirFS(s.folder)); err != nil {
			return err
		}
		other.folder += "/j"
		j, err := journal.Open(journal.Options{Folder: other.folder, Settings: other.m.Settings})
		if err != nil {
			return err
		}
		defer j.Close()
		outcomes, err := j.Undo(nil, journal.UndoOptions{})
		for _, o := range outcomes {
			err = errors.Join(err, o.Err)
		}
		if err != nil || !maps.Equal(other.values, before) {
			t.Errorf("measurement %d: from %v undone to %v, %v", n, s.values, other.values, err)
		}
		return nil
	}
	two, three := candidate("b", "2"), candidate("b", "3")
	two.Group, three.Group = "b", "b"
	if _, err := s.proof(s.open(t), g, candidate("a", "good"), two, three).Do(t.Context()); err != nil {
		t.Fatal(err)
	}
	if checked < 10 || dirty < 5 {
		t.Errorf("looked %d times, %d of them in a changed state: that shows nothing", checked, dirty)
	}
}

func TestProofInterrupted(t *testing.T) {
	before := map[string]string{"a": "bad", "b": "1"}
	s := newFakeHost(t, maps.Clone(before))
	ctx, stop := context.WithCancel(t.Context())
	g := newFakeGauge(s, goodIsFast)
	g.onMeasure = func(n int) error {
		if n == 60 {
			stop()
		}
		return ctx.Err()
	}
	got, err := s.proof(s.open(t), g, candidate("a", "good"), candidate("b", "2")).Do(ctx)
	if !errors.Is(err, context.Canceled) || !maps.Equal(s.values, before) || len(got.Set) != 0 {
		t.Errorf("set %q, left %v, error %v", got.Set, s.values, err)
	}
}

// Where somebody else changes what is being tried, his value stands, and the error
// says how to go on.
func TestProofMeetsSomebodyElse(t *testing.T) {
	s := newFakeHost(t, map[string]string{"a": "bad", "b": "1"})
	g := newFakeGauge(s, goodIsFast)
	g.onMeasure = func(n int) error {
		if n == 60 {
			s.values["b"] = "theirs"
		}
		return nil
	}
	_, err := s.proof(s.open(t), g, candidate("a", "good"), candidate("b", "2")).Do(t.Context())
	var conflict *journal.ConflictError
	if !errors.As(err, &conflict) || s.values["b"] != "theirs" || s.values["a"] != "bad" || !strings.Contains(err.Error(), "venturi undo 1") {
		t.Errorf("left %v, error %v", s.values, err)
	}
}

// A change that cuts the path is harmful, and the path works again.
func TestProofOfCut(t *testing.T) {
	s := newFakeHost(t, map[string]string{"a": "bad", "b": "1"})
	speed := func(words map[string]string) (latency, rate float64) {
		if words["b"] == "cut" {
			return 1, 0
		}
		return goodIsFast(words)
	}
	got, err := s.proof(s.open(t), newFakeGauge(s, speed), candidate("a", "good"), candidate("b", "cut")).Do(t.Context())
	if err != nil || !slices.Equal(got.Set, []string{"a=good"}) {
		t.Fatalf("set %q, error %v", got.Set, err)
	}
	if r := got.Rows[1]; r.Verdict != search.VerdictHarmful || !strings.Contains(r.Reason, "no route to host") {
		t.Errorf("%+v", r)
	}
}

func TestProofRefusedByNoise(t *testing.T) {
	for noise, want := range map[float64]string{0.3: `--effect 14%$`, 5: `on this machine$`} {
		s := newFakeHost(t, map[string]string{"a": "bad"})
		g := newFakeGauge(s, goodIsFast)
		g.noise = noise
		_, err := s.proof(s.open(t), g, candidate("a", "good")).Do(t.Context())
		var noisy *search.NoisyError
		if !errors.As(err, &noisy) || verr.Code(err) != verr.Failed || s.values["a"] != "bad" {
			t.Fatalf("left %v, error %v", s.values, err)
		}
		var v *verr.Error
		if !errors.As(err, &v) || !regexp.MustCompile(want).MatchString(v.Hint) {
			t.Errorf("noise %g: %v", noise, v)
		}
	}
}

func TestProofOfRefusedValue(t *testing.T) {
	s := newFakeHost(t, map[string]string{"a": "bad", "b": "1"})
	s.onWrite = func(key string) error {
		if key == "b" {
			return errors.New("not here")
		}
		return nil
	}
	got, err := s.proof(s.open(t), newFakeGauge(s, goodIsFast), candidate("a", "good"), candidate("b", "2")).Do(t.Context())
	if err != nil || got.Rows[1].Verdict != search.VerdictNotTried || !strings.Contains(got.Rows[1].Reason, "not here") || !slices.Equal(got.Set, []string{"a=good"}) {
		t.Errorf("%+v, error %v", got, err)
	}
}

func TestCandidatesAndTheirCommands(t *testing.T) {
	entry := knob.Entry{Facts: knob.Facts{Name: "nic.ring"}, Knob: word{key: "a"}}
	step := &Step{On: NICs}
	all := Candidates([]Assignment{
		{Knob: entry, Target: knob.Target{Device: "eth0", Netns: "/run/netns/x"}, Value: "rx=1", Ladder: []string{"rx=1", "rx=2"}, Step: step},
		{Knob: entry, Target: knob.Target{Device: "eth1"}, Value: "rx=1", Ladder: []string{"rx=1"}, Step: step},
		{Knob: entry, Target: knob.Target{Device: "eth2"}, Value: "rx=9"},
	})
	var got []string
	for _, c := range all {
		got = append(got, fmt.Sprintf("%s (%s) %d: %s", c.Name, c.Group, len(c.Assignments), strings.Join(c.Commands(true), "; ")))
	}
	want := []string{
		"nic.ring=rx=1 on nics (nic.ring on nics) 2: venturi knob set nic.ring rx=1 --dev eth0 --netns /run/netns/x; venturi knob set nic.ring rx=1 --dev eth1",
		"nic.ring=rx=2 on nics (nic.ring on nics) 1: venturi knob set nic.ring rx=2 --dev eth0 --netns /run/netns/x",
		"nic.ring=rx=9 () 1: venturi knob set nic.ring rx=9 --dev eth2",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if c := all[0].Commands(false); !slices.Equal(c, []string{"venturi knob set nic.ring rx=1 --dev NIC"}) {
		t.Errorf("of a lab: %q", c)
	}
}

// Where a card has all offloads off, segmentation is of no use before checksums.
func TestSegmentationNeedsChecksums(t *testing.T) {
	var all []Assignment
	for _, s := range mend() {
		if s.On == NICs && (s.Knob == "nic.seg" || s.Knob == "nic.csum") {
			all = append(all, Assignment{Knob: knob.Entry{Facts: knob.Facts{Name: s.Knob}}, Target: knob.Target{Device: "eth0"}, Value: s.Value, Step: &s})
		}
	}
	var got []string
	for _, c := range Candidates(all) {
		got = append(got, c.Name+": "+strings.Join(c.Commands(true), "; "))
	}
	const csum, seg = "venturi knob set nic.csum on --dev eth0", "venturi knob set nic.seg on --dev eth0"
	if want := []string{"nic.csum=on on nics: " + csum, "nic.csum=on and nic.seg=on on nics: " + csum + "; " + seg}; !slices.Equal(got, want) {
		t.Errorf("candidates are\n%s, want\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if c := Candidates(all[1:]); len(c) != 1 || len(c[0].Assignments) != 1 {
		t.Errorf("with checksums on, candidates are %+v", c)
	}
}

func TestTurnSettles(t *testing.T) {
	s := newFakeHost(t, map[string]string{"a": "bad"})
	j := s.open(t)
	tx, err := j.Begin(0)
	if err != nil {
		t.Fatal(err)
	}
	states, fit, _, err := prepare(t.Context(), j, tx, s.m, []Candidate{candidate("a", "good")})
	if err != nil || len(fit) != 1 {
		t.Fatal(err)
	}
	start := time.Now()
	if err := states.switchTo(t.Context(), search.Subset{0}); err != nil || s.values["a"] != "good" {
		t.Fatalf("%v, %v", s.values, err)
	}
	if time.Since(start) < minSettle {
		t.Error("it did not wait")
	}
	if err := states.switchTo(t.Context(), nil); err != nil || s.values["a"] != "bad" {
		t.Fatalf("%v, %v", s.values, err)
	}
	s.backends[0].Settle = time.Hour
	states.settings = setting.NewSettings(s.backends...)
	ended, end := context.WithCancel(t.Context())
	end()
	if err := states.switchTo(ended, search.Subset{0}); !errors.Is(err, context.Canceled) || s.values["a"] != "good" {
		t.Fatalf("interrupted: %v, %v", s.values, err)
	}
}

// A proof with a lease has its holder before anything is written, and leaves nothing
// to wait for.
func TestProofWithLease(t *testing.T) {
	s := newFakeHost(t, map[string]string{"a": "bad"})
	p := s.proof(s.open(t), newFakeGauge(s, goodIsFast), candidate("a", "good"))
	held := 0
	p.Lease = TrialOptions{Lease: time.Hour, Hold: func(txn int) error {
		held = txn
		if s.values["a"] != "bad" {
			t.Error("it was written before")
		}
		return nil
	}}
	if _, err := p.Do(t.Context()); err != nil || held != 1 {
		t.Fatalf("held %d, %v", held, err)
	}
	h := p.Journal.History()
	if h.Txns[0].Lease == nil || pendingLease(h, 1) != nil {
		t.Errorf("%+v", h.Txns[0])
	}
}

// What cannot be taken back ends the proof: all else would be measured on top of it.
func TestProofEndsWhereNothingCanBeTakenBack(t *testing.T) {
	s := newFakeHost(t, map[string]string{"a": "bad", "b": "1"})
	writes := 0
	s.onWrite = func(key string) error {
		if key != "b" {
			return nil
		}
		if writes++; writes > 1 {
			return errors.New("stuck")
		}
		return nil
	}
	both := candidate("b", "2")
	both.Assignments = append(both.Assignments, assign("c", "no such word"))
	g := newFakeGauge(s, goodIsFast)
	got, err := s.proof(s.open(t), g, both, candidate("a", "good")).Do(t.Context())
	if err == nil || !strings.Contains(err.Error(), "stuck") || g.n != 0 || len(got.Rows) != 0 {
		t.Errorf("error %v after %d measurements, rows %+v", err, g.n, got.Rows)
	}
}

// Setting each change once, before anything is measured, is part of the budget, and so
// is taking all back.
func TestProofKeepsBudget(t *testing.T) {
	s := newFakeHost(t, map[string]string{"a": "bad", "b": "1"})
	now := time.Unix(0, 0)
	g := newFakeGauge(s, goodIsFast)
	s.onWrite = func(string) error {
		if g.n == 0 {
			now = now.Add(2 * time.Second)
		}
		return nil
	}
	p := s.proof(s.open(t), g, candidate("a", "good"), candidate("b", "2"))
	p.Options.Budget, p.Options.Now = 6*time.Minute, func() time.Time { return now }
	left := time.Duration(0)
	p.Options.Watch = func(at search.Progress) { left = max(left, at.Remaining) }
	_, err := p.Do(t.Context())
	if want := p.Options.Budget - 2*4*2*time.Second; err != nil || left != want {
		t.Errorf("%s to measure in, want %s; error %v", left, want, err)
	}
}
