package fastpath_test

import (
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

// However many router advertisements come, the daemon does not read the network again all the time; and
// it overlooks none.
func TestManyAdvertisements(t *testing.T) {
	testenv.Root(t)
	fast, err := bpf.New(bpf.Routed6, bpf.Options{}, 0)
	must(t, err)
	defer fast.Close()
	n := space(t)
	must(t, n.Sysctl(netcfg.Sysctl{Name: "net.ipv6.conf.lo.disable_ipv6", Value: "0"}))
	c := &fastpath.Config{Kind: bpf.Routed6, Pins: t.TempDir(), State: filepath.Join(t.TempDir(), "state")}
	testenv.InNetns(t, n.Path(), func() error {
		reads := 0
		poll, end, err := fastpath.PollsOfAdvertisements(c, n, fast, func() (topology.Topology, error) {
			reads++
			time.Sleep(fastpath.MaxAdvertisedRest / 50)
			return topology.Topology{}, nil
		})
		must(t, err)
		defer end()
		fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMPV6)
		must(t, err)
		defer unix.Close(fd)
		advertise := func() {
			must(t, unix.Sendto(fd, append([]byte{134}, make([]byte, 15)...), 0, &unix.SockaddrInet6{Addr: netip.IPv6Loopback().As16()}))
		}
		readAgain := func(times int, when string) {
			t.Helper()
			reads = 0
			for end := time.Now().Add(testenv.Timeout); reads < times; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%s: after %v, the network was read %d times, want %d", when, testenv.Timeout, reads, times)
				}
				must(t, poll())
			}
		}
		advertise()
		readAgain(2, "after one advertisement") // what it changes may be done only after it was counted
		reads = 0
		begin := time.Now()
		for range 20 {
			advertise()
			must(t, poll())
		}
		if most := 1 + int(time.Since(begin)/fastpath.MaxAdvertisedRest); reads > most {
			t.Errorf("after 20 advertisements, the network was read %d times, want %d at most", reads, most)
		}
		readAgain(1, "after the last advertisement")
		return nil
	})
}
