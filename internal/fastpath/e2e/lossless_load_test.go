package e2e

import (
	"bytes"
	"testing"

	"github.com/venturi-net/venturi/internal/bench"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/internal/verify"
)

// underLoad is an arm on which daemons come and go under load.
type underLoad struct {
	name string
	arm  func(t *testing.T) (*lab.Lab, lab.Arm)
}

// Under load, too, nothing is lost when daemons start, stop, are replaced and are killed: over IPv6, over IPIP and
// Geneve, and where the other end is the plain kernel. bench's own test has the rest.
func TestFastPathLossless(t *testing.T) {
	requireFastPath(t)
	if !kernel.HasTCX() {
		t.Skip("this kernel has no tcx, and may drop a packet while clsact is added to a device")
	}
	c := bench.Lossless{Cycles: 2, Unattended: 1, Datagrams: 500, Streams: 1, Rate: 256 << 10}
	var cases []underLoad
	for i, path := range moduleTunnels() { // in short, one each
		if i == 0 || !agenttest.InShortGuest() {
			cases = append(cases, underLoad{path, onBothEnds(path)})
		}
		if i > 0 || !agenttest.InShortGuest() {
			cases = append(cases, underLoad{path + " at one end", onOneEnd(path)})
		}
	}
	if agenttest.InGuest() {
		c.Cycles, c.Unattended, c.Datagrams, c.Rate = 1, 0, 50, 32<<10
	} else {
		cases = append(cases, underLoad{"IPv6", overIPv6(false)}, underLoad{"IPv6 in VXLAN", overIPv6(true)},
			underLoad{"vxlan+fast at one end", onOneEnd("vxlan+fast")}, underLoad{"routed+fast at one end", onOneEnd("routed+fast")})
	}
	for _, each := range cases {
		t.Run(each.name, func(t *testing.T) {
			t.Parallel() // it waits for most of its time
			l, arm := each.arm(t)
			var out bytes.Buffer
			outcomes, err := c.RunArm(t.Context(), l, arm, testenv.Program(t))
			if err == nil {
				err = verify.CheckRequirements(&out, "something is lost", bench.NoLoss(outcomes))
			}
			t.Logf("%+v\n%s", outcomes, out.String())
			testenv.Must(t, err)
		})
	}
}

func onBothEnds(path string) func(*testing.T) (*lab.Lab, lab.Arm) {
	return func(t *testing.T) (*lab.Lab, lab.Arm) {
		l := testenv.Lab(t, lab.Options{Paths: []string{path}})
		return l, l.Arms[0]
	}
}

func onOneEnd(path string) func(*testing.T) (*lab.Lab, lab.Arm) {
	return func(t *testing.T) (*lab.Lab, lab.Arm) {
		l := besidePlain(t, testenv.Lab(t, lab.Options{Paths: []string{path}}), 1)
		return l, l.Arms[0]
	}
}

func overIPv6(tunnelled bool) func(*testing.T) (*lab.Lab, lab.Arm) {
	return func(t *testing.T) (*lab.Lab, lab.Arm) {
		l := testenv.Lab(t, lab.Options{Paths: []string{"routed+fast"}})
		arm := addIPv6(t, l, 0)
		if tunnelled {
			tunnelIPv6(t, l, 0)
		}
		return l, startIPv6(t, l, 0, arm, tunnelled)
	}
}
