package meter

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/venturi-net/venturi/internal/verr"
)

// counter is a sampler whose counters the test moves.
type counter struct {
	now    int64
	fail   error
	closed int
}

func (c *counter) Keys() []string     { return []string{"c/one", "c/two"} }
func (c *counter) Resolution() string { return "exact" }
func (c *counter) Close() error       { c.closed++; return nil }
func (c *counter) Sample(arm int, dst []int64) error {
	dst[0], dst[1] = c.now, int64(arm)
	return c.fail
}

func newTestRecorder(c Sampler) *Recorder {
	r := &Recorder{machine: "m1", arms: []Arm{{Name: "host"}, {Name: "vxlan"}, {Name: "idle"}}}
	r.add("c", c)
	return r
}

func TestRecorderSumsPerArm(t *testing.T) {
	c := &counter{}
	r := newTestRecorder(c)
	slice := func(arm int, inside, after int64) {
		r.Begin(arm)
		c.now += inside
		r.End(arm)
		c.now += after
	}
	slice(0, 10, 1000) // what happens between slices is nobody's
	slice(1, 5, 1000)
	slice(0, 7, 1000)
	r.End(0) // no Begin
	r.Begin(1)
	c.now += 500
	slice(1, 1, 0) // the one before it broke
	r.Begin(7)     // no such arm
	r.End(-1)

	got := r.Meters()
	if len(got) != 2 {
		t.Fatalf("%d meters, want one for each arm that had slices: %+v", len(got), got)
	}
	for i, want := range []struct {
		arm string
		sum int64
	}{{"host", 17}, {"vxlan", 6}} {
		m := got[i]
		if m.Arm != want.arm || m.Values["c/one"] != want.sum || m.Values["c/two"] != 0 {
			t.Errorf("meter %+v, want arm %s with sum %d", m, want.arm, want.sum)
		}
		if m.Machine != "m1" || m.Name != "c" || m.Resolution != "exact" || m.WallNs <= 0 {
			t.Errorf("meter %+v is not labelled", m)
		}
	}
	if err := r.Close(); err != nil || c.closed != 1 {
		t.Errorf("close: %v, closed %d times", err, c.closed)
	}
}

// TestRecorderGivesNoValuesAfterAFailedSlice: sums of some slices would be
// divided by the work of all of them.
func TestRecorderGivesNoValuesAfterAFailedSlice(t *testing.T) {
	c := &counter{}
	r := newTestRecorder(c)
	r.Begin(0)
	c.now += 3
	r.End(0)
	r.Begin(0)
	c.now, c.fail = 100, errors.New("file is gone")
	r.End(0)
	r.Begin(1)
	r.End(1)
	got := r.Meters()
	if len(got) != 2 {
		t.Fatalf("%d meters, want one for each arm that had slices: %+v", len(got), got)
	}
	if got[0].Values != nil {
		t.Errorf("an arm with one slice read of two has values %v", got[0].Values)
	}
	if !strings.Contains(got[0].Resolution, "1 of 2 slices not read: file is gone") {
		t.Errorf("resolution %q does not tell of the failure", got[0].Resolution)
	}
	if got[1].Values != nil {
		t.Errorf("an arm that never was read has values %v", got[1].Values)
	}
	if !strings.Contains(got[1].Resolution, "1 of 1 slices not read: file is gone") {
		t.Errorf("resolution %q does not tell of the failure", got[1].Resolution)
	}
}

// sampleCounter is a sampler that counts the samples of each arm, and lets others run in the middle of one.
type sampleCounter struct {
	counter
	samples  [3]int64
	sampling atomic.Bool
	overlaps atomic.Int64
}

func (c *sampleCounter) Sample(arm int, dst []int64) error {
	if c.sampling.Swap(true) {
		c.overlaps.Add(1)
	}
	c.samples[arm]++
	runtime.Gosched()
	dst[0], dst[1] = c.samples[arm], 1000*c.samples[arm]
	c.sampling.Store(false)
	return nil
}

// TestRecorderIsSafe runs slices of two arms at the same time: each has its own sums, and samples, which
// share their files, come one after the other.
func TestRecorderIsSafe(t *testing.T) {
	const slices = 100
	c := &sampleCounter{}
	r := newTestRecorder(c)
	var wg sync.WaitGroup
	for arm := range 2 {
		wg.Go(func() {
			for range slices {
				r.Begin(arm)
				r.End(arm)
				r.Meters()
			}
		})
	}
	wg.Wait()
	got := r.Meters()
	if len(got) != 2 {
		t.Fatalf("%d meters, want one for each arm that had slices: %+v", len(got), got)
	}
	for _, m := range got {
		if m.Values["c/one"] != slices || m.Values["c/two"] != 1000*slices {
			t.Errorf("%d slices of %s sum up to %v", slices, m.Arm, m.Values)
		}
	}
	if n := c.overlaps.Load(); n > 0 {
		t.Errorf("%d samples began during another", n)
	}
}

func TestUnknownMeter(t *testing.T) {
	_, err := NewRecorder("m1", []string{"softnet", "moon"}, Setup{Root: fixture})
	if verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), "moon") {
		t.Errorf("got %v", err)
	}
}

func TestNoMeters(t *testing.T) {
	r, err := NewRecorder("m1", nil, Setup{Arms: []Arm{{Name: "host"}}})
	if err != nil {
		t.Fatal(err)
	}
	r.Begin(0)
	r.End(0)
	if m := r.Meters(); m != nil {
		t.Errorf("got %v", m)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
