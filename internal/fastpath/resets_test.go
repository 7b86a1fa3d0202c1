package fastpath_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

// trackResets has a namespace track connections, and answer updates of them.
func trackResets(t *testing.T) (*bpf.Objects, *netcfg.Namespace, *kernel.Conntrack) {
	t.Helper()
	fast, n := newFast(t), space(t)
	testenv.Track(t, n.Path())
	_, track := newSweep(t, fast, n)
	ends, err := kernel.OpenDestroyEvents(n) // so that updates are answered
	must(t, err)
	t.Cleanup(func() { ends.Close() })
	return fast, n, track
}

// A connection that was closed is established again when it is used, but not when conntrack has said that
// it ended, by either of its tuples, or may have: what is used then is a later one.
func TestReopensUntilEnded(t *testing.T) {
	fast, n, track := trackResets(t)
	other := kernel.Connection{Protocol: tcp, A: netip.MustParseAddrPort("10.0.0.1:1"), B: netip.MustParseAddrPort("10.0.0.2:2")}
	for _, c := range []struct {
		name  string
		ended func(of kernel.Connection) []kernel.Ended
		lost  bool
		want  kernel.ConnState
	}{
		{"used", nil, false, kernel.ConnEstablished},
		{"another one ended", func(kernel.Connection) []kernel.Ended { return []kernel.Ended{{Connection: other, Replies: other}} }, false, kernel.ConnEstablished},
		{"ended", func(of kernel.Connection) []kernel.Ended { return []kernel.Ended{{Connection: of, Replies: other}} }, false, kernel.ConnClosing},
		{"ended, by its replies", func(of kernel.Connection) []kernel.Ended { return []kernel.Ended{{Connection: other, Replies: of}} }, false, kernel.ConnClosing},
		{"ends were lost", nil, true, kernel.ConnClosing},
	} {
		testenv.InNetns(t, n.Path(), func() error {
			l, err := net.Listen("tcp4", "127.0.0.1:0")
			must(t, err)
			defer l.Close()
			client, err := net.Dial("tcp4", l.Addr().String())
			must(t, err)
			defer client.Close()
			of := kernel.Connection{Protocol: tcp, A: netip.MustParseAddrPort(client.LocalAddr().String()), B: netip.MustParseAddrPort(l.Addr().String())}
			var is kernel.ConnState
			update := func(u kernel.Update) {
				must(t, track.Update([]kernel.Update{u}, func(_ int, now kernel.ConnState) { is = now }))
			}
			f := fastpath.NewFlows(fast, 0)
			update(kernel.Update{Conn: of, Timeout: 9 * time.Second})
			must(t, f.CloseReset([]kernel.Connection{of}, 10*time.Second, 0, track))
			if update(kernel.Update{Conn: of}); is != kernel.ConnClosing {
				t.Fatalf("%s: it is not closed: %v", c.name, is)
			}
			var ended []kernel.Ended
			if c.ended != nil {
				ended = c.ended(of)
			}
			must(t, f.Destroyed(ended, c.lost, false))
			if _, err := client.Write([]byte{0}); err != nil {
				return err
			}
			must(t, f.Reopen(track))
			if update(kernel.Update{Conn: of}); is != c.want {
				t.Errorf("%s: its state is %v, want %v", c.name, is, c.want)
			}
			return nil
		})
	}
}

// Later kernels give a connection that was reset the timeout of unacknowledged data, which one that has
// answered the reset may have, too. So that is no reason where a kernel was seen to give them less.
func TestClosesResetsOfLaterKernels(t *testing.T) {
	fast, n, track := trackResets(t)
	testenv.InNetns(t, n.Path(), func() error {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		must(t, err)
		defer l.Close()
		dial := func() (net.Conn, kernel.Connection) {
			client, err := net.Dial("tcp4", l.Addr().String())
			must(t, err)
			t.Cleanup(func() { client.Close() })
			return client, kernel.Connection{Protocol: tcp, A: netip.MustParseAddrPort(client.LocalAddr().String()), B: netip.MustParseAddrPort(l.Addr().String())}
		}
		var is kernel.ConnState
		update := func(u kernel.Update) kernel.ConnState {
			must(t, track.Update([]kernel.Update{u}, func(_ int, now kernel.ConnState) { is = now }))
			return is
		}
		f := fastpath.NewFlows(fast, 0)
		reset := func(of kernel.Connection, lives time.Duration) kernel.ConnState {
			update(kernel.Update{Conn: of, Timeout: lives})
			must(t, f.CloseReset([]kernel.Connection{of}, 10*time.Second, 300*time.Second, track))
			return update(kernel.Update{Conn: of})
		}
		client, of := dial()
		if is := reset(of, time.Hour); is != kernel.ConnEstablished {
			t.Errorf("one that lives on is %v", is)
		}
		if is := reset(of, 299*time.Second); is != kernel.ConnClosing {
			t.Errorf("one with the timeout of unacknowledged data is %v", is)
		}
		must(t, f.Reopen(track))
		if is := update(kernel.Update{Conn: of}); is != kernel.ConnClosing {
			t.Errorf("unused, it is %v", is)
		}
		if _, err := client.Write([]byte{0}); err != nil { // leaves it 10 s
			return err
		}
		must(t, f.Reopen(track))
		if is := update(kernel.Update{Conn: of}); is != kernel.ConnEstablished {
			t.Errorf("used, it is %v", is)
		}
		if is := reset(of, 9*time.Second); is != kernel.ConnClosing {
			t.Errorf("one with the timeout of closed ones is %v", is)
		}
		_, another := dial()
		if is := reset(another, 299*time.Second); is != kernel.ConnEstablished {
			t.Errorf("once a kernel gives less, one with the timeout of unacknowledged data is %v", is)
		}
		return nil
	})
}
