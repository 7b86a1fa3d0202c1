package nic

import (
	"maps"
	"testing"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/verr"
)

// A driver that knows no adaptive mode, as igb and e1000e, has it off.
func TestCoalesceWithoutAdaptiveMode(t *testing.T) {
	h := fieldsReading{order: []string{"rx-usecs"}, now: fieldSet{"rx-usecs": "3"}}
	k := coalesce.Knob.(fields)
	if want, err := k.parse(h, knob.Target{}, "adaptive-rx=off,rx-usecs=0"); err != nil || !maps.Equal(want, fieldSet{"rx-usecs": "0"}) {
		t.Errorf("it would be set %v (%v)", want, err)
	}
	for _, value := range []string{"adaptive-rx=on", "adaptive-rx=off,tx-usecs=0"} {
		if _, err := k.parse(h, knob.Target{}, value); verr.Code(err) != verr.Missing {
			t.Errorf("%s: %v", value, err)
		}
	}
}
