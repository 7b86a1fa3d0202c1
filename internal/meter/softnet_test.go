package meter

import (
	"slices"
	"testing"
)

// Counters of 32 bits wrap on one core and not on another; sums do not.
func TestSoftnetWraps(t *testing.T) {
	m := &softnet{}
	sample := func(text string) (values []int64, err error) {
		values = make([]int64, len(softnetKeys))
		return values, m.count([]byte(text), values)
	}
	first, err := sample("fffffff0 00000001 ffffffff\n00000010 00000000 00000000\n")
	if err != nil {
		t.Fatal(err)
	}
	second, err := sample("00000010 00000001 00000000\n00000015 00000002 00000000\n")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{0x20 + 5, 2, 1} {
		if grown := second[i] - first[i]; grown != want {
			t.Errorf("%s grew by %d, want %d", softnetKeys[i], grown, want)
		}
	}
	if _, err := sample("00000020 00000001 00000000\n"); err == nil {
		t.Error("a core that went is not told")
	}
	third, err := sample("00000021 00000001 00000000\n")
	if err != nil || !slices.Equal(third, []int64{second[0] + 1, second[1], second[2]}) {
		t.Errorf("after that: %v, %v, before it %v", third, err, second)
	}
}
