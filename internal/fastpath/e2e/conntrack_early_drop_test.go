package e2e

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ti-mo/conntrack"

	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/fastpathtest"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
)

// checkGivenUp lets the machine give up a flow for others, as it does with those that are
// young: it is over, also on the fast path that carried it.
func checkGivenUp(t *testing.T, m lab.Machine, arm lab.Arm) {
	defer setting(t, bucketsFile, "512")() // one that is new is likely to meet one that is there
	const young = 20
	retryUntilFast(t, func() (took time.Duration) {
		for range young {
			done := false
			fastpathtest.WithFlow(t, arm, func(exchange func(time.Duration) error) { took, done = givenUp(t, m, arm, exchange) })
			if done {
				return took
			}
		}
		t.Skipf("of %d flows, none was carried before the kernel took it for one that stays", young)
		return 0
	})
}

// givenUp does so with a flow, unless it stays because it is too old already, and tells how
// long it went on.
func givenUp(t *testing.T, m lab.Machine, arm lab.Arm, exchange func(time.Duration) error) (took time.Duration, done bool) {
	t.Helper()
	forgetFlows(t, m)
	if len(arm.Pins) == 0 {
		for range 20 {
			testenv.Must(t, exchange(testenv.Timeout))
		}
	} else {
		before := fastpathtest.CarriedPackets(t, arm)
		for end := time.Now().Add(testenv.Timeout); !increased(before, fastpathtest.CarriedPackets(t, arm)); {
			testenv.Must(t, exchange(testenv.Timeout))
			if time.Now().After(end) {
				t.Fatalf("after %v, machines carried %v, and %v before", testenv.Timeout, fastpathtest.CarriedPackets(t, arm), before)
			}
		}
	}
	free := setting(t, limitFile, "1")
	defer free()
	others := traffic.ListenUDP(t, arm.Client())
	defer others.Close()
	for port := uint16(30000); ; port++ {
		if port%100 == 0 {
			if f := flowOf(t, m, arm); f == nil {
				break
			} else if f.Status.Assured() || port > 60000 {
				return 0, false
			}
		}
		_, _ = others.WriteToUDPAddrPort([]byte("new"), netip.AddrPortFrom(arm.Server().Addr, port)) // most are dropped
	}
	forgetFlows(t, m) // of the others: they would be given up for it in turn
	gone := time.Now()
	last := gone
	fastpathtest.WaitAnswered(t, func(wait time.Duration) error {
		err := exchange(wait)
		if err == nil {
			last = time.Now()
		}
		return err
	}, false)
	if len(arm.Pins) > 0 {
		before := fastpathtest.CarriedPackets(t, arm)
		for range 20 {
			_ = exchange(time.Millisecond) // nothing is to come back
		}
		if now := fastpathtest.CarriedPackets(t, arm); now[0] != before[0] || now[1] != before[1] {
			t.Errorf("%s carries a flow that was given up: %v, before %v", m.Name, now, before)
		}
	}
	free()
	fastpathtest.WaitAnswered(t, exchange, true)
	if len(arm.Pins) > 0 {
		fastpathtest.WaitCarried(t, arm, exchange)
	}
	return last.Sub(gone), true
}

// flowOf is the machine's entry of the one flow of UDP between a path's pods that was
// answered; nil: there is none.
func flowOf(t *testing.T, m lab.Machine, arm lab.Arm) *conntrack.Flow {
	t.Helper()
	c := tracking(t, m)
	defer c.Close()
	all, err := c.Dump(nil)
	testenv.Must(t, err)
	for _, f := range all {
		if f.TupleOrig.Proto.Protocol == 17 && f.TupleOrig.IP.SourceAddress == arm.Client().Addr && f.Status.SeenReply() {
			return &f
		}
	}
	return nil
}
