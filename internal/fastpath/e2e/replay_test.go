package e2e

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
)

// replayed is a case of the suite: frames which are sent over a path without the
// fast path and with it, while their flows are carried there. What arrives must be
// the same.
type replayed struct {
	name   string
	frames func(s *scene) []frame
	wire   bool // they are put on the wire, not sent by the pod
	// carried: some of them are, so that it is not two slow paths that are compared.
	carried bool
	// bursts: they are datagrams to be cut; see takesBursts.
	bursts bool
	// kind: there is nothing to see on other paths; empty: all. It is the beginning of their names,
	// or [anyTunnel] or [inUDP].
	kind string
	// allowed is what may differ, and why; nil: nothing.
	allowed *accepted
}

// Kinds of paths that put headers around packets: any, and those in UDP.
const (
	anyTunnel = "tunnels"
	inUDP     = "tunnels in UDP"
)

// accepted is a difference that is meant to be.
type accepted struct {
	reason string
	// fastOnly tells of a line which the fast path alone gives that it may, and less the
	// same of the slow path alone; nil: none may.
	fastOnly, slowOnly func(line string) bool
	tracked            bool // only where connections are tracked
}

// Differences that are meant to be. What else is different on the wire is left out
// when frames are read, see [view]: the outer UDP source port and checksum, the
// outer number of the packet; and padding behind a packet.
var (
	badSum = &accepted{
		reason:   "the checksum of a pod's own IP header is left to the pod, which drops the packet: to compute it would cost each packet",
		fastOnly: func(line string) bool { return strings.Contains(line, " bad-ip-sum ") },
	}
	invalid = &accepted{
		reason: "kube-proxy drops what conntrack calls invalid, for the sake of addresses that are then not translated back; the fast path\n" +
			"translates all packets of a flow, conntrack does not see all of their segments, and a checksum of all that is in a packet costs as\n" +
			"much as to carry it: so the pod judges, as it does without a packet filter. Its sockets get no more",
		fastOnly: func(line string) bool { return !strings.HasPrefix(line, "socket:") },
		tracked:  true,
	}
	congested = &accepted{
		reason:   "where a pod has marked congestion itself, RFC 6040 says so outside, too; the kernel still keeps to RFC 3168, which says that it could be marked",
		fastOnly: func(line string) bool { return hasOuterTOS(line, "03") },
		slowOnly: func(line string) bool { return hasOuterTOS(line, "02") },
	}
)

// hasOuterTOS tells whether a packet on the wire has a TOS in the outer of two IP headers.
func hasOuterTOS(line, tos string) bool {
	const header = " v4 tos"
	_, rest, _ := strings.Cut(line, header)
	return isOnWire(line) && strings.Count(line, header) == 2 && strings.HasPrefix(rest, tos+" ")
}

// isOnWire tells whether a line is of a packet on the wire, or on a card below it.
func isOnWire(line string) bool {
	return strings.HasPrefix(line, "wire: ") || strings.HasPrefix(line, "card: ")
}

func (a *accepted) says(line string, more, tracked bool) bool {
	if a == nil || a.tracked && !tracked {
		return false
	}
	says := a.slowOnly
	if more {
		says = a.fastOnly
	}
	return says != nil && says(line)
}

// sceneVNI is that of the first path of a lab.
const sceneVNI = 100

// sceneGeneve are the options of a lab's path by which scenes know its tunnel.
func sceneGeneve(index int) string {
	return fmt.Sprintf("vni=%d,port=%d", sceneVNI+index, geneveScenes+index)
}

// scenes are the paths of a lab for replays: each beside itself, accelerated. In a guest with netkit pairs, these
// stand in for what any kernel has; in a short one, only tunnels that this machine's own kernel may lack are left.
func scenes() (paths []string) {
	tunnels := moduleTunnels()
	netkit, _ := feature.Netkit.Ask()
	switch {
	case agenttest.InShortGuest() && len(tunnels) > 0:
	case agenttest.InGuest() && netkit == feature.Yes:
		paths = []string{"netkit", "netkit+fast", "netkit:mode=l2", "netkit+fast:mode=l2"}
	default:
		paths = []string{"vxlan:vni=100", "vxlan+fast:vni=101", "routed", "routed+fast"}
	}
	for _, fast := range tunnels {
		if strings.HasPrefix(fast, "geneve") {
			slow, fast := sceneGeneve(len(paths)), sceneGeneve(len(paths)+1)
			paths = append(paths, "geneve:devices=each,"+slow, "geneve+fast:"+fast)
			continue
		}
		paths = append(paths, slowTwin(fast), fast)
	}
	return paths
}

// replayLab is a lab for replays.
type replayLab struct {
	wire     string
	services int
}

// The fast path delivers what the slow path does, with the same headers, and drops
// what it drops. Frames are made by hand, so nothing is left to a kernel's choice,
// and none is waited for that is not to come: marks behind it come instead.
func TestFastPathReplays(t *testing.T) {
	requireFastPath(t)
	labs := []replayLab{{"", 30}, {"tunnel-tso=off", 0}, {"csum=off", 30}, {"tso=off,gro=on", 0}}
	switch { // an emulated CPU takes its time
	case agenttest.InShortGuest():
		labs = []replayLab{{"", 0}}
	case agenttest.InGuest():
		labs = labs[:1]
	case !agenttest.InFull():
		labs = []replayLab{labs[0], labs[3]} // with rules and without, and where cards cut nothing or all
	}
	if os.Getenv(replaysEnv) != "" {
		labs = nil
		for _, wire := range append(traffic.Wires[:5:5], "tso=off,gro=on") { // all on which the frames fit
			labs = append(labs, replayLab{wire, 0}, replayLab{wire, 30})
		}
	}
	for _, o := range labs {
		wire, err := lab.ParseWire(o.wire)
		testenv.Must(t, err)
		l := testenv.Lab(t, lab.Options{Paths: scenes(), Wire: wire, Services: o.services})
		t.Run(fmt.Sprintf("%s %d services", wire, o.services), func(t *testing.T) { replay(t, l) })
		testenv.Must(t, l.Down())
	}
}

func replay(t *testing.T, l *lab.Lab) {
	pin(t)
	seed, many := testenv.Generated(t, replaysEnv, fewRandom)
	for i := 0; i < len(l.Arms); i += 2 {
		slow, fast := newScene(t, l, i), newScene(t, l, i+1)
		cases := slices.Concat(podReplays, wireReplays)
		if agenttest.InShortGuest() {
			replayCases(t, slow, fast, slices.DeleteFunc(cases, func(c replayed) bool { return !c.carried && c.kind == "" }))
			continue
		}
		replayCases(t, slow, fast, cases)
		if l.Services == 0 { // where connections are tracked, those that end leave traces
			replayRandom(t, slow, fast, seed, many)
		}
		replayNarrow(t, l, slow, fast)
		replayOneWay(t, slow, fast, oneWayReplays)
	}
}

// replayCases compares those of some cases that concern a path.
func replayCases(t *testing.T, slow, fast *scene, cases []replayed) {
	t.Helper()
	for _, c := range cases {
		if c.concerns(slow) {
			c.compare(t, slow, fast)
		}
	}
}

// concerns tells whether there is something to see of a case on a path.
func (c replayed) concerns(s *scene) bool {
	return (strings.HasPrefix(s.arm.Path, c.kind) || c.kind == anyTunnel && s.tunnels() || c.kind == inUDP && s.tunnelsInUDP()) && (!c.bursts || takesBursts())
}

// pin keeps the test on one CPU, and with it all that the kernel does for packets
// which it sends: so they stay in their order.
func pin(t *testing.T) {
	runtime.LockOSThread()
	var all, one unix.CPUSet
	testenv.Must(t, unix.SchedGetaffinity(0, &all))
	for cpu := range 1 << 10 {
		if all.IsSet(cpu) {
			one.Set(cpu)
			break
		}
	}
	testenv.Must(t, unix.SchedSetaffinity(0, &one))
	t.Cleanup(func() {
		testenv.Must(t, unix.SchedSetaffinity(0, &all))
		runtime.UnlockOSThread()
	})
}

func (c replayed) compare(t *testing.T, slow, fast *scene) {
	t.Helper()
	want, _ := slow.play(c)
	got, many := fast.play(c)
	more, less := c.refused(want, got, slow.tracked)
	if len(more)+len(less) > 0 {
		t.Errorf("%s, %s: with the fast path alone\n  %s\nwithout it alone\n  %s", fast.arm.Name, c.name, firstLines(more), firstLines(less))
	}
	if c.carried && many <= 0 {
		t.Errorf("%s, %s: nothing of it was carried", fast.arm.Name, c.name)
	}
}

// refused gives what only the fast path let through, and what only the slow one did,
// but for what may be.
func (c replayed) refused(slow, fast []string, tracked bool) (more, less []string) {
	more, less = differ(slow, fast)
	more = slices.DeleteFunc(more, func(line string) bool { return c.allowed.says(line, true, tracked) })
	less = slices.DeleteFunc(less, func(line string) bool { return c.allowed.says(line, false, tracked) })
	return more, less
}

func firstLines(lines []string) string {
	const most = 12
	if len(lines) > most {
		lines = append(lines[:most:most], "...")
	}
	return strings.Join(lines, "\n  ")
}
