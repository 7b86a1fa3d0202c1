package e2e

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
)

// Pods that have a tunnel between them, in UDP, hand its packets on uncut. How large the segments become is said by the
// headers in the tunnel, which the fast path does not read. So such packets stay slow: the network knows whether the
// segments fit the path. (No program can put the headers of another tunnel around them.)
func TestFastPathLeavesTunnelsOfPods(t *testing.T) {
	requireFastPath(t)
	requireTools(t)
	const port, large, overhead = 4444, 20, 50
	l := testenv.Lab(t, lab.Options{Paths: []string{"routed+fast"}})
	for n, arm := range l.Arms {
		if len(arm.Pins) == 0 {
			continue
		}
		t.Run(arm.Name, func(t *testing.T) {
			ends := []host.Endpoint{arm.Client(), arm.Server()}
			for i, end := range ends {
				testenv.Shell(t, end.Namespace, fmt.Sprintf(`ip link add inner type vxlan id 7 dstport %[1]d srcport %[1]d %[2]d local %[3]v remote %[4]v
					ip link set inner mtu %[5]d up
					ip address add 198.18.%[6]d.%[7]d/24 dev inner`, port, port+1, end.Addr, ends[1-i].Addr, end.MTU-overhead, n, i+1))
			}
			inner := []host.Endpoint{ends[0], ends[1]}
			for i := range inner {
				inner[i].Addr = netip.AddrFrom4([4]byte{198, 18, byte(n), byte(i + 1)})
			}
			conn := dial(t, inner[0], serve(t, inner[1]))
			carryTCP(t, arm, conn) // its acknowledgements
			tooLarge := func() (packets uint64) {
				s, err := fastpath.ReadStats(arm.Pins[0])
				testenv.Must(t, err)
				return s[bpf.SlowSize].Packets
			}
			before := tooLarge()
			stop, done := make(chan struct{}), make(chan error, 1)
			var echoed atomic.Int64
			go func() { done <- chunks(conn, stop, &echoed) }()
			for end := time.Now().Add(testenv.Timeout); echoed.Load() < large && time.Now().Before(end); {
				time.Sleep(pace)
			}
			close(stop)
			testenv.Must(t, <-done)
			if got := tooLarge() - before; got < large {
				t.Errorf("of %d chunks of a tunnel, %d packets were left to the network", echoed.Load(), got)
			}
		})
	}
}
