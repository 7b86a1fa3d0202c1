package node_test

import (
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/testenv"
)

// oneWay is a flow from the first pod of a node to another that is never answered.
type oneWay struct {
	*siblingNode
	sender, receiver *net.UDPConn
	arrived          atomic.Uint64
	last             atomic.Int64 // when a datagram arrived last, nanoseconds of the wall clock
}

func (b *siblingNode) oneWay(t *testing.T) *oneWay {
	t.Helper()
	to := netip.AddrPortFrom(b.podAddr, 7778).String()
	o := &oneWay{siblingNode: b, receiver: b.openUDP(t, b.pod, to, ""), sender: b.openUDP(t, b.pods[0], b.clientAt(0), to)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for buf := make([]byte, 8); ; o.arrived.Add(1) {
			if _, err := o.receiver.Read(buf); err != nil {
				return
			}
			o.last.Store(time.Now().UnixNano())
		}
	}()
	t.Cleanup(func() { o.receiver.Close(); <-done })
	return o
}

func (o *oneWay) send(t *testing.T) {
	t.Helper()
	_, err := o.sender.Write([]byte{1})
	testenv.Must(t, err)
}

// sends sends datagrams that all arrive, and tells how many are carried.
func (o *oneWay) sends(t *testing.T, many int) int {
	t.Helper()
	want := o.arrived.Load() + uint64(many)
	before, _ := o.carried(t, 0)
	for range many {
		o.send(t)
	}
	for end := time.Now().Add(testenv.Timeout); o.arrived.Load() < want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("of %d datagrams, %d did not arrive", many, want-o.arrived.Load())
		}
	}
	now, _ := o.carried(t, 0)
	return int(now - before)
}

// sendsInvalid sends datagrams of another flow, whose checksums are wrong, and tells how many are carried.
func (o *oneWay) sendsInvalid(t *testing.T, many int) int {
	t.Helper()
	before := o.carriedNow(t)
	testenv.InNetns(t, o.pods[0].Path(), func() error {
		conn, err := net.DialIP("ip4:udp", nil, &net.IPAddr{IP: o.podAddr.AsSlice()})
		if err != nil {
			return err
		}
		defer conn.Close()
		for range many {
			if _, err := conn.Write([]byte{0x0f, 0xa0, answeredPort >> 8, answeredPort & 0xff, 0, 9, 0, 1, '?'}); err != nil { // from port 4000
				return err
			}
		}
		return nil
	})
	return int(o.carriedNow(t) - before)
}

// untilCarried sends until all that is sent is carried.
func (o *oneWay) untilCarried(t *testing.T) {
	t.Helper()
	const many = 100
	for end := time.Now().Add(testenv.Timeout); ; {
		n := o.sends(t, many)
		if n == many {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %v, of %d datagrams that nobody answers %d are carried: %+v", testenv.Timeout, many, n, o.status(t, 0))
		}
	}
}

// cutOff sends until nothing has arrived for a while, and tells for how long after now something did.
func (o *oneWay) cutOff(t *testing.T) time.Duration {
	t.Helper()
	const silence = 300 * time.Millisecond
	began := time.Now()
	for end := began.Add(testenv.Timeout); ; time.Sleep(time.Millisecond) {
		o.send(t)
		last := time.Unix(0, o.last.Load())
		if now := time.Now(); now.Sub(last) > silence && now.Sub(began) > silence {
			return max(0, last.Sub(began))
		}
		if time.Now().After(end) {
			t.Fatalf("after %v, datagrams still arrive", testenv.Timeout)
		}
	}
}

// Between pods of one node, datagrams that nobody answers are carried where no connection is tracked, until a rule
// denies them; where one is, they wait for an answer, and arrive.
func TestSiblingCarriesOneWay(t *testing.T) {
	for i, w := range siblingWirings[:3] {
		t.Run(w.name, func(t *testing.T) {
			b := newSibling(t, w)
			b.learnNeighbours(t)
			b.enable(t, 0, "0")
			b.untilRunning(t, 0, true)
			node, o := b.nodes[0].Path(), b.oneWay(t)
			o.untilCarried(t)
			var took time.Duration
			for try := range siblingTries {
				testenv.Shell(t, node, `nft 'table netdev deny { chain c { type filter hook egress device "veth9" priority 0; meta l4proto udp drop; }; }'`)
				took = o.cutOff(t)
				testenv.Shell(t, node, "nft delete table netdev deny")
				o.untilCarried(t)
				if t.Logf("try %d: took hold after %v", try+1, took); took <= siblingLimit {
					break
				}
			}
			if took > siblingLimit {
				t.Errorf("the rule took hold after %v", took)
			}

			testenv.Shell(t, node, `nft 'table ip tracks { chain c { type filter hook forward priority 0; ct state established accept; }; }'`)
			flushConntrack(t, b.nodes[0])
			time.Sleep(siblingLimit)
			const many = 200
			switch n, asks := o.sends(t, many), i != 1; {
			case asks && n > 0:
				t.Errorf("of %d datagrams of a tracked connection that nobody answers, %d were carried", many, n)
			case asks:
				if n := o.sendsInvalid(t, many); n > 0 {
					t.Errorf("of %d datagrams with wrong checksums, %d were carried", many, n)
				}
			case !asks: // this bridge asks nobody, and nothing is tracked
				o.untilCarried(t)
			}
		})
	}
}
