package fleet

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/verr"
)

// However many replies a proof gets of a machine, only one that is too long itself ends it, and says so.
func TestTogglesBoundEachReply(t *testing.T) {
	limitReply(t)
	const switches, long = 4, 2048
	f, _ := newFakeFleet(t, func(_ context.Context, i agent.Invocation) int {
		fmt.Fprintln(i.Stdout, `{}`)
		requests := bufio.NewScanner(i.Stdin)
		for n := 0; requests.Scan(); n++ {
			width := 512
			if n == switches {
				width = long
			}
			fmt.Fprintf(i.Stdout, "%*s\n", width, `{}`)
		}
		if requests.Err() != nil {
			return verr.Failed
		}
		return verr.OK
	})
	toggles := f.Toggles([]string{"tune"})
	if _, _, err := toggles.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	for n := range switches {
		if err := toggles.Switch(t.Context(), nil); err != nil {
			t.Errorf("switch %d: %v", n, err)
		}
	}
	if err := toggles.Switch(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "longer than 1024 bytes") {
		t.Errorf("a reply of %d bytes: %v", long, err)
	}
	if err := toggles.Close(); err != nil {
		t.Error(err)
	}
}
