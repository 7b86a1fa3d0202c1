package remote_test

import (
	"io"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/remote"
)

// Nothing behind the word is taken, whatever was said before it.
func TestAwaitTakesNoMore(t *testing.T) {
	for _, noise := range []string{"", "Welcome\n", "to\nthis machine\n"} {
		stream := strings.NewReader(noise + "venturi-agent\nfirst")
		err := remote.Await(stream)
		if rest, _ := io.ReadAll(stream); err != nil || string(rest) != "first" {
			t.Errorf("behind %q: left %q, %v", noise, rest, err)
		}
	}
}

// A machine that prints without end is given up, also where it never ends a line.
func TestAwaitWithoutEnd(t *testing.T) {
	for _, noise := range []string{"x", "x\n"} {
		stream := strings.NewReader(strings.Repeat(noise, 1<<20))
		if err := remote.Await(stream); err == nil || !strings.Contains(err.Error(), "prints without end") || stream.Len() < 1<<19 {
			t.Errorf("%q: %v, with %d bytes left", noise, err, stream.Len())
		}
	}
}
