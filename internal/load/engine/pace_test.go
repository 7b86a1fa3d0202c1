package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/load"
)

// A stream with a rate sends what is due, never more, and its books balance. Whether it
// can hold the rate depends on the machine, and is no test.
func TestPace(t *testing.T) {
	for i, c := range []struct {
		load  load.Load
		rate  float64
		size  int
		flows int
		batch int
		asked int64 // in 100 ms and a head of 2 ms
	}{
		{udpBW, 10_000, 64, 1, 0, 1020},
		{udpBW, 10_000, 64, 4, 0, 1020},
		{udpBW, 50_000, 64, 1, 8, 5100},
		{tcpBW, 1e9, 1 << 16, 1, 0, 195},
		{tcpBW, 1e7, 1000, 3, 0, 129},
	} {
		t.Run(fmt.Sprintf("%s at %s, %d flows", c.load.Name, load.FormatRate(c.rate), c.flows), func(t *testing.T) {
			p := loopback(t, c.load.Name, 1, c.flows, c.size, 29000+20*i)
			p.Rate, p.Slice, p.Batch = c.rate, 100*time.Millisecond, c.batch
			var sent, asked int64
			for _, r := range run(t, p) {
				if r.Err != nil {
					t.Fatal(r.Err)
				}
				sent += r.Stream.SentMessages
				asked += r.Stream.AskedMessages
				if off := r.Stream.AskedMessages - c.asked; off < -2 || off > 2 {
					t.Errorf("%d messages due, want %d", r.Stream.AskedMessages, c.asked)
				}
				if r.Stream.SentMessages > r.Stream.AskedMessages || r.Stream.RecvMessages > r.Stream.SentMessages {
					t.Errorf("%d asked, %d sent, %d received", r.Stream.AskedMessages, r.Stream.SentMessages, r.Stream.RecvMessages)
				}
				if took := time.Duration(r.Stream.SendNs); took > 2*p.Slice {
					t.Logf("a slice of %v took %v", p.Slice, took)
				}
			}
			if sent == 0 || asked == 0 {
				t.Error("nothing was sent")
			}
		})
	}
}

// The rate holds on a sender that sleeps too long: it sends what became due.
func TestPaceCatchesUp(t *testing.T) {
	table := newTimetable(1000, 0, time.Second)
	for now, want := range map[int64]int{0: 1, 999_999: 1, 1_000_000: 2, 500_500_000: 501, 2_000_000_000: 1000} {
		if got := table.dueBy(now); got != want {
			t.Errorf("%d messages due after %d ns, want %d", got, now, want)
		}
	}
}
