package chart

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The label at the end of an axis is not cut.
func TestLastTick(t *testing.T) {
	c := Curves{X: Axis{Ticks: []Tick{{1, "1 B"}, {10, "a long label"}}}, Y: Axis{}, Curves: []Curve{{Name: "a", Points: []Point{{X: 1, Y: 1}, {X: 10, Y: 2}}}}}
	var out bytes.Buffer
	if err := c.Draw(&out, Sheet{Width: 340}); err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`<text x="([0-9.]+)"[^>]*>a long label<`).FindStringSubmatch(out.String())
	if found == nil {
		t.Fatalf("no such label: %s", &out)
	}
	if x, err := strconv.ParseFloat(found[1], 64); err != nil || x+textWidth("a long label")/2 > 340 {
		t.Errorf("its middle is at %s of 340", found[1])
	}
}

// A long title of a group goes on in a second line, whole.
func TestLongTitles(t *testing.T) {
	const title = "ping 56 B, 1k/s beside udp_bw 1 B: lower is better"
	for _, c := range []Chart{
		Intervals{Groups: []Group{{Name: title, Rows: []Row{{Name: "a", Value: 1.1}}}}},
		Bars{Groups: []BarGroup{{Name: title, Bars: []Bar{{Name: "a", Parts: []Part{{Name: "b", Value: 1}}}}}}},
	} {
		var out bytes.Buffer
		if err := c.Draw(&out, Sheet{Width: 340}); err != nil {
			t.Fatal(err)
		}
		if text := out.String(); strings.Contains(text, "…") || !strings.Contains(text, "better</text>") {
			t.Errorf("%T cuts the title: %s", c, text)
		}
	}
}
