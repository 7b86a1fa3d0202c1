package e2e

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/ti-mo/conntrack"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
)

// serveNamed answers at an end, over UDP and TCP, with the port that it is at, until
// the test is over.
func serveNamed(t *testing.T, at host.Endpoint) netip.AddrPort {
	t.Helper()
	server, listener := listenBoth(t, at)
	where := addrPort(server)
	name := binary.BigEndian.AppendUint16(nil, where.Port())
	// Ends of connections that are forgotten on the way never hear of their end.
	closed, end := context.WithCancel(context.Background())
	for _, c := range []io.Closer{server, listener} {
		context.AfterFunc(closed, func() { c.Close() })
	}
	var ends sync.WaitGroup
	t.Cleanup(func() { end(); ends.Wait() })
	ends.Go(func() {
		for buf := make([]byte, 64); ; {
			n, from, err := server.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			_, _ = server.WriteToUDPAddrPort(append(buf[:n:n], name...), from)
		}
	})
	ends.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			context.AfterFunc(closed, func() { conn.Close() })
			ends.Go(func() {
				defer conn.Close()
				for buf := make([]byte, 1); ; {
					if _, err := io.ReadFull(conn, buf); err != nil {
						return
					}
					_, _ = conn.Write(name)
				}
			})
		}
	})
	return where
}

// answerer says at which port an address is answered, over UDP.
func (c *client) answerer(t *testing.T, to netip.AddrPort) uint16 {
	t.Helper()
	port, ok := c.answererWithin(t, to, testenv.Timeout)
	if !ok {
		t.Fatalf("question %d, to %v: no answer within %v", c.asked, to, testenv.Timeout)
	}
	return port
}

// answererWithin is the same; false: there was no answer within a time.
func (c *client) answererWithin(t *testing.T, to netip.AddrPort, wait time.Duration) (port uint16, ok bool) {
	t.Helper()
	c.asked++
	_, err := c.WriteToUDPAddrPort(binary.BigEndian.AppendUint64(nil, c.asked), to)
	testenv.Must(t, err)
	testenv.Must(t, c.SetReadDeadline(time.Now().Add(wait)))
	for buf := make([]byte, 64); ; {
		n, from, err := c.ReadFromUDPAddrPort(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return 0, false
		}
		if err != nil || from != to || n != 10 || binary.BigEndian.Uint64(buf) > c.asked {
			t.Fatalf("question %d, to %v: answered from %v, with %x, %v", c.asked, to, from, buf[:n], err)
		}
		if binary.BigEndian.Uint64(buf) == c.asked { // not an answer that comes late
			return binary.BigEndian.Uint16(buf[8:]), true
		}
	}
}

// answererOn says at which port a connection is answered.
func answererOn(conn net.Conn) (uint16, error) {
	var name [2]byte
	err := conn.SetDeadline(time.Now().Add(testenv.Timeout))
	if err == nil {
		_, err = conn.Write([]byte("?"))
	}
	if err == nil {
		_, err = io.ReadFull(conn, name[:])
	}
	return binary.BigEndian.Uint16(name[:]), err
}

// checkEndpointGoes: a Service loses one of its two endpoints, as kube-proxy does it:
// the rules are exchanged, and then what connection tracking knows of datagrams to the
// endpoint is forgotten. What is new goes to the other one from then on. Connections of
// TCP go on with the one that they have, and so do datagrams, until they are forgotten:
// then a connection ends. With a fast path, an answer is lost if its question was carried
// before the daemon heard of that.
func checkEndpointGoes(t *testing.T, l *lab.Lab, n int) {
	var took time.Duration
	for try := 1; ; try++ {
		took = endpointGoes(t, l, n)
		if took <= changeLimit || try >= changeTries {
			break
		}
	}
	t.Logf("took hold after %v", took)
	if len(l.Arms[n].Pins) > 0 && took > changeLimit {
		t.Errorf("that an endpoint went took hold after %v at best", took)
	}
}

func endpointGoes(t *testing.T, l *lab.Lab, n int) (took time.Duration) {
	arm, service := l.Arms[n], virtual(l.Arms[n], n)
	goes, stays := serveNamed(t, arm.Server()), serveNamed(t, arm.Server())
	here := []watched{{words: placeholders(t, l, n, 0)}}
	rule := func(which string, to netip.AddrPort) string {
		return fmt.Sprintf("meta l4proto { tcp, udp } %s dnat to %s;", which, to)
	}
	defer provide(t, l, n, rule("numgen inc mod 2 0", goes), rule("", stays))()

	// Of each kind one that has the endpoint which goes; the client of datagrams asks
	// that one directly, too, and first: so it is the Service's that get another port.
	directly := func(c *client) *client {
		carriedNow(t, arm, func() { c.answerer(t, goes) }, 0, 1, 2, 3)
		return c
	}
	end := time.Now().Add(testenv.Timeout)
	c := directly(clientAt(t, arm.Client()))
	for answered := c.answerer(t, service); answered != goes.Port(); answered = c.answerer(t, service) {
		if time.Now().After(end) {
			t.Fatalf("within %v no client of datagrams was given port %d; the last one got %d", testenv.Timeout, goes.Port(), answered)
		}
		c = directly(clientAt(t, arm.Client()))
	}
	conn := dial(t, arm.Client(), service)
	for ; ; conn = dial(t, arm.Client(), service) {
		port, err := answererOn(conn)
		testenv.Must(t, err)
		if port == goes.Port() {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("within %v no connection was given port %d; the last one got %d", testenv.Timeout, goes.Port(), port)
		}
	}
	want := func(when string, udp uint16) {
		t.Helper()
		for range questions {
			if got := c.answerer(t, service); got != udp {
				t.Fatalf("%s: datagrams are answered at port %d, want %d (%v goes, %v stays)", when, got, udp, goes, stays)
			}
			if got, err := answererOn(conn); err != nil || got != goes.Port() {
				t.Fatalf("%s: a connection is answered at port %d, %v; want %d", when, got, err, goes.Port())
			}
			if got := c.answerer(t, goes); got != goes.Port() {
				t.Fatalf("%s: %v is answered at port %d", when, goes, got)
			}
		}
	}
	carriedNow(t, arm, func() { c.answerer(t, service) }, 0, 1, 2, 3)
	want("before", goes.Port())

	shell(t, l.Machines[0], here, fmt.Sprintf(`nft 'flush chain %[1]s service{n} c; add rule %[1]s service{n} c %[1]s daddr %[2]s %[3]s'`,
		tableFamily(service.Addr()), service.Addr(), rule("", stays)))
	took = lastAt(t, arm, service, goes.Port())
	want("when the rules were exchanged", goes.Port())

	forgetService(t, l.Machines[0], unix.IPPROTO_UDP, service, goes)
	forgotten := time.Now()
	for {
		answered, ok := c.answererWithin(t, service, changeLimit)
		if ok && answered == stays.Port() {
			break
		}
		took = max(took, time.Since(forgotten))
		if took > testenv.Timeout {
			t.Fatalf("%v after its endpoint went and was forgotten, datagrams still go there", took)
		}
	}
	want("when it was forgotten", stays.Port())
	directly(c)

	forgetService(t, l.Machines[0], unix.IPPROTO_TCP, service, goes)
	forgotten = time.Now()
	for {
		got, err := answererOn(conn)
		if errors.Is(err, unix.ECONNRESET) {
			break
		}
		took = max(took, time.Since(forgotten))
		if err != nil || took > testenv.Timeout {
			t.Fatalf("%v after a connection was forgotten, it is answered at port %d, %v; want it reset by the endpoint that stays", took, got, err)
		}
	}
	return took
}

// lastAt makes new connections to a Service for a while, and says how long after the
// first the last one of them got to an endpoint.
func lastAt(t *testing.T, arm lab.Arm, service netip.AddrPort, endpoint uint16) (last time.Duration) {
	t.Helper()
	for began := time.Now(); time.Since(began) < 3*changeLimit; time.Sleep(pace) {
		c := clientAt(t, arm.Client())
		conn := dial(t, arm.Client(), service)
		over, err := answererOn(conn)
		testenv.Must(t, err)
		if c.answerer(t, service) == endpoint || over == endpoint {
			last = time.Since(began)
		}
	}
	return last
}

// forgetService makes a machine forget what goes to one of a Service's endpoints, of
// a protocol.
func forgetService(t *testing.T, m lab.Machine, protocol uint8, service, endpoint netip.AddrPort) {
	t.Helper()
	forgotten := forget(t, m, func(f conntrack.Flow) bool {
		to, at := f.TupleOrig, f.TupleReply
		return to.Proto.Protocol == protocol && to.IP.DestinationAddress == service.Addr() &&
			at.IP.SourceAddress == endpoint.Addr() && at.Proto.SourcePort == endpoint.Port()
	})
	if forgotten == 0 {
		t.Fatalf("nothing to %v was known to go to %v", service, endpoint)
	}
}
