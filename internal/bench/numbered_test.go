package bench

import "testing"

// What comes is told by its number: new, come before, or overtaken.
func TestNumbered(t *testing.T) {
	n := new(numbered)
	for _, number := range []uint64{1, 3, 2, 2, 1 << 17, 4} {
		n.record(number)
	}
	if n.distinct != 5 || n.duplicates != 1 || n.reordered != 2 {
		t.Errorf("%d came, %d twice, %d overtaken, want 5, 1, 2", n.distinct, n.duplicates, n.reordered)
	}
}
