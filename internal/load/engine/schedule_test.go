package engine

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/load/pace"
	"github.com/venturi-net/venturi/result"
)

// fakeProber answers requests as a test wants, without a network.
type fakeProber struct {
	t       *testing.T
	clock   clock
	pipe    [2]int
	sent    int
	answers []fakeAnswer

	onSend func(nth int) error                    // may be nil
	delay  func(nth int) (d time.Duration, n int) // of the answer, and how often it comes
}

type fakeAnswer struct {
	number uint64
	due    int64
}

func newFakeProber(t *testing.T, clock clock) *fakeProber {
	f := &fakeProber{t: t, clock: clock}
	if err := unix.Pipe2(f.pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.close)
	return f
}

func (f *fakeProber) fd() int { return f.pipe[0] }
func (f *fakeProber) close()  { unix.Close(f.pipe[0]); unix.Close(f.pipe[1]) }

func (f *fakeProber) send(number uint64) error {
	if f.onSend != nil {
		if err := f.onSend(f.sent); err != nil {
			return err
		}
	}
	delay, times := time.Duration(0), 1
	if f.delay != nil {
		delay, times = f.delay(f.sent)
	}
	for range times {
		f.answers = append(f.answers, fakeAnswer{number, f.clock.now() + delay.Nanoseconds()})
	}
	f.sent++
	return nil
}

func (f *fakeProber) receive() (uint64, int64, bool, error) {
	now := f.clock.now()
	for i, a := range f.answers {
		if a.due <= now {
			f.answers = append(f.answers[:i], f.answers[i+1:]...)
			return a.number, now, true, nil
		}
	}
	return 0, 0, false, unix.EAGAIN
}

// runFake runs one slice of 200 ms with 1000 requests a second.
func runFake(t *testing.T, timeout time.Duration, set func(*fakeProber)) *active {
	t.Helper()
	p := load.Plan{Load: "probe", Rate: 1000, Flows: 1, Arms: make([]load.Arm, 1)}
	a := &active{load: probe, plan: &p, clock: newClock(), timeout: timeout, rtt: result.NewRTT(), lateness: result.NewRTT()}
	f := newFakeProber(t, a.clock)
	set(f)
	a.prober = f
	if err := a.runSchedule(10*time.Millisecond, 200*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if a.ping.requests != 200 || a.ping.replies+a.ping.lost != 200 || a.rtt.TotalCount() != a.ping.replies || a.lateness.TotalCount() != 200 {
		t.Errorf("%+v; %d round trips, %d of lateness", a.ping, a.rtt.TotalCount(), a.lateness.TotalCount())
	}
	return a
}

// A client that does not get to send for 50 ms leaves none of those requests out, and none
// of the time that they waited.
func TestScheduleLeavesNothingOut(t *testing.T) {
	a := runFake(t, time.Second, func(f *fakeProber) {
		f.onSend = func(nth int) error {
			if nth == 60 {
				time.Sleep(50 * time.Millisecond)
			}
			return nil
		}
	})
	if a.ping.missed < 45 || a.ping.lost != 0 {
		t.Errorf("%d missed, %d lost", a.ping.missed, a.ping.lost)
	}
	// 49 requests waited up to 49 ms: the 90th percentile of 200 is above 25 ms.
	for name, h := range map[string]float64{"round trip": float64(a.rtt.ValueAtQuantile(90)), "lateness": float64(a.lateness.ValueAtQuantile(90))} {
		if h < 25e6 {
			t.Errorf("90th percentile of %s is %v", name, time.Duration(h))
		}
	}
}

// A path without room for a request gets it later.
func TestScheduleWaitsForRoom(t *testing.T) {
	var from time.Time
	a := runFake(t, time.Second, func(f *fakeProber) {
		f.onSend = func(nth int) error {
			switch {
			case nth != 60:
				return nil
			case from.IsZero():
				from = time.Now()
			case time.Since(from) > 40*time.Millisecond:
				return nil
			}
			return unix.EAGAIN
		}
	})
	if a.ping.lost != 0 || a.ping.missed < 35 {
		t.Errorf("%d lost, %d missed", a.ping.lost, a.ping.missed)
	}
}

// A path that has room for nothing any more loses everything, in its time.
func TestScheduleGivesUp(t *testing.T) {
	a := runFake(t, 100*time.Millisecond, func(f *fakeProber) {
		f.onSend = func(nth int) error {
			if nth == 60 {
				return unix.EAGAIN
			}
			return nil
		}
	})
	if a.ping.lost < 150 || a.ping.missed < 100 {
		t.Errorf("%d lost, %d missed", a.ping.lost, a.ping.missed)
	}
}

// Answers that come twice count once, and those that come too late are lost.
func TestScheduleAnswers(t *testing.T) {
	a := runFake(t, 100*time.Millisecond, func(f *fakeProber) {
		f.delay = func(nth int) (time.Duration, int) {
			switch {
			case nth == 40:
				return 150 * time.Millisecond, 1
			case nth == 50:
				return 0, 0
			}
			return 0, 2
		}
	})
	if a.ping.late < 1 || a.ping.lost < 2 || a.ping.headReplies > 10 {
		t.Errorf("%+v", a.ping)
	}
	// The answer to a request of the slice before is late, too.
	late := a.ping.late
	table := timetable{Timetable: pace.NewTimetable(1000, 0, time.Millisecond)}
	table.trackAnswers()
	a.prober.(*fakeProber).answers = []fakeAnswer{{a.base - 1, 0}}
	if err := a.takeReady(&table); err != nil || a.ping.late != late+1 {
		t.Errorf("%d late, %d before: %v", a.ping.late, late, err)
	}
}

func TestChecksum(t *testing.T) {
	for text, want := range map[string]uint16{"": 0xffff, "\x00\x01\xf2\x03\xf4\xf5\xf6\xf7": 0x220d, "\x01": 0xfeff, "\xff\xff\xff\xff": 0} {
		if got := checksum([]byte(text)); got != want {
			t.Errorf("%x: %04x, want %04x", text, got, want)
		}
	}
}
