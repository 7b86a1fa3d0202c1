package e2e

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/ti-mo/conntrack"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
)

// checkOwnTCP: connections that are translated behind the first machine's own address are carried while
// connection tracking checks no windows there, and only then. The daemon says so. Whoever forges a reset
// ends none of them.
func checkOwnTCP(t *testing.T, l *lab.Lab, n int, from host.Endpoint, to netip.AddrPort) {
	t.Helper()
	arm := l.Arms[n]
	slowly(t, arm, func() { connects(t, from, to) })
	setLiberal(t, l, arm, true)
	t.Cleanup(func() { setLiberal(t, l, arm, false) })
	carriedNow(t, arm, func() { connects(t, from, to) }, 0, 1)
	conn := dial(t, from, to)
	speaks := func() { echoes(t, conn, arm.Name) }
	carriedNow(t, arm, speaks, 0, 1)
	forgeReset(t, l, conn)
	time.Sleep(2 * resetGrace)
	carriedNow(t, arm, speaks, 0, 1)
	setLiberal(t, l, arm, false)
	slowly(t, arm, speaks)
	testenv.Must(t, conn.Close()) // the server has one at a time
	slowly(t, arm, func() { connects(t, from, to) })
}

// setLiberal sets whether connection tracking of the first machine checks no windows, and waits until the
// daemon has to know.
func setLiberal(t *testing.T, l *lab.Lab, arm lab.Arm, yes bool) {
	t.Helper()
	value, kinds := 0, 2 // of traffic that stays slow
	if yes {
		value, kinds = 1, 1
	}
	shell(t, l.Machines[0], nil, fmt.Sprintf("echo %d > /proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal", value))
	time.Sleep(changeLimit)
	if len(arm.Pins) == 0 {
		return
	}
	for end := time.Now().Add(testenv.Timeout); ; time.Sleep(pace) { // if nothing is carried, it looks once a second
		state, err := fastpath.ReadState(fastpath.StateFile(arm.Pins[0]))
		testenv.Must(t, err)
		if len(state.Uncarried) == kinds {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %v, where windows are not checked is %v, the daemon says %+v", testenv.Timeout, yes, state.Uncarried)
		}
	}
}

// forgeReset sends a reset of a connection through the first machine, from the second one, that does not
// fit where the connection is.
func forgeReset(t *testing.T, l *lab.Lab, conn net.Conn) {
	t.Helper()
	const far = 1 << 28 // beyond every window
	own := conn.LocalAddr().(*net.TCPAddr).AddrPort()
	testenv.InNetns(t, l.Machines[0].Namespace, func() error {
		c, err := conntrack.Dial(nil)
		if err != nil {
			return err
		}
		defer c.Close()
		all, err := c.Dump(nil)
		for _, f := range all {
			by, back := f.TupleOrig, f.TupleReply
			if by.IP.SourceAddress != own.Addr() || by.Proto.SourcePort != own.Port() {
				continue
			}
			if own.Addr() == l.Machines[1].Addr { // the client is outside
				sendReset(t, l.Machines[1].Namespace, own, netip.AddrPortFrom(by.IP.DestinationAddress, by.Proto.DestinationPort), nextSequence(t, conn, sendQueue)+far)
			} else {
				sendReset(t, l.Machines[1].Namespace, netip.AddrPortFrom(back.IP.SourceAddress, back.Proto.SourcePort),
					netip.AddrPortFrom(back.IP.DestinationAddress, back.Proto.DestinationPort), nextSequence(t, conn, receiveQueue)+far)
			}
			return err
		}
		t.Errorf("the first machine does not track %v", own)
		return err
	})
}
