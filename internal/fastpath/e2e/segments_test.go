package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/fastpathtest"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
)

// udpFrame is what is in front of a datagram's payload in a pod's frame.
const udpFrame = ethLen + traffic.UDPHeaders

// burstOf is a payload that is known again, to be cut into datagrams of a size; the last one is shorter.
func burstOf(count, size int) []byte {
	payload := make([]byte, count*size-size/3)
	for i := range payload {
		payload[i] = byte(rand.Uint32())
	}
	return payload
}

// waitBursts sends bursts both ways until all machines carry them.
func waitBursts(t *testing.T, arm lab.Arm, f *traffic.Bursts) {
	t.Helper()
	before := fastpathtest.CarriedPackets(t, arm)
	for end := time.Now().Add(testenv.Timeout); ; {
		for from := range 2 {
			if err := f.Exchange(from, burstOf(10, 1000), 1000); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("%s: %v", arm.Name, err)
			}
		}
		least := ^uint64(0)
		for i, now := range fastpathtest.CarriedPackets(t, arm) {
			least = min(least, now-before[i])
		}
		switch {
		case least >= 20:
			return
		case time.Now().After(end):
			t.Fatalf("%s: after %v, machines carried %v, and %v before", arm.Name, testenv.Timeout, fastpathtest.CarriedPackets(t, arm), before)
		}
	}
}

// What a pod sends in one call, to be cut into datagrams, is carried whole, out of its pod and into the
// other: it arrives as it was sent, and counts once. Tunnels' devices count what they hand on. What is sent
// after it does not overtake it.
func TestFastPathCarriesSegments(t *testing.T) {
	requireFastPath(t)
	wire, err := lab.ParseWire("rss=l3") // received on another core, where what is sent meanwhile waits
	testenv.Must(t, err)
	l := testenv.Lab(t, lab.Options{Paths: supportedFastPaths(), Wire: wire})
	for _, arm := range l.Arms {
		t.Run(arm.Name, func(t *testing.T) {
			f := traffic.OpenBursts(t, arm.Client(), arm.Server())
			waitBursts(t, arm, f)
			for try := 1; ; try++ { // a change of something else may have made some of them slow
				err := countBursts(t, l, arm, f)
				if err == nil {
					break
				}
				if t.Logf("try %d: %v", try, err); try == changeTries {
					t.Error(err)
					break
				}
				waitBursts(t, arm, f)
			}
			pin(t)
			for range 20 {
				checkOrder(t, f)
			}
		})
	}
}

// checkOrder sends bursts and single datagrams in turn, and wants them in that order.
func checkOrder(t *testing.T, f *traffic.Bursts) {
	t.Helper()
	var sent [][]byte
	for i := range 20 {
		sent = append(sent, burstOf(2, 100), []byte{byte(i), 1, 2})
		testenv.Must(t, f.Send(0, sent[2*i], 100))
		testenv.Must(t, f.Send(0, sent[2*i+1], 0))
	}
	for i, want := range sent {
		got, _, err := f.Receive(1, testenv.Timeout)
		testenv.Must(t, err)
		if !bytes.Equal(got, want) {
			t.Fatalf("in place %d of %d came %d bytes in place of %d", i, len(sent), len(got), len(want))
		}
	}
}

// countBursts sends bursts each way while they are carried, and says what of them was not counted as is due.
func countBursts(t *testing.T, l *lab.Lab, arm lab.Arm, f *traffic.Bursts) error {
	t.Helper()
	type counts struct{ out, in, inBytes, device int } // of a machine; those of the tunnel's device, if there is one
	read := func() (all []counts) {
		for i, pins := range arm.Pins {
			s, err := fastpath.ReadStats(pins)
			testenv.Must(t, err)
			config, err := fastpath.Load(filepath.Join(filepath.Dir(pins), "fast.json"))
			testenv.Must(t, err)
			c := counts{int(s[bpf.CarriedOut].Packets), int(s[bpf.CarriedIn].Packets), int(s[bpf.CarriedIn].Bytes), 0}
			for _, name := range config.Devices.Tunnels {
				c.device += int(statisticsOf(t, l.Machines[i].Namespace, name).RxPackets)
			}
			all = append(all, c)
		}
		return all
	}
	before, bursts, size := read(), 0, 0
	for _, of := range []int{1, 100, 1200, arm.Client().MTU - traffic.UDPHeaders} {
		for _, count := range []int{2, 7, min(traffic.MaxSegments, 65000/of)} {
			payload := burstOf(count, of)
			for from := range 2 {
				testenv.Must(t, f.Exchange(from, payload, of))
			}
			bursts, size = bursts+1, size+len(payload)+udpFrame
		}
	}
	for i, now := range read() {
		got := counts{now.out - before[i].out, now.in - before[i].in, now.inBytes - before[i].inBytes, now.device - before[i].device}
		tunnels := !strings.HasPrefix(arm.Path, "routed") && !strings.HasPrefix(arm.Path, "netkit")
		if got.out != bursts || got.in != bursts || got.inBytes != size || tunnels && got.device < bursts {
			return fmt.Errorf("%s: of %d bursts each way with %d bytes, the counts are %+v", l.Machines[i].Name, bursts, size, got)
		}
	}
	return nil
}

// A rule that forbids bursts ends them as soon as other packets, wherever it stands.
func TestFastPathSegmentsFollowRules(t *testing.T) {
	requireFastPath(t)
	requireTools(t)
	l := testenv.Lab(t, lab.Options{Paths: withTunnels(basicFastPaths...)})
	for _, c := range []struct {
		name, path, do, undo string
	}{
		{"for pods", "", `nft 'table ip deny { chain c { type filter hook forward priority 0; meta l4proto udp drop; }; }'`, `nft delete table ip deny`},
		{"for the tunnel", "vxlan geneve ipip", `nft 'table ip deny { chain c { type filter hook input priority 0; meta l4proto { 4, 17 } drop; }; }'`, `nft delete table ip deny`},
		{"that marks", "", `ip rule add fwmark 7 blackhole pref 100
			nft 'table ip deny { chain c { type filter hook prerouting priority -150; meta l4proto udp meta mark set 7; }; }'`,
			"nft delete table ip deny\nip rule del fwmark 7 blackhole pref 100"},
	} {
		for _, arm := range l.Arms {
			if !isFor(c.path, arm.Path) {
				continue
			}
			t.Run(c.name+", "+arm.Name, func(t *testing.T) {
				f := traffic.OpenBursts(t, arm.Client(), arm.Server())
				m := l.Machines[1]
				var took []time.Duration
				for range changeTries {
					waitBursts(t, arm, f)
					took = append(took, lastBurst(t, f, func() { testenv.Shell(t, m.Namespace, c.do) }))
					testenv.Shell(t, m.Namespace, c.undo)
					if took[len(took)-1] <= changeLimit {
						break
					}
				}
				if slices.Min(took) > changeLimit {
					t.Errorf("it took hold after %v at best, of %d tries", slices.Min(took), len(took))
				}
				waitBursts(t, arm, f)
			})
		}
	}
}

// lastBurst sends bursts to the second end while something changes, until none comes any more, and gives how
// long after the change the last one came.
func lastBurst(t *testing.T, f *traffic.Bursts, change func()) time.Duration {
	t.Helper()
	const quiet = 300 * time.Millisecond
	var stop atomic.Bool
	var last atomic.Int64 // when one came, ns
	var both sync.WaitGroup
	defer both.Wait()
	defer stop.Store(true)
	both.Go(func() {
		payload := burstOf(10, 1000)
		for ; !stop.Load(); time.Sleep(time.Millisecond) {
			if err := f.Send(0, payload, 1000); err != nil {
				t.Error(err)
				return
			}
		}
	})
	both.Go(func() {
		for !stop.Load() {
			if _, _, err := f.Receive(1, quiet/10); err == nil {
				last.Store(time.Now().UnixNano())
			}
		}
	})
	end := time.Now().Add(testenv.Timeout)
	for ; last.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v, no burst has come", testenv.Timeout)
		}
	}
	change()
	changed := time.Now()
	for ; time.Since(time.Unix(0, last.Load())) < quiet; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v, bursts still come", testenv.Timeout)
		}
	}
	return max(0, time.Unix(0, last.Load()).Sub(changed))
}
