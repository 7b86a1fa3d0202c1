package readers_test

import (
	"testing"

	"github.com/vishvananda/netlink/nl"

	"github.com/venturi-net/venturi/internal/fastpath/readers"
)

// What queueing disciplines read besides filters is found, and what a later kernel adds is named.
func TestQueueOptions(t *testing.T) {
	option := func(number int, value uint32) []byte { return nl.NewRtAttr(number, nl.Uint32Attr(value)).Serialize() }
	for _, c := range []struct {
		kind     string
		options  []byte
		byMarks  bool
		unproven string
	}{
		{"cake", nil, false, ""},
		{"cake", append(option(2, 1000), option(18, 0)...), false, ""},
		{"cake", append(option(2, 1000), option(18, 0xf)...), true, ""},
		{"cake", option(11, 0), false, ""},
		{"cake", append(option(11, 1), option(18, 1)...), true, "nat"},
		{"cake", option(unseen, 0), false, "attribute 200"},
		{"cake", option(18, 1)[:6], false, "options that cannot be read"},
		{"red", append(option(1, 7), option(4, 0)...), false, ""},
		{"red", append(option(1, 7), option(5, 10)...), false, "qevent early_drop"},
		{"red", option(6, 10), false, "qevent mark"},
		{"red", option(18, 1), false, "attribute 18"},
		{"htb", option(18, 1), false, ""},
		{"pfifo", []byte{1, 0, 0, 0}, false, ""}, // which are no attributes
	} {
		if marks, unproven := readers.QueueOptions(c.kind, c.options); marks != c.byMarks || unproven != c.unproven {
			t.Errorf("%s with % x: by marks %v, unproven %q; want %v and %q",
				c.kind, c.options, marks, unproven, c.byMarks, c.unproven)
		}
	}
}
