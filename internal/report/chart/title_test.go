package chart

import (
	"bytes"
	"strings"
	"testing"
)

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
