package tune

import (
	"testing"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/testenv"
)

// A device that is named twice is one target, and one that is no network card is named with
// the reason.
func TestNamedDevices(t *testing.T) {
	testenv.Root(t)
	c := testenv.Containers(t, 1500)
	var targets Targets
	for range 2 {
		if err := targets.AddDevice(knob.Target{Netns: c[0].In.Path(), Device: "eth0"}); err != nil {
			t.Fatal(err)
		}
	}
	if len(targets.Veths) != 1 || len(targets.NICs) != 0 {
		t.Errorf("targets %+v", targets)
	}
	if got, want := NICs.absent(targets), "no nics are named: eth0 is a veth or netkit"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
