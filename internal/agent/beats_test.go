package agent

import (
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/load"
)

// TestLongSlices: while a series runs whose slices are longer than an agent waits for its
// controller, silence is no sign of death; after it, it is again.
func TestLongSlices(t *testing.T) {
	p := &pulse{last: time.Now()}
	now := time.Now()
	if p.isSilent(now.Add(deadAfter/2)) || !p.isSilent(now.Add(2*deadAfter)) {
		t.Error("without a series, it is not deadAfter that counts")
	}
	plan := load.Plan{Load: "tcp_lat", Slice: time.Minute, Flows: 1, Arms: make([]load.Arm, 2)}
	end := p.allow(plan)
	if p.isSilent(now.Add(time.Minute + deadAfter)) {
		t.Error("a slice of a minute is taken for the controller's death")
	}
	if !p.isSilent(now.Add(time.Minute + 3*deadAfter)) {
		t.Error("a series keeps the agent for ever")
	}
	end()
	end()
	if now = time.Now(); p.isSilent(now) || !p.isSilent(now.Add(2*deadAfter)) {
		t.Error("the end of the series is not heard")
	}
}
