package path_test

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/internal/testenv/fastpathtest"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
)

// What is on the wire is what the table of variants says, and what the driver
// says of its overhead. The wire's cards can do nothing, so every byte is as a
// network card would send it, checksums included.
//
// It is the suite in short: what it did with a variant goes into the ledger.
func TestOnTheWire(t *testing.T) {
	testenv.Root(t)
	list := all(t)
	if agenttest.InGuest() && agenttest.ChosenPart() == "" {
		list = pick(t, first)
	}
	for list := range slices.Chunk(list, atOnce()) {
		t.Run(list[0].spec, func(t *testing.T) { onTheWire(t, list) })
	}
}

// atOnce is how many variants are raised at once: all, but on an emulated CPU,
// where so many daemons would wait for each other all too long.
func atOnce() int {
	if host.ScaleTimeout(1) > 1 {
		return 8
	}
	return 1 << 10
}

func onTheWire(t *testing.T, list []variant) {
	suite.begins(list)
	start := time.Now()
	l := testenv.Lab(t, labOf(t, list, "csum=off"))
	t.Logf("up after %v", time.Since(start).Round(time.Millisecond))
	var good []variant
	for i, arm := range l.Arms {
		if list[i].run(t, arm.Name, func(t *testing.T) {
			looks(t, l, i, list[i])
			if len(arm.Pins) > 0 {
				fastpathtest.CheckForbid(t, arm, l.Machines[1])
			}
		}) {
			good = append(good, list[i])
		}
	}
	testenv.Must(t, l.Down())
	for _, v := range good {
		suite.set(v.spec, ran)
	}
}

func looks(t *testing.T, l *lab.Lab, index int, v variant) {
	arm, r := l.Arms[index], newReader(l, index)
	const size = 100
	const inner = 14 + traffic.UDPHeaders + size
	payloads := make([][]byte, v.pods)
	namespace, device := v.card.find(t, l, arm)
	frames := traffic.Capture(t, namespace, device, func() {
		for k := range payloads {
			payloads[k] = make([]byte, size)
			rand.Read(payloads[k])
			testenv.Must(t, traffic.Exchange(t, arm.Ends[0][k], arm.Ends[1][k], payloads[k]))
		}
	})
	outer := strings.NewReplacer()
	if v.ownOuter && slices.ContainsFunc(l.Arms[:index], func(before lab.Arm) bool { return before.Path == arm.Path }) {
		outer = strings.NewReplacer("m1>m2", "m1.t1>m2.t1")
	}
	for k, payload := range payloads {
		there := fmt.Sprintf("%s %d bytes", outer.Replace(v.frame(k+1)), inner+arm.Overhead)
		want := []string{there, mirror(there)}
		// One that was sent again is there again.
		if got := slices.Compact(r.find(frames, payload)); !slices.Equal(got, want) {
			t.Errorf("%s, pod %d: on %s are\n  %s\nwant\n  %s", v.spec, k+1, device, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		}
	}
	if v.card != onPod {
		wholeOutside(t, l, index, v)
	}
}

// wholeOutside: a pod knows how much fits, so whatever it sends, nothing has to
// be cut outside of the inner packet.
func wholeOutside(t *testing.T, l *lab.Lab, index int, v variant) {
	arm, r := l.Arms[index], newReader(l, index)
	namespace, device := v.card.find(t, l, arm)
	frames := traffic.Capture(t, namespace, device, func() {
		traffic.CheckTCP(t, arm.Client(), arm.Server())
		traffic.CheckUDP(t, arm.Client(), arm.Server(), []int{3 * arm.Client().MTU})
	})
	most, many := 14+arm.Client().MTU+arm.Overhead, 0
	for _, f := range frames {
		text, _ := r.read(f)
		if overwritten(text) {
			continue
		}
		if len(f) > most || arm.Overhead > 0 && cutOutside(text) {
			t.Errorf("%s: on %s is %s of %d bytes, want none cut outside and none above %d", v.spec, device, text, len(f), most)
			return
		}
		if len(f) == most {
			many++
		}
	}
	if many < traffic.ContentBytes/most {
		t.Errorf("%s: on %s are %d frames of %d bytes, want at least %d", v.spec, device, many, most, traffic.ContentBytes/most)
	}
}

// overwritten tells whether a frame is no longer what was on the wire. The socket
// that frames are captured with shares their memory with the kernel, and some
// kernels write the next header into it when they forward what was in an IPIP.
// The first header's checksum then is wrong, which in [looks] would be an error.
func overwritten(text string) bool {
	first, _, _ := strings.Cut(text, ")")
	return strings.HasPrefix(first, "eth ip(") && strings.HasSuffix(first, " badsum")
}

// cutOutside tells whether a frame of a path with an overhead is part of what
// was cut between machines, and not by a pod.
func cutOutside(text string) bool {
	for _, header := range strings.Split(text, " ip(")[1:] {
		header, _, _ = strings.Cut(header, ")")
		if strings.Contains(header, " cut") && !strings.Contains(header, ".pod") {
			return true
		}
	}
	return false
}

// find gives the device of m1 on which the frames of an arm are to be seen.
func (c card) find(t *testing.T, l *lab.Lab, arm lab.Arm) (namespace, device string) {
	t.Helper()
	m := l.Machines[0]
	switch c {
	case onWire:
		return m.Namespace, "wire0"
	case onCard:
		index := slices.IndexFunc(l.Arms, func(a lab.Arm) bool { return a.Name == arm.Name })
		return m.Namespace, fmt.Sprintf("card%d", index)
	case onPod:
		return arm.Client().Namespace, arm.Client().Device
	}
	for _, s := range m.Switches {
		if s.Name == m.Name+"/"+arm.Name+".ovs" {
			return s.Path, "card0"
		}
	}
	t.Fatalf("%s has no switch on %s: %v", arm.Name, m.Name, m.Switches)
	return "", ""
}
