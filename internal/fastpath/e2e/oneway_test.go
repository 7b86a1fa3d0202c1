package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/ti-mo/conntrack"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/fastpathtest"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
)

// Datagrams that nobody answers are carried as soon as the network has forwarded some,
// where nothing is tracked, where it is and no rule asks for replies, and where a rule then takes them from
// connection tracking.
func TestFastPathCarriesOneWay(t *testing.T) {
	requireFastPath(t)
	requireTools(t)
	l := testenv.Lab(t, lab.Options{Paths: supportedFastPaths()})
	const notrack = `nft 'table ip untracks { chain c { type filter hook prerouting priority -300; notrack; }; }'`
	for _, rules := range []string{"", `nft 'table ip tracks { chain c { type filter hook forward priority 0; ct state invalid drop; }; }'`, notrack} {
		for _, m := range l.Machines {
			shell(t, m, nil, rules)
		}
		for _, arm := range l.Arms {
			t.Run(arm.Name+" "+rules, func(t *testing.T) {
				a, b := traffic.ListenUDP(t, arm.Client()), traffic.ListenUDP(t, arm.Server())
				defer a.Close()
				defer b.Close()
				untilOneWay(t, arm, a, b)
				if tracked := isTracked(t, l.Machines[0], addrPort(a)); tracked != (rules != "" && rules != notrack) {
					t.Errorf("the first machine tracks what it carries: %v", tracked)
				}
				sendsOneWay(t, arm, a, b)
				// With an answer it is another flow, to connection tracking. What goes on is carried.
				before := fastpathtest.CarriedPackets(t, arm)
				send(t, b, a)
				untilOneWay(t, arm, a, b)
				sendsOneWay(t, arm, a, b)
				if now := fastpathtest.CarriedPackets(t, arm); now[1] != before[1] || now[2] != before[2] {
					t.Errorf("a single answer was carried: machines had carried %v, and then %v", before, now)
				}
			})
		}
	}
}

// So are they beside the rules of kube-proxy, which accept what was answered, and are asked only about
// the rest. A rule that denies them takes hold, and so does the end of what connection tracking knows.
func TestFastPathCarriesOneWayBesideServices(t *testing.T) {
	requireFastPath(t)
	requireTools(t)
	l := testenv.Lab(t, lab.Options{Paths: basicFastPaths, Services: 30})
	m := l.Machines[0]
	for _, arm := range l.Arms {
		t.Run(arm.Name, func(t *testing.T) {
			a, b := traffic.ListenUDP(t, arm.Client()), traffic.ListenUDP(t, arm.Server())
			defer a.Close()
			defer b.Close()
			untilOneWay(t, arm, a, b)
			sendsOneWay(t, arm, a, b)
			if !isTracked(t, m, addrPort(a)) {
				t.Fatal("the first machine does not track what it carries")
			}
			forgetConnections(t, m)
			time.Sleep(changeLimit)
			send(t, a, b)
			if !isTracked(t, m, addrPort(a)) {
				t.Error("connection tracking did not see a datagram behind the end of its connection")
			}
			untilOneWay(t, arm, a, b)
			shell(t, m, nil, fmt.Sprintf(`nft 'table ip denied { chain c { type filter hook forward priority 0; udp sport %d counter drop; }; }'`, addrPort(a).Port()))
			time.Sleep(changeLimit)
			before := fastpathtest.CarriedPackets(t, arm)
			for range 100 {
				send(t, a, b)
			}
			if now := fastpathtest.CarriedPackets(t, arm); now[0] != before[0] {
				t.Errorf("behind a rule that denies it, the first machine carried %d packets", now[0]-before[0])
			}
			shell(t, m, nil, "nft delete table ip denied")
			untilOneWay(t, arm, a, b)
		})
	}
}

// send sends a datagram.
func send(t *testing.T, from, to *net.UDPConn) {
	t.Helper()
	_, err := from.WriteToUDPAddrPort([]byte("!"), addrPort(to))
	testenv.Must(t, err)
}

// isTracked tells whether a machine tracks a connection from an end.
func isTracked(t *testing.T, m lab.Machine, from netip.AddrPort) (yes bool) {
	t.Helper()
	testenv.InNetns(t, m.Namespace, func() error {
		c, err := conntrack.Dial(nil)
		if err != nil {
			return err
		}
		defer c.Close()
		all, err := c.Dump(nil)
		yes = slices.ContainsFunc(all, func(f conntrack.Flow) bool {
			return f.TupleOrig.IP.SourceAddress == from.Addr() && f.TupleOrig.Proto.SourcePort == from.Port()
		})
		return err
	})
	return yes
}

// Connections that a helper has expected are related to another one until they are answered, and rules
// may treat them otherwise than new ones.
func TestFastPathLeavesExpected(t *testing.T) {
	requireFastPath(t)
	requireTools(t)
	l := testenv.Lab(t, lab.Options{Paths: basicFastPaths, Services: 30})
	const udp = 17
	for _, arm := range l.Arms {
		t.Run(arm.Name, func(t *testing.T) {
			a, b := traffic.ListenUDP(t, arm.Client()), traffic.ListenUDP(t, arm.Server())
			defer a.Close()
			defer b.Close()
			from, to := addrPort(a), addrPort(b)
			testenv.InNetns(t, l.Machines[0].Namespace, func() error {
				c, err := conntrack.Dial(nil)
				if err != nil {
					return err
				}
				defer c.Close()
				confirmed := conntrack.StatusConfirmed
				main := conntrack.NewFlow(udp, confirmed, from.Addr(), to.Addr(), 1, 2, 100, 0)
				expected := conntrack.NewFlow(udp, confirmed, from.Addr(), to.Addr(), from.Port(), to.Port(), 100, 0)
				expected.TupleMaster = main.TupleOrig
				return errors.Join(c.Create(main), c.Create(expected))
			})
			before := fastpathtest.CarriedPackets(t, arm)
			for range 200 {
				send(t, a, b)
			}
			if now := fastpathtest.CarriedPackets(t, arm); now[0] != before[0] {
				t.Errorf("the first machine carried %d packets", now[0]-before[0])
			}
			other := traffic.ListenUDP(t, arm.Client()) // nobody expects this one
			defer other.Close()
			untilOneWay(t, arm, other, b)
		})
	}
}

// Rules that translate are asked about each packet of a connection that began before them, until it is
// answered. They are not asked again about those that began behind them.
func TestFastPathLeavesOlderThanTranslation(t *testing.T) {
	requireFastPath(t)
	requireTools(t)
	l := testenv.Lab(t, lab.Options{Paths: basicFastPaths})
	m := l.Machines[0]
	shell(t, m, nil, `nft 'table ip tracks { chain c { type filter hook forward priority 0; ct state invalid drop; }; }'`)
	for _, arm := range l.Arms {
		t.Run(arm.Name, func(t *testing.T) {
			a, b, other := traffic.ListenUDP(t, arm.Client()), traffic.ListenUDP(t, arm.Server()), traffic.ListenUDP(t, arm.Client())
			for _, c := range []*net.UDPConn{a, b, other} {
				defer c.Close()
			}
			untilOneWay(t, arm, a, b)
			shell(t, m, nil, fmt.Sprintf(`nft 'table ip late { chain c { type nat hook postrouting priority 100; udp sport %d limit rate over 10/second drop; }; }'`, addrPort(a).Port()))
			defer shell(t, m, nil, "nft delete table ip late")
			time.Sleep(changeLimit)
			before := fastpathtest.CarriedPackets(t, arm)
			for range 200 {
				send(t, a, b)
			}
			if now := fastpathtest.CarriedPackets(t, arm); now[0] != before[0] {
				t.Errorf("past rules that are asked about each of them, the first machine carried %d packets", now[0]-before[0])
			}
			untilOneWay(t, arm, other, b)
			send(t, b, a)
			untilOneWay(t, arm, a, b)
		})
	}
}

// untilOneWay sends until what is sent is carried, on both machines.
func untilOneWay(t *testing.T, arm lab.Arm, from, to *net.UDPConn) {
	t.Helper()
	before := fastpathtest.CarriedPackets(t, arm)
	for end := time.Now().Add(testenv.Timeout); ; {
		send(t, from, to)
		now := fastpathtest.CarriedPackets(t, arm)
		if now[0] > before[0] && now[3] > before[3] {
			return
		}
		if time.Now().After(end) {
			stats, _ := fastpath.ReadStats(arm.Pins[0])
			far, _ := fastpath.ReadStats(arm.Pins[1])
			t.Fatalf("after %v, machines carried %v, and %v before: %v, %v", testenv.Timeout, now, before, stats, far)
		}
	}
}

// sendsOneWay sends datagrams that are to be carried, nearly all of them.
func sendsOneWay(t *testing.T, arm lab.Arm, from, to *net.UDPConn) {
	t.Helper()
	const many = 2000
	before := fastpathtest.CarriedPackets(t, arm)
	for range many {
		send(t, from, to)
	}
	for end := time.Now().Add(testenv.Timeout); ; time.Sleep(time.Millisecond) {
		now := fastpathtest.CarriedPackets(t, arm)
		if now[0]-before[0] >= many*99/100 && now[3]-before[3] >= many*99/100 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("of %d datagrams that nobody answers, machines carried %d and %d", many, now[0]-before[0], now[3]-before[3])
		}
	}
}

// Where rules go by whether there was an answer, what is sent without waits for one.
func TestFastPathWaitsForAnswers(t *testing.T) {
	requireFastPath(t)
	requireTools(t)
	l := testenv.Lab(t, lab.Options{Paths: basicFastPaths})
	for _, m := range l.Machines {
		shell(t, m, nil, `nft 'table ip asks { chain c { type filter hook forward priority 0; ct state new counter accept; }; }'`)
	}
	for _, arm := range l.Arms {
		t.Run(arm.Name, func(t *testing.T) {
			for _, pins := range arm.Pins {
				for end := time.Now().Add(testenv.Timeout); ; time.Sleep(10 * time.Millisecond) {
					state, err := fastpath.ReadState(fastpath.StateFile(pins))
					testenv.Must(t, err)
					if state.Unreplied != "" {
						break
					}
					if time.Now().After(end) {
						t.Fatalf("after %v, the daemon says %+v", testenv.Timeout, state)
					}
				}
			}
			a, b := traffic.ListenUDP(t, arm.Client()), traffic.ListenUDP(t, arm.Server())
			defer a.Close()
			defer b.Close()
			before := fastpathtest.CarriedPackets(t, arm)
			for range 200 {
				send(t, a, b)
			}
			if now := fastpathtest.CarriedPackets(t, arm); increased(before[:1], now[:1]) || increased(before[3:], now[3:]) {
				t.Errorf("it did not wait: machines had carried %v, and then %v", before, now)
			}
			fastpathtest.WithFlow(t, arm, func(exchange func(time.Duration) error) { fastpathtest.WaitCarried(t, arm, exchange) })
		})
	}
}
