package kernel_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/ti-mo/conntrack"

	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

// tracked is a namespace that tracks what is sent over its loopback device.
func tracked(t *testing.T) *netcfg.Namespace {
	t.Helper()
	w, err := netcfg.Owned(testenv.Claim(t))
	testenv.Must(t, err)
	n, err := w.Create(w.Name("track"))
	testenv.Must(t, err)
	t.Cleanup(n.Close)
	testenv.Must(t, n.Up("lo"))
	testenv.Track(t, n.Path())
	return n
}

var loopback = netip.MustParseAddr("127.0.0.1")

// dialTCP opens a connection in a namespace.
func dialTCP(t *testing.T, n *netcfg.Namespace) (client, server net.Conn) {
	t.Helper()
	testenv.InNetns(t, n.Path(), func() error {
		l, err := net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(netip.AddrPortFrom(loopback, 0)))
		if err != nil {
			return err
		}
		defer l.Close()
		if client, err = net.Dial("tcp4", l.Addr().String()); err != nil {
			return err
		}
		server, err = l.Accept()
		return err
	})
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// dialUDP sends datagrams there and back in a namespace.
func dialUDP(t *testing.T, n *netcfg.Namespace) (client net.Conn) {
	t.Helper()
	testenv.InNetns(t, n.Path(), func() error {
		server, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(loopback, 0)))
		if err != nil {
			return err
		}
		t.Cleanup(func() { server.Close() })
		if client, err = net.Dial("udp4", server.LocalAddr().String()); err != nil {
			return err
		}
		t.Cleanup(func() { client.Close() })
		if _, err := client.Write([]byte("there")); err != nil {
			return err
		}
		buf := make([]byte, 16)
		_, from, err := server.ReadFromUDPAddrPort(buf)
		if err != nil {
			return err
		}
		_, err = server.WriteToUDPAddrPort([]byte("back"), from)
		return err
	})
	return client
}

func connectionOf(protocol uint8, c net.Conn) kernel.Connection {
	return kernel.Connection{Protocol: protocol, A: addrPort(c.LocalAddr()), B: addrPort(c.RemoteAddr())}
}

func addrPort(a net.Addr) netip.AddrPort { return netip.MustParseAddrPort(a.String()) }

func reversed(c kernel.Connection) kernel.Connection { c.A, c.B = c.B, c.A; return c }

func update(t *testing.T, c *kernel.Conntrack, all ...kernel.Update) (is []kernel.ConnState) {
	t.Helper()
	is = make([]kernel.ConnState, len(all))
	testenv.Must(t, c.Update(all, func(i int, now kernel.ConnState) { is[i] = now }))
	return is
}

// trackTCP opens a connection in a namespace, and conntrack, which announces the connection's end.
func trackTCP(t *testing.T, n *netcfg.Namespace) (c *kernel.Conntrack, client net.Conn) {
	t.Helper()
	ends, err := kernel.OpenDestroyEvents(n)
	testenv.Must(t, err)
	t.Cleanup(func() { ends.Close() })
	client, _ = dialTCP(t, n)
	c, err = kernel.OpenConntrack(n)
	testenv.Must(t, err)
	t.Cleanup(func() { c.Close() })
	return c, client
}

// events says for which connections that begin from now on events are told.
func events(t *testing.T, n *netcfg.Namespace, value string) {
	t.Helper()
	testenv.Must(t, n.Sysctl(netcfg.Sysctl{Name: "net.netfilter.nf_conntrack_events", Value: value}))
}

// What conntrack says of connections: of those that it tells the end of, of those
// that were there before anybody listened, and of none.
func TestConntrackUpdate(t *testing.T) {
	n := tracked(t)
	events(t, n, "0")
	old := dialUDP(t, n)
	events(t, n, "2")
	ends, err := kernel.OpenDestroyEvents(n)
	testenv.Must(t, err)
	defer ends.Close()
	udp := dialUDP(t, n)
	tcp, _ := dialTCP(t, n)
	half, farEnd := dialTCP(t, n)
	testenv.Must(t, farEnd.(*net.TCPConn).CloseWrite())
	_, err = half.Read(make([]byte, 1)) // until its end has come
	if err == nil {
		t.Fatal("something came")
	}
	c, err := kernel.OpenConntrack(n)
	testenv.Must(t, err)
	defer c.Close()
	none := connectionOf(17, udp)
	none.A = netip.AddrPortFrom(loopback, 1)
	got := update(t, c,
		kernel.Update{Conn: connectionOf(17, udp)},
		kernel.Update{Conn: none},
		kernel.Update{Conn: reversed(connectionOf(17, udp)), Timeout: time.Hour},
		kernel.Update{Conn: connectionOf(17, old)},
		kernel.Update{Conn: connectionOf(6, tcp), Liberal: true},
		kernel.Update{Conn: connectionOf(6, half), Liberal: true, Timeout: time.Minute},
		kernel.Update{Conn: reversed(connectionOf(6, tcp)), Timeout: time.Hour},
	)
	want := []kernel.ConnState{kernel.ConnEstablished, kernel.ConnMissing, kernel.ConnEstablished, kernel.ConnNoEvents,
		kernel.ConnEstablished, kernel.ConnClosing, kernel.ConnEstablished}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// otherView is a connection as another program sees it, and by what.
func otherView(t *testing.T, n *netcfg.Namespace, of kernel.Connection) (by *conntrack.Conn, flow conntrack.Flow) {
	t.Helper()
	testenv.InNetns(t, n.Path(), func() (err error) {
		by, err = conntrack.Dial(nil)
		return err
	})
	t.Cleanup(func() { by.Close() })
	return by, conntrack.NewFlow(of.Protocol, 0, of.A.Addr(), of.B.Addr(), of.A.Port(), of.B.Port(), 0, 0)
}

// A connection whose windows go unwatched is not thought to have sent what nobody has
// acknowledged: its next packet leaves it as long to live as any.
func TestConntrackLiberal(t *testing.T) {
	const unacknowledged, liberal = 0x10, 0x08 // IP_CT_TCP_FLAG_
	n := tracked(t)
	c, client := trackTCP(t, n)
	of := connectionOf(6, client)
	peer, flow := otherView(t, n, of)
	flags := func() [2]uint16 {
		is, err := peer.Get(flow)
		testenv.Must(t, err)
		return [2]uint16{is.ProtoInfo.TCP.OriginalFlags >> 8, is.ProtoInfo.TCP.ReplyFlags >> 8}
	}
	const set = unacknowledged<<8 | unacknowledged // flags, and a mask
	flow.ProtoInfo.TCP = &conntrack.ProtoInfoTCP{State: 3, OriginalFlags: set, ReplyFlags: set}
	testenv.Must(t, peer.Update(flow))
	for _, f := range flags() {
		if f&unacknowledged == 0 || f&liberal != 0 {
			t.Fatalf("before, its flags are %#x", f)
		}
	}
	if is := update(t, c, kernel.Update{Conn: of, Liberal: true}); is[0] != kernel.ConnEstablished {
		t.Errorf("it is %v", is[0])
	}
	for _, f := range flags() {
		if f&unacknowledged != 0 || f&liberal == 0 {
			t.Errorf("its flags are %#x", f)
		}
	}
}

// A connection that was reset is told by how soon it expires.
func TestConntrackCloseReset(t *testing.T) {
	c, client := trackTCP(t, tracked(t))
	of := connectionOf(6, client)
	none := of
	none.A = netip.AddrPortFrom(loopback, 1)
	for _, step := range []struct {
		lives, within time.Duration
		want          kernel.ConnState
	}{
		{time.Hour, 10 * time.Second, kernel.ConnEstablished},
		{2 * time.Second, 2 * time.Second, kernel.ConnEstablished},
		{9 * time.Second, 10 * time.Second, kernel.ConnClosing},
	} {
		update(t, c, kernel.Update{Conn: of, Timeout: step.lives})
		closed, _, err := c.CloseReset([]kernel.Connection{none, of}, step.within)
		testenv.Must(t, err)
		if is := update(t, c, kernel.Update{Conn: of}); is[0] != step.want || slices.Equal(closed, []kernel.Connection{of}) != (step.want == kernel.ConnClosing) {
			t.Errorf("with %v to live, its state is %v afterwards, want %v; closed: %v", step.lives, is[0], step.want, closed)
		}
	}
}

// A connection that was closed, but is used, even at once, is told by how late it expires, and lives as
// any again.
func TestConntrackReopen(t *testing.T) {
	const closeInit = 0x04 // IP_CT_TCP_FLAG_CLOSE_INIT
	n := tracked(t)
	c, client := trackTCP(t, n)
	of := connectionOf(6, client)
	peer, flow := otherView(t, n, of)
	for _, within := range []time.Duration{10 * time.Second, 300 * time.Second} { // the packet gives it 10 s
		update(t, c, kernel.Update{Conn: of, Timeout: within - time.Second})
		closed, unused, err := c.CloseReset([]kernel.Connection{of}, within)
		testenv.Must(t, err)
		if !slices.Equal(closed, []kernel.Connection{of}) {
			t.Fatalf("closed: %v", closed)
		}
		for _, want := range []kernel.ConnState{kernel.ConnClosing, kernel.ConnEstablished} {
			if want == kernel.ConnEstablished {
				_, err := client.Write([]byte{0})
				testenv.Must(t, err)
			}
			open, err := c.Reopen(map[kernel.Connection]time.Time{of: unused}, time.Hour)
			testenv.Must(t, err)
			if is := update(t, c, kernel.Update{Conn: of}); is[0] != want || slices.Equal(open, closed) != (want == kernel.ConnEstablished) {
				t.Errorf("its state is %v, want %v; established: %v", is[0], want, open)
			}
			got, err := peer.Get(flow)
			testenv.Must(t, err)
			for _, flags := range []uint16{got.ProtoInfo.TCP.OriginalFlags >> 8, got.ProtoInfo.TCP.ReplyFlags >> 8} {
				if (flags&closeInit != 0) != (want == kernel.ConnClosing) {
					t.Errorf("in state %v its flags are %#x: a SYN may or may not make a new connection of it", want, flags)
				}
			}
		}
		is, err := peer.Get(flow)
		testenv.Must(t, err)
		if is.Timeout < 3500 || is.Timeout > 3600 {
			t.Errorf("it expires in %d s, want 3600", is.Timeout)
		}
	}
}

// More requests than are sent at once are answered each.
func TestConntrackUpdateMany(t *testing.T) {
	n := tracked(t)
	ends, err := kernel.OpenDestroyEvents(n)
	testenv.Must(t, err)
	defer ends.Close()
	udp := dialUDP(t, n)
	c, err := kernel.OpenConntrack(n)
	testenv.Must(t, err)
	defer c.Close()
	all := make([]kernel.Update, 3000)
	want := make([]kernel.ConnState, len(all))
	for i := range all {
		all[i].Conn, want[i] = connectionOf(17, udp), kernel.ConnEstablished
		if i%3 == 1 {
			all[i].Conn.A, want[i] = netip.AddrPortFrom(loopback, uint16(i)%1000+1), kernel.ConnMissing
		}
	}
	if got := update(t, c, all...); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Every end is told, however many come at once.
func TestConntrackEnds(t *testing.T) {
	n := tracked(t)
	ends, err := kernel.OpenDestroyEvents(n)
	testenv.Must(t, err)
	defer ends.Close()
	waiting := map[kernel.Connection]bool{}
	for range 300 {
		waiting[connectionOf(17, dialUDP(t, n))] = true
	}
	testenv.InNetns(t, n.Path(), func() error {
		c, err := conntrack.Dial(nil)
		if err != nil {
			return err
		}
		return errors.Join(c.Flush(), c.Close())
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	emptied := false
	testenv.Must(t, ends.Follow(ctx, func(ended []kernel.Ended, lost, more bool) error {
		if lost {
			t.Error("some were lost")
		}
		if emptied || more != (len(waiting) == 300) { // a batch is smaller than that, and two are not
			t.Errorf("with %d more to be told, it is said that there are: %v", len(waiting)-len(ended), more)
		}
		emptied = !more
		for _, e := range ended {
			delete(waiting, e.Connection)
		}
		if len(waiting) == 0 {
			cancel()
		}
		return nil
	}))
	if len(waiting) > 0 {
		t.Errorf("the end of %d was not told", len(waiting))
	}
}

// Of a connection that is translated, the end is told with both tuples.
func TestConntrackEndsTranslated(t *testing.T) {
	n := tracked(t)
	ends, err := kernel.OpenDestroyEvents(n)
	testenv.Must(t, err)
	defer ends.Close()
	client, service, pod := netip.MustParseAddrPort("10.0.0.1:4000"), netip.MustParseAddrPort("10.96.0.10:53"), netip.MustParseAddrPort("10.0.1.1:5000")
	testenv.InNetns(t, n.Path(), func() error {
		c, err := conntrack.Dial(nil)
		if err != nil {
			return err
		}
		defer c.Close()
		f := conntrack.NewFlow(17, conntrack.StatusSeenReply|conntrack.StatusAssured|conntrack.StatusConfirmed,
			client.Addr(), service.Addr(), client.Port(), service.Port(), 600, 0)
		f.TupleReply.IP.SourceAddress, f.TupleReply.Proto.SourcePort = pod.Addr(), pod.Port()
		return errors.Join(c.Create(f), c.Flush())
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got []kernel.Ended
	testenv.Must(t, ends.Follow(ctx, func(ended []kernel.Ended, _, _ bool) error {
		got = append(got, ended...)
		if len(ended) > 0 {
			cancel()
		}
		return nil
	}))
	want := kernel.Ended{Connection: kernel.Connection{Protocol: 17, A: client, B: service}, Replies: kernel.Connection{Protocol: 17, A: pod, B: client}}
	if len(got) != 1 || got[0] != want || !got[0].IsTranslated() {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// When more end than the kernel keeps, that is said last of all.
func TestConntrackEndsLost(t *testing.T) {
	const many = 40_000
	n := tracked(t)
	ends, err := kernel.OpenDestroyEvents(n)
	testenv.Must(t, err)
	defer ends.Close()
	testenv.InNetns(t, n.Path(), func() error {
		c, err := conntrack.Dial(nil)
		if err != nil {
			return err
		}
		defer c.Close()
		status := conntrack.StatusSeenReply | conntrack.StatusAssured | conntrack.StatusConfirmed
		for i := range many {
			if err := c.Create(conntrack.NewFlow(17, status, loopback, loopback, uint16(i+1), 53, 600, 0)); err != nil {
				return err
			}
		}
		return c.Flush()
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	said, last := 0, false
	testenv.Must(t, ends.Follow(ctx, func(ended []kernel.Ended, lost, more bool) error {
		said, last = said+len(ended), lost
		if !more {
			cancel()
		}
		return nil
	}))
	if said >= many || !last {
		t.Errorf("of %d ends, %d were told, and at last that some were lost: %v", many, said, last)
	}
}
