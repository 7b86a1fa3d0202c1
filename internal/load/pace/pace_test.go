package pace

import (
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/load"
)

// sleepySender is a sender that wakes late. Its clock moves on when it sleeps, and by what it
// takes to read the clock and to send.
type sleepySender struct {
	clock  int64
	late   func(now int64) time.Duration
	cost   int64 // ns, of a part
	stop   int64 // ns; 0: never
	bursts []burstAt
}

// burstAt is what was sent at a time.
type burstAt struct {
	time int64
	n    int
}

func (o *sleepySender) Now() int64    { o.clock += 50; return o.clock }
func (o *sleepySender) Stopped() bool { return o.stop > 0 && o.clock >= o.stop }

func (o *sleepySender) SleepUntil(at int64) {
	o.clock = max(o.clock, at)
	o.clock += o.late(o.clock).Nanoseconds()
}

func (o *sleepySender) SendParts(_, n int) (int, error) {
	o.bursts = append(o.bursts, burstAt{o.clock, n})
	o.clock += int64(n) * o.cost
	return n, nil
}

// However late a sender is, it sends at most a burst at once, and catchUp times its rate until it
// has made up for it; and all that was asked for.
func TestPaceAfterStall(t *testing.T) {
	const slice = 100 * time.Millisecond
	always := func(d time.Duration) func(int64) time.Duration { return func(int64) time.Duration { return d } }
	once := func(d time.Duration) func(int64) time.Duration {
		return func(now int64) time.Duration {
			if late := 30 * time.Millisecond.Nanoseconds(); now < late || now > late+d.Nanoseconds() {
				return 10 * time.Microsecond
			}
			return d
		}
	}
	for _, c := range []struct {
		name           string
		rate           float64 // messages a second
		parts, packets int
		late           func(int64) time.Duration
		most           int // parts at once
	}{
		{"on time", 10_000, 1, 1, always(0), load.MaxBurst},
		{"late by 10 us", 500_000, 1, 1, always(10 * time.Microsecond), load.MaxBurst},
		{"late by 60 us", 320_000, 1, 1, always(60 * time.Microsecond), load.MaxBurst},
		{"late by 60 us, fast", 2_000_000, 1, 1, always(60 * time.Microsecond), load.MaxBurst},
		{"stalled for 20 ms", 20_000, 1, 1, once(20 * time.Millisecond), load.MaxBurst},
		{"stalled for 20 ms, fast", 800_000, 1, 1, once(20 * time.Millisecond), load.MaxBurst},
		{"TCP at 20 Gb/s", 20_000, 87, 1, always(60 * time.Microsecond), load.MaxBurst},
		{"TCP, stalled for 20 ms", 2000, 46, 1, once(20 * time.Millisecond), load.MaxBurst},
		{"TCP, slow", 100, 46, 1, always(10 * time.Microsecond), load.MaxBurst},
		{"fragments", 5000, 1, 6, once(20 * time.Millisecond), load.MaxBurst / 6},
		{"datagrams larger than a burst", 1000, 1, 45, once(20 * time.Millisecond), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := &sleepySender{clock: 1e9, late: func(now int64) time.Duration { return c.late(now - 1e9) }}
			p := New(c.rate, slice, c.parts, c.packets)
			if err := p.Run(o); err != nil {
				t.Fatal(err)
			}
			if want := int(c.rate * slice.Seconds()); p.Asked() != want || p.sent != want*c.parts {
				t.Errorf("%d parts sent of %d messages, want all of %d", p.sent, p.Asked(), want)
			}
			partRate := c.rate * float64(c.parts) / 1e9
			for i, first := range o.bursts {
				sent := 0
				for _, b := range o.bursts[i:min(i+200, len(o.bursts))] {
					sent += b.n
					if most := float64(c.most) + catchUp*partRate*float64(b.time-first.time); float64(sent) > most+0.001 {
						t.Fatalf("%d parts within %v, of which %.1f may go", sent, time.Duration(b.time-first.time), most)
					}
				}
			}
		})
	}
}

// A sender that is on time wakes no more often than its rate calls for, and a message of TCP goes
// in as few calls as bursts of 32 packets allow: each costs CPU time, which is the figure.
func TestPaceCalls(t *testing.T) {
	late := func(int64) time.Duration { return 10 * time.Microsecond }
	for name, c := range map[string]struct {
		rate  float64
		parts int
		most  int // calls in 100 ms
	}{
		"datagrams":                  {100_000, 1, 1000},
		"TCP at 1 Gb/s":              {1000, 87, 100*87/load.MaxBurst + 1},
		"TCP at 1 Gb/s, short":       {16_000, 5, 1600},
		"TCP in messages of a burst": {2000, 32, 200},
	} {
		o := &sleepySender{late: late, cost: 200}
		if err := New(c.rate, 100*time.Millisecond, c.parts, 1).Run(o); err != nil {
			t.Fatal(err)
		}
		if len(o.bursts) > c.most {
			t.Errorf("%s: %d calls, want %d at most", name, len(o.bursts), c.most)
		}
	}
}

// A timer that is late by less than a message's interval takes no message of TCP from a slice.
func TestPaceLateTimer(t *testing.T) {
	for _, parts := range []int{46, 30} {
		o := &sleepySender{late: func(int64) time.Duration { return 5 * time.Millisecond }, cost: 200}
		p := New(100, 100*time.Millisecond, parts, 1)
		if err := p.Run(o); err != nil {
			t.Fatal(err)
		}
		if p.Asked() != 10 || p.sent != 10*parts {
			t.Errorf("%d parts sent of %d messages, want all of 10 messages of %d", p.sent, p.Asked(), parts)
		}
	}
}

// A stream that is stopped sends the rest of its message, and is asked for no more.
func TestPaceStopped(t *testing.T) {
	o := &sleepySender{late: func(int64) time.Duration { return 0 }, stop: 10_100_000}
	p := New(1000, 100*time.Millisecond, 46, 1)
	if err := p.Run(o); err != nil {
		t.Fatal(err)
	}
	if p.Asked() != 11 || p.sent != 11*46 {
		t.Errorf("%d messages were asked for, %d parts sent, want 11 and %d", p.Asked(), p.sent, 11*46)
	}
}
