package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
)

// serviceChanges end the traffic of a Service, each in the network's own way: by addresses as
// the pod, the rules or the wire see them, and by what translates.
var serviceChanges = []struct {
	name     string
	machine  int
	do, undo string // words in braces: see [placeholders], and {virtual}
	forgets  bool   // connections are forgotten after both
}{
	{name: "rule for what is translated", do: denial("forward", "0", "{ip} saddr {pod} {ip} daddr {peer}"), undo: allowance},
	{name: "rule for what comes back", do: denial("forward", "0", "{ip} saddr {peer} {ip} daddr {pod}"), undo: allowance},
	{name: "rule for the virtual address", do: denial("prerouting", "-300", "{ip} daddr {virtual}"), undo: allowance},
	{name: "rule for the virtual address as source", do: denial("postrouting", "150", "{ip} saddr {virtual}"), undo: allowance},
	{name: "rule for what was asked for", do: denial("forward", "0", "ct original {ip} daddr {virtual}"), undo: allowance},
	{name: "rule for translated connections", do: denial("forward", "0", "ct status dnat"), undo: allowance},
	{name: "rule on the other machine", machine: 1, do: denial("forward", "0", "{ip} saddr {peer} {ip} daddr {pod}"), undo: allowance},
	{name: "route", do: "ip {-4} route add blackhole {peer}", undo: "ip {-4} route del blackhole {peer}"},
	{name: "policy rule for the virtual address", do: "ip {-4} rule add pref 7{n} from {virtual} blackhole; ip {-4} rule add pref 7{n} from {pod} to {peer} blackhole", undo: "ip {-4} rule del pref 7{n}; ip {-4} rule del pref 7{n}"},
	{name: "next hop", do: "ip neigh replace {hop} lladdr 02:00:00:00:99:99 dev {out}", undo: "ip neigh replace {hop} lladdr {hopmac} dev {out} nud permanent"},
	{name: "Service withdrawn and forgotten", do: "nft add chain {ip} service{n} c '{ policy drop; }'; nft flush chain {ip} service{n} c", forgets: true,
		undo: "nft add chain {ip} service{n} c '{ policy accept; }'; nft add rule {ip} service{n} c {ip} daddr {virtual} udp dport 53 dnat to {endpoint}"},
}

func denial(hook, priority, match string) string {
	return fmt.Sprintf(`nft 'table {ip} deny{n} { chain c { type filter hook %s priority %s; %s drop; }; }'`, hook, priority, match)
}

const allowance = "nft delete table {ip} deny{n}"

// serviceFlow is the traffic of a path's Service: questions that are answered or not.
type serviceFlow struct {
	watched
	extra *strings.Replacer // more words
}

// What ends a Service's traffic does so as soon as it ends other flows, and when it is taken
// back, it is carried again.
func TestFastPathServicesFollowChanges(t *testing.T) {
	requireFastPath(t)
	requireTools(t)
	followServiceChanges(t, testenv.Lab(t, lab.Options{Paths: []string{"vxlan", "routed", "vxlan+fast", "routed+fast"}, Services: 30}))
}

func followServiceChanges(t *testing.T, l *lab.Lab) {
	t.Helper()
	words := func(arm lab.Arm, n int, endpoint netip.AddrPort) *strings.Replacer {
		at := virtual(arm, n).Addr()
		return strings.NewReplacer(append(familyWords(at.Is6()), "{virtual}", at.String(), "{endpoint}", endpoint.String())...)
	}
	var flows [2][]*serviceFlow // as the machines see them
	for n, arm := range l.Arms {
		server := traffic.ListenUDP(t, arm.Server())
		t.Cleanup(traffic.EchoUDP(server))
		t.Cleanup(provide(t, l, n, fmt.Sprintf("udp dport 53 dnat to %s;", addrPort(server))))
		asked := askService(t, arm, n)
		for i := range flows {
			flows[i] = append(flows[i], &serviceFlow{
				watched{Arm: arm, isFast: len(arm.Pins) > 0, out: asked, words: placeholders(t, l, n, i)},
				words(arm, n, addrPort(server)),
			})
		}
	}
	for _, c := range serviceChanges {
		t.Run(c.name, func(t *testing.T) {
			var took []time.Duration
			for try := 1; ; try++ {
				took = append(took, playServiceChange(t, l.Machines[c.machine], flows[c.machine], c.do, c.undo, c.forgets))
				if slices.Min(took) <= changeLimit || try >= changeTries {
					break
				}
			}
			awaitServices(t, flows[0], delivered)
			t.Logf("took hold after %v", took)
			if slices.Min(took) > changeLimit {
				t.Errorf("the change took hold after %v at best", slices.Min(took))
			}
		})
	}
}

// askService asks the n-th path's Service all the time, until the test is over. What is
// delivered of the stream is what was answered.
func askService(t *testing.T, arm lab.Arm, n int) *stream {
	t.Helper()
	s := &stream{sender: new(sender)}
	conn := traffic.ListenUDP(t, arm.Client())
	testenv.Must(t, traffic.SetSocketOption(conn, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 4<<20))
	done := make(chan struct{}, 2)
	go func() { s.send(conn, virtual(arm, n)); done <- struct{}{} }()
	go func() { s.receive(conn, virtual(arm, n)); done <- struct{}{} }()
	t.Cleanup(func() { _ = conn.Close(); <-done; <-done })
	return s
}

// playServiceChange makes a change for each path, and tells how long after it the last question
// was answered where there is a fast path; then it takes it back.
func playServiceChange(t *testing.T, m lab.Machine, flows []*serviceFlow, do, undo string, forgets bool) (took time.Duration) {
	t.Helper()
	awaitServices(t, flows, delivered)
	run := func(script string) {
		var lines []string
		for _, f := range flows {
			lines = append(lines, f.words.Replace(f.extra.Replace(script)))
		}
		shell(t, m, nil, strings.Join(lines, "\n"))
		if forgets {
			forgetConnections(t, m)
		}
	}
	run(do)
	defer run(undo)
	changed := time.Now()
	settled := awaitServices(t, flows, dropped)
	for _, f := range flows {
		if f.isFast {
			took = max(took, f.out.last(delivered, changed, settled))
		}
	}
	awaitServices(t, flows, dropped)
	return took
}

// awaitServices waits until all flows are answered and those of fast paths are carried, or until
// none is answered.
func awaitServices(t *testing.T, flows []*serviceFlow, want fate) time.Time {
	t.Helper()
	var expected []expectation
	for _, f := range flows {
		expected = append(expected, expectation{f.out, want, f.Name})
	}
	now := waitAll(t, expected, time.Now())
	for _, f := range flows {
		if f.isFast && want == delivered {
			f.carries(t)
		}
	}
	return now
}
