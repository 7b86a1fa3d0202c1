package fastpath_test

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/ti-mo/conntrack"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

// A connection that closes while it is refreshed lives as long as conntrack is told to keep one in its state.
func TestSweepLeavesClosingToConntrack(t *testing.T) {
	fast, n := newFast(t), space(t)
	testenv.Track(t, n.Path())
	ends, err := kernel.OpenDestroyEvents(n)
	must(t, err)
	defer ends.Close()
	for name, value := range map[string]string{"close_wait": "3600", "time_wait": "700"} {
		must(t, n.Sysctl(netcfg.Sysctl{Name: "net.netfilter.nf_conntrack_tcp_timeout_" + name, Value: value}))
	}
	s, _ := newSweep(t, fast, n)
	for _, c := range []struct {
		name  string
		state kernel.TCPState
		lives uint32 // seconds
		close func(client, server *net.TCPConn) error
	}{
		{"half-closed", kernel.TCPCloseWait, 3600, func(_, server *net.TCPConn) error { return server.CloseWrite() }},
		{"closed", kernel.TCPTimeWait, 700, func(client, server *net.TCPConn) error {
			return errors.Join(server.CloseWrite(), client.CloseWrite())
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			testenv.InNetns(t, n.Path(), func() error {
				listener, err := net.Listen("tcp4", "127.0.0.1:0")
				must(t, err)
				defer listener.Close()
				client, err := net.Dial("tcp4", listener.Addr().String())
				must(t, err)
				defer client.Close()
				server, err := listener.Accept()
				must(t, err)
				defer server.Close()
				must(t, c.close(client.(*net.TCPConn), server.(*net.TCPConn)))

				from, to := client.LocalAddr().(*net.TCPAddr).AddrPort(), client.RemoteAddr().(*net.TCPAddr).AddrPort()
				tracked, err := conntrack.Dial(nil)
				must(t, err)
				defer tracked.Close()
				look := func() conntrack.Flow {
					is, err := tracked.Get(conntrack.NewFlow(tcp, 0, from.Addr(), to.Addr(), from.Port(), to.Port(), 0, 0))
					must(t, err)
					return is
				}
				for end := time.Now().Add(testenv.Timeout); look().ProtoInfo.TCP.State != uint8(c.state); time.Sleep(time.Millisecond) {
					if time.Now().After(end) {
						t.Fatalf("after %v, its state is %d, want %d", testenv.Timeout, look().ProtoInfo.TCP.State, c.state)
					}
				}
				key := bpf.NewFlowKey(0, tcp, to, from)
				must(t, fast.Flows.Put(key, bpf.Flow{Epoch: 1, CtEntry: 1, Requested: nowTick - 60, Used: nowTick - 5}))
				sweepAll(t, s, false, map[uint8]uint32{tcp: 86_400})
				if is := look(); is.Timeout > c.lives || is.Timeout < c.lives-100 || is.ProtoInfo.TCP.State != uint8(c.state) {
					t.Errorf("it lives for %d s, want %d; its state is %d", is.Timeout, c.lives, is.ProtoInfo.TCP.State)
				}
				if hasFlow(t, fast.Flows, key) {
					t.Error("it would still be carried")
				}
				return nil
			})
		})
	}
}
