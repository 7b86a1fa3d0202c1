package path_test

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
)

// Paths between virtual machines carry content unharmed, are on the wire what
// the table says, can be measured, and end with the lab. Each is raised alone:
// the machines of one are enough to keep a small machine busy.
func TestVirtualMachines(t *testing.T) {
	testenv.Root(t)
	if agenttest.InGuest() {
		t.Skip("no machine is started in a machine")
	}
	for _, d := range path.Table {
		for nth, v := range variants[d.Name] {
			if !v.inVM {
				continue
			}
			t.Run(v.spec, func(t *testing.T) {
				if nth > 0 || d.Name != "vm-vxlan" {
					testenv.NeedsLong(t)
				}
				needKernel(t, v)
				suite.begins([]variant{v})
				l := testenv.Lab(t, labOf(t, []variant{v}, []string{"csum=off", "csum=off,tso=off,tunnel-tso=off,gro=on"}[nth%2]))
				if throughMachines(t, l, v) {
					suite.set(v.spec, ran)
				}
			})
		}
	}
}

// needKernel skips the test where no kernel for the virtual machines is kept,
// unless this is where all of them are.
func needKernel(t *testing.T, v variant) {
	t.Helper()
	arms, err := path.Arms([]string{v.spec}, nil)
	testenv.Must(t, err)
	for _, n := range arms[0].Needs() {
		if answer, why := n.Ask(); answer == feature.No && !testenv.Required() {
			t.Skipf("%s: %v", n, why)
		}
	}
}

func throughMachines(t *testing.T, l *lab.Lab, v variant) bool {
	arm := l.Arms[0]
	near, far := arm.Client(), arm.Server()
	for _, end := range []string{near.Agent, far.Agent, arm.Versions["qemu"], arm.Versions["guest-linux"]} {
		if end == "" {
			t.Errorf("something of the virtual machines is not told: %+v, %v", arm.Ends, arm.Versions)
		}
	}
	if want := l.Machines[0].Addr; near.Addr == want || near.MTU != lab.DefaultWire().MTU-v.less {
		t.Errorf("the near end is %+v", near)
	}
	echoing(t, near)
	echoing(t, far)
	good := t.Run("content", func(t *testing.T) {
		for _, way := range []pair{{near, far}, {far, near}} {
			testenv.Must(t, command(t.Context(), way.from, nil, nil, "carry", way.from.Addr.String(), way.to.Addr.String(), fmt.Sprint(way.from.MTU)))
		}
	})
	good = t.Run("wire", func(t *testing.T) { machinesLook(t, l, v) }) && good
	good = t.Run("loads", func(t *testing.T) { measures(t, l, []variant{v}) }) && good
	return good
}

// machinesLook is what looks and wholeOutside are for other paths.
func machinesLook(t *testing.T, l *lab.Lab, v variant) {
	arm, r := l.Arms[0], newReader(l, 0)
	near, far := arm.Client().Addr.String(), arm.Server().Addr.String()
	namespace, device := v.card.find(t, l, arm)
	const size = 100
	payload := make([]byte, size)
	rand.Read(payload)
	frames := traffic.Capture(t, namespace, device, func() {
		testenv.Must(t, command(t.Context(), arm.Client(), nil, nil, "ping", near, far, hex.EncodeToString(payload)))
	})
	there := fmt.Sprintf("%s %d bytes", v.frame(1), 14+traffic.UDPHeaders+size+arm.Overhead)
	want := []string{there, mirror(there)}
	if got := slices.Compact(r.find(frames, payload)); !slices.Equal(got, want) {
		t.Errorf("on %s are\n  %s\nwant\n  %s", device, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
	frames = traffic.Capture(t, namespace, device, func() {
		testenv.Must(t, command(t.Context(), arm.Client(), nil, nil, "carry", near, far, fmt.Sprint(arm.Client().MTU)))
	})
	most, many := 14+arm.Client().MTU+arm.Overhead, 0
	for _, f := range frames {
		if text, _ := r.read(f); len(f) > most || arm.Overhead > 0 && cutOutside(text) {
			t.Fatalf("on %s is %s of %d bytes, want none cut outside and none above %d", device, text, len(f), most)
		}
		if len(f) == most {
			many++
		}
	}
	if many < traffic.ContentBytes/most {
		t.Errorf("on %s are %d frames of %d bytes, want at least %d", device, many, most, traffic.ContentBytes/most)
	}
}
