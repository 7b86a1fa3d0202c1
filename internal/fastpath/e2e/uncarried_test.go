package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
)

// saysSlow checks that a fast path's daemon on the first machine names a kind of traffic that stays slow.
func saysSlow(t *testing.T, arm lab.Arm, what string) {
	t.Helper()
	if len(arm.Pins) == 0 {
		return
	}
	state, err := fastpath.ReadState(fastpath.StateFile(arm.Pins[0]))
	testenv.Must(t, err)
	if !slices.ContainsFunc(state.Uncarried, func(u fastpath.Uncarried) bool { return strings.HasPrefix(u.What, what) }) {
		t.Errorf("of what stays slow, it says %+v", state.Uncarried)
	}
}
