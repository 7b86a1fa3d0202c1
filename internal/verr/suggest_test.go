package verr

import "testing"

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "abc", 0}, {"formt", "format", 1}, {"sereis", "series", 2}, {"", "xy", 2}, {"kitten", "sitting", 3}} {
		if got := Distance(c.a, c.b); got != c.want {
			t.Errorf("distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
		if got := Distance(c.b, c.a); got != c.want {
			t.Errorf("distance(%q, %q) = %d, want %d", c.b, c.a, got, c.want)
		}
	}
}

// What is told of a file of ours is not where a message begins.
func TestParseFindsTheMessage(t *testing.T) {
	err := Parse(Failed, "venturi: waiting\nventuri: cannot open it\n  why: mkdir /var/lib/venturi: no\n  do:  nothing\n")
	if err == nil || err.Error() != "cannot open it: mkdir /var/lib/venturi: no (nothing)" {
		t.Errorf("read %v", err)
	}
}
