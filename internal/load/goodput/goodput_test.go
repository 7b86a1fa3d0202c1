package goodput

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestArrivals(t *testing.T) {
	c := New(1024, &Window{Head: 10})
	c.Begin()
	for _, at := range []int64{100, 105, 109, 111, 120, 140} {
		c.bytes += 512 // half a message
		c.Read(at)
	}
	// The first ten ns are the head: the window opens at 111, with two messages in.
	if got, want := c.End(), (Account{0, 1024, 111, 140}); got != want {
		t.Errorf("account %+v, want %+v", got, want)
	}
	c.bytes += 512
	c.Read(150)
	if got, want := c.End(), (Account{0, 1024, 111, 140}); got != want {
		t.Errorf("account %+v after the end, want %+v", got, want)
	}
	c.window.Reset()
	c.Begin()
	if got := c.End(); got != (Account{}) || c.window.Head != 10 {
		t.Errorf("after reset: %+v", got)
	}
}

// The rate of an arm is the same over however many flows it is dealt out.
func TestWindowOfManyFlows(t *testing.T) {
	const size, slice, head = 1 << 16, 55e6, 5e6
	for _, c := range []struct {
		flows int
		rate  float64 // bit/s
	}{{1, 20e9}, {8, 1e9}, {32, 0.8e9}, {128, 8e9}, {640, 20e9}, {640, 12e9}} {
		w := &Window{Head: head}
		counts, flows := make([]Arrivals, c.flows), make([]Account, c.flows)
		for i := range counts {
			counts[i] = New(size, w)
			counts[i].Begin()
		}
		each := 8 * size / c.rate * 1e9 // ns that a message takes
		random := rand.New(rand.NewPCG(1, 2))
		for at := 1e9; at < 1e9+slice; {
			for _, i := range random.Perm(c.flows) {
				at += each
				counts[i].Add()
				counts[i].Read(int64(at))
			}
		}
		for i := range flows {
			flows[i] = counts[i].End()
		}
		all := Sum(flows)
		if got := float64(8*all.Bytes) / float64(all.To-all.From) * 1e9; math.Abs(got/c.rate-1) > 0.001 {
			t.Errorf("%d flows have %.3g bit/s, want %.3g", c.flows, got, c.rate)
		}
	}
}

// Of small messages the clock is read the more seldom the more there are, and few are lost to the rate.
func TestReads(t *testing.T) {
	for _, messages := range []int64{1, 63, 100, 127, 500, 1023, 5000, 65535} {
		c := New(1, &Window{})
		c.Begin()
		reads := int64(0)
		for at := range messages {
			if c.Add() {
				c.Read(at + 1)
				reads++
			}
		}
		if lost := messages - c.last.bytes; float64(lost) > 0.02*float64(messages) || messages > 50_000 && reads > messages/15 {
			t.Errorf("%d of %d messages are behind the last of %d readings", lost, messages, reads)
		}
	}
}
