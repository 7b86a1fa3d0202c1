package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ti-mo/conntrack"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/fastpathtest"
)

// Connection tracking has seen few sequence numbers of a connection that was carried, and takes its
// reset for one of another place in the stream, which leaves it established for as long as one that
// is closed: here for minutes. The daemon closes it, so that rules see the next connection between
// the same ports as a new one. A reset that its end does not accept closes nothing for longer than the
// connection is not used: not even a second one within half a second, which Linux does not answer. A
// connection that is used once more lives as long as any again.
func TestFastPathForgetsResetConnections(t *testing.T) {
	requireFastPath(t)
	requireTools(t)
	forgetsResets(t, testenv.Lab(t, lab.Options{Paths: basicFastPaths, Services: 30}), func(_ int, served netip.AddrPort) netip.AddrPort { return served })
}

// forgetsResets resets connections of a lab's fast paths. reach is how the n-th path's client reaches what is
// served.
func forgetsResets(t *testing.T, l *lab.Lab, reach func(n int, served netip.AddrPort) netip.AddrPort) {
	t.Helper()
	for _, m := range l.Machines {
		testenv.InNetns(t, m.Namespace, func() error {
			return os.WriteFile("/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close", []byte(strconv.Itoa(closeTimeout)), 0)
		})
	}
	for n, arm := range l.Arms {
		if len(arm.Pins) == 0 {
			continue
		}
		t.Run(arm.Name, func(t *testing.T) {
			served := serve(t, arm.Server())
			to := reach(n, served)
			conn := dial(t, arm.Client(), to)
			carryTCP(t, arm, conn)
			from := conn.LocalAddr().(*net.TCPAddr).AddrPort()
			tracked := established(t, l.Machines, from, to)
			if !slices.Contains(tracked, true) {
				t.Fatal("no machine tracks the connection")
			}
			for _, resets := range []int{1, 2} {
				for range resets {
					sendReset(t, arm, from, to, nextSequence(t, conn)+1000)
					time.Sleep(resetGrace / 3)
				}
				time.Sleep(2 * resetGrace)
				carryTCP(t, arm, conn)
				if all := established(t, l.Machines, from, to); !slices.Equal(all, tracked) {
					t.Errorf("after %d resets that were not accepted, the machines track the connection: %v, want %v", resets, all, tracked)
				}
			}
			await := func(what string, is func() bool) {
				t.Helper()
				for end := time.Now().Add(testenv.Timeout); !is(); time.Sleep(pace) {
					if time.Now().After(end) {
						t.Fatalf("after %v, %s; those that track it as established do for %v s", testenv.Timeout, what, establishedTimeouts(t, l.Machines, from, to))
					}
				}
			}
			closed := func() bool { return !slices.Equal(established(t, l.Machines, from, to), tracked) }
			await("no machine has closed a connection after resets that were not accepted", func() bool {
				carryTCP(t, arm, conn)
				sendReset(t, arm, from, to, nextSequence(t, conn)+1000) // is answered
				time.Sleep(resetGrace / 3)
				sendReset(t, arm, from, to, nextSequence(t, conn)+1000) // is not, unless it is late
				for late := time.Now().Add(2 * resetGrace); !closed() && time.Now().Before(late); {
					time.Sleep(pace)
				}
				return closed()
			})
			echoes(t, conn, arm.Name)
			await("a connection that is used again is still closed", func() bool {
				again := establishedTimeouts(t, l.Machines, from, to)
				if slices.ContainsFunc(again, func(seconds uint32) bool { return seconds > 0 && seconds <= closeTimeout }) {
					t.Fatalf("a connection that is used again expires as one that is closed: in %v s", again)
				}
				return !closed()
			})
			carryTCP(t, arm, conn)
			testenv.Must(t, conn.(*net.TCPConn).SetLinger(0))
			testenv.Must(t, conn.Close())
			await("a machine still tracks the connection that was reset", func() bool {
				return !slices.Contains(established(t, l.Machines, from, to), true)
			})
			family := tableFamily(to.Addr())
			shell(t, l.Machines[0], nil, fmt.Sprintf(`nft 'table %s denied { chain c {
				type filter hook forward priority 0; ct state new tcp dport %d drop; }; }'`, family, served.Port()))
			testenv.Must(t, host.Do(arm.Client().Namespace, func() error {
				d := net.Dialer{Timeout: time.Second, LocalAddr: net.TCPAddrFromAddrPort(from)}
				again, err := d.Dial("tcp", to.String())
				if err == nil {
					return errors.Join(errors.New("a new connection passed the rule that denies it"), again.Close())
				}
				if failed := net.Error(nil); errors.As(err, &failed) && failed.Timeout() {
					return nil
				}
				return err
			}))
			shell(t, l.Machines[0], nil, "nft delete table "+family+" denied")
		})
	}
}

const (
	resetGrace   = 300 * time.Millisecond // how long the daemon waits for the answer to a reset
	closeTimeout = 200                    // of connections that are closed, in seconds
)

// nextSequence is the sequence number of what a connection sends next.
func nextSequence(t *testing.T, conn net.Conn) (seq uint32) {
	t.Helper()
	const sendQueue, off = 2, -1 // TCP_SEND_QUEUE, TCP_REPAIR_OFF_NO_WP
	raw, err := conn.(*net.TCPConn).SyscallConn()
	testenv.Must(t, err)
	testenv.Must(t, raw.Control(func(fd uintptr) {
		s := int(fd)
		err = errors.Join(unix.SetsockoptInt(s, unix.IPPROTO_TCP, unix.TCP_REPAIR, 1), unix.SetsockoptInt(s, unix.IPPROTO_TCP, unix.TCP_REPAIR_QUEUE, sendQueue))
		got, failed := unix.GetsockoptInt(s, unix.IPPROTO_TCP, unix.TCP_QUEUE_SEQ)
		seq, err = uint32(got), errors.Join(err, failed, unix.SetsockoptInt(s, unix.IPPROTO_TCP, unix.TCP_REPAIR, off))
	}))
	testenv.Must(t, err)
	return seq
}

// sendReset sends a reset with a sequence number, which is not of the client's connection.
func sendReset(t *testing.T, arm lab.Arm, from, to netip.AddrPort, seq uint32) {
	t.Helper()
	packet := tcp4{from: from.Port(), to: to.Port(), seq: seq, flags: rst}.packetIn(ip4{ttl: 64, src: from.Addr(), dst: to.Addr()}).bytes()
	if to.Addr().Is6() {
		packet = resetPacket6(t, from, to, seq)
	}
	testenv.InNetns(t, arm.Client().Namespace, func() error {
		fd, err := unix.Socket(domainOf(to.Addr()), unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Sendto(fd, packet, 0, sockaddr(to.Addr(), 0))
	})
}

// carryTCP sends over a connection until it is carried.
func carryTCP(t *testing.T, arm lab.Arm, conn net.Conn) {
	t.Helper()
	stop, done := make(chan struct{}), make(chan error, 1)
	var echoed atomic.Int64
	go func() { done <- chunks(conn, stop, &echoed) }()
	before := fastpathtest.CarriedPackets(t, arm)
	for end := time.Now().Add(testenv.Timeout); ; time.Sleep(pace) {
		now, all := fastpathtest.CarriedPackets(t, arm), true
		for i := range now {
			all = all && now[i] > before[i]
		}
		if all {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("after %v, the connection is not carried: %v, and %v before", testenv.Timeout, now, before)
		}
	}
	close(stop)
	testenv.Must(t, <-done)
}

// established tells of each machine whether it tracks a connection as established.
func established(t *testing.T, machines []lab.Machine, from, to netip.AddrPort) (all []bool) {
	t.Helper()
	for _, seconds := range establishedTimeouts(t, machines, from, to) {
		all = append(all, seconds > 0)
	}
	return all
}

// establishedTimeouts tells of each machine for how many seconds it tracks a connection as established; 0: it
// does not.
func establishedTimeouts(t *testing.T, machines []lab.Machine, from, to netip.AddrPort) (all []uint32) {
	t.Helper()
	const tcpEstablished = 3 // TCP_CONNTRACK_ESTABLISHED
	for _, m := range machines {
		testenv.InNetns(t, m.Namespace, func() error {
			c, err := conntrack.Dial(nil)
			if err != nil {
				return err
			}
			defer c.Close()
			flows, err := c.Dump(nil)
			seconds := uint32(0)
			for _, f := range flows {
				of := f.TupleOrig.Proto
				if of.Protocol == unix.IPPROTO_TCP && of.SourcePort == from.Port() && of.DestinationPort == to.Port() &&
					f.ProtoInfo.TCP != nil && f.ProtoInfo.TCP.State == tcpEstablished {
					seconds = f.Timeout
				}
			}
			all = append(all, seconds)
			return err
		})
	}
	return all
}
