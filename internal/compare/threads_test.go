package compare

import (
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/verr"
)

// More ends than the machine has threads or files for are refused, with what
// bounds them; few are never asked about.
func TestRoomFor(t *testing.T) {
	much := host.Limit{Room: 1 << 20, Source: "nothing"}
	little := host.Limit{Room: 8000, Source: "pids.max of /x is 8000, of which 0 are used"}
	for _, c := range []struct {
		ends           int
		threads, files host.Limit
		text           string
	}{
		{8192, much, much, ""},
		{3000, little, much, ""},
		{4096, little, much, "they need 8704 threads, and pids.max of /x"},
		{4096, much, little, "they need 8704 open files"},
	} {
		err := roomFor(c.ends, c.threads, c.files)
		if c.text == "" && err != nil || c.text != "" && (verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), c.text)) {
			t.Errorf("%d ends: %v, want %q", c.ends, err, c.text)
		}
	}
	r := resolve(t, Request{Paths: []string{"host", "routed"}, Flows: []int{1, 600}})
	if r.ends() != 1800 || r.checkThreads() != nil {
		t.Errorf("%d ends: %v", r.ends(), r.checkThreads())
	}
}
