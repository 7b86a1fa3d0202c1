package lab

import (
	"slices"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/verr"
)

func TestParseCores(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "",
		"m1=0 m2=1":           "m1=0 m2=1",
		"m2=1,m1=0":           "m1=0 m2=1",
		"m1=0,2-3 m2=1,4":     "m1=0,2-3 m2=1,4",
		"m1=3,0-1,0,m2=4-5":   "m1=0-1,3 m2=4-5",
		" m1=0  m2=1 m10=2-3": "m1=0 m10=2-3 m2=1",
	} {
		got, err := ParseCores(text)
		if err != nil || got.String() != want || (got == nil) != (want == "") {
			t.Errorf("%q is read as %q: %v, want %q", text, got, err, want)
		}
	}
	for text, why := range map[string]string{
		"0":           "belongs to no machine",
		"m1":          "belongs to no machine",
		"m1= m2=1":    "has no cores",
		"m1=0 m1=1":   "named twice",
		"m1=x":        "has no cores",
		"m1=none":     "has no cores",
		"m1=-1":       "has no cores",
		"m1=2-1":      "has no cores",
		"m1=0-999999": "has no cores",
	} {
		if got, err := ParseCores(text); verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), why) {
			t.Errorf("%q is read as %q: %v, want %q", text, got, err, why)
		}
	}
}

// Cores that a lab cannot have are refused before anything is made.
func TestCheckCores(t *testing.T) {
	for text, why := range map[string]string{
		"m1=0 m2=1":      "",
		"m1=0 m2=1 m3=2": `no machine "m3"`,
		"m1=0":           "m2 has no cores",
		"m1=0 m2=0-1":    "core 0 is that of m1 and of m2",
		"m01=0 m2=1":     `no machine "m01"`,
		"host=0 m2=1":    `no machine "host"`,
		"m1=0 m2=8000":   "core 8000 is not one of those",
	} {
		cores, err := ParseCores(text)
		if err != nil {
			t.Fatal(err)
		}
		if err = cores.check(DefaultHosts); err == nil && why != "" {
			err = cores.checkHere()
		}
		if why == "" && err != nil || why != "" && (verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), why)) {
			t.Errorf("%q: %v, want %q", text, err, why)
		}
	}
}

// That a core is isolated is said of one on which nothing runs for that.
func TestCheckIsolatedCores(t *testing.T) {
	err := Cores{"m1": {0}, "m2": {3}}.checkAmong([]int{0, 1}, []int{2, 3})
	if verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), "core 3") || !strings.Contains(err.Error(), "isolated") {
		t.Errorf("got %v, want that core 3 is isolated", err)
	}
	if err := (Cores{"m1": {0}, "m2": {3}}).checkAmong([]int{0, 3}, []int{2, 3}); err != nil {
		t.Errorf("an isolated core on which a process may run: %v", err)
	}
}

// What a card receives goes to its machine's cores, and with rss=l3 to one of them.
func TestReceiveCPUs(t *testing.T) {
	for _, c := range []struct {
		wire string
		own  []int
		want []int
	}{
		{"", nil, nil},
		{"", []int{2, 3}, []int{2, 3}},
		{"rss=l3", []int{2, 3}, []int{3}},
		{"rss=l4", []int{2, 3}, []int{2, 3}},
		{"", []int{2, 5}, []int{2, 5}},
		{"rss=l3", []int{2, 3, 5}, []int{3}},
		{"rss=l4", []int{2, 5, 6}, []int{2, 6}},
	} {
		w, err := ParseWire(c.wire)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := w.receiveCPUs(c.own, []int{5}); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("rss %q with %v: %v, %v, want %v", w.RSS, c.own, got, err, c.want)
		}
	}
	got, err := Wire{RSS: RSSPorts}.receiveCPUs([]int{5, 6}, []int{5, 6})
	if verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), "isolated") {
		t.Errorf("cores that are all isolated: %v, %v, want a usage error", got, err)
	}
}
