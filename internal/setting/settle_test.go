package setting

import (
	"testing"
	"time"
)

// Whatever makes a device anew has the time that this takes; and what has a time of its own is there.
func TestSettle(t *testing.T) {
	for _, f := range []fields{channels, rings, coalesce, pause} {
		if b := f.backend(); f.disturbs && b.Settle < time.Second {
			t.Errorf("%s is measured %v after drivers make a device anew", b.Name, b.Settle)
		}
	}
	for key := range linkBackend().SettleOf {
		if !linkNumbers[key].written {
			t.Errorf("link has a time for %q, which it does not write", key)
		}
	}
}
