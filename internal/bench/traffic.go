package bench

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/venturi-net/venturi/internal/host"
)

// traffic is what must not be lost: numbered datagrams and streams of known content in
// both directions, and short connections.
type traffic struct {
	udp     [2]*numbered
	stop    context.CancelFunc
	running sync.WaitGroup
	gate    sync.RWMutex // closed while nothing new is to be sent
	bytes   atomic.Uint64
	opened  atomic.Uint64
	mu      sync.Mutex
	broken  []string // what became of connections that did not do what they should
}

// trafficRate says how much traffic there is.
type trafficRate struct {
	datagrams int // a second, all together
	streams   int
	bytes     int // a second, of each stream, each way
}

const (
	chunk = 64 << 10              // bytes that a stream sends at once
	pause = 20 * time.Millisecond // between short connections
)

// trafficTimeout bounds every wait for the other end.
var trafficTimeout = host.ScaleTimeout(20 * time.Second)

// startTraffic starts it between two ends. It goes on until it is stopped.
func startTraffic(ctx context.Context, from, to host.Endpoint, r trafficRate) (*traffic, error) {
	t := &traffic{}
	ctx, t.stop = context.WithCancel(ctx)
	for i, at := range []host.Endpoint{from, to} {
		conn, err := listenNumbered(at)
		if err != nil {
			t.close()
			return nil, err
		}
		t.udp[i] = &numbered{conn: conn}
	}
	t.udp[0].peer, t.udp[1].peer = t.udp[1], t.udp[0]
	for i, n := range t.udp {
		rate := r.datagrams * 3 / 4
		if i == 1 {
			rate = r.datagrams - rate
		}
		t.start(func() { n.receive() })
		t.start(func() { n.send(ctx, &t.gate, rate) })
	}
	var listener *net.TCPListener
	err := host.Do(to.Namespace, func() (err error) {
		listener, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(to.Addr, 0)))
		return err
	})
	if err != nil {
		t.close()
		return nil, err
	}
	context.AfterFunc(ctx, func() { listener.Close() })
	t.start(func() { t.serve(ctx, listener, r) })
	at := listener.Addr().(*net.TCPAddr).AddrPort()
	for range r.streams {
		conn, err := dialFrom(from, at)
		if err != nil {
			t.close()
			return nil, err
		}
		t.start(func() { t.stream(ctx, conn, r.bytes) })
	}
	t.start(func() { t.openShortConns(ctx, from, at) })
	return t, nil
}

func (t *traffic) start(what func()) {
	t.running.Add(1)
	go func() {
		defer t.running.Done()
		what()
	}()
}

// close ends it all.
func (t *traffic) close() {
	t.stop()
	for _, n := range t.udp {
		if n != nil {
			n.conn.Close()
		}
	}
	t.running.Wait()
}

func (t *traffic) fail(what string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.broken = append(t.broken, fmt.Sprintf("%s: %v", what, err))
}

// The first byte of a connection: which kind it is.
const (
	isStream = 's'
	isShort  = 'c'
)

// serve takes connections. Whoever dialed says which kind each is.
func (t *traffic) serve(ctx context.Context, l *net.TCPListener, r trafficRate) {
	for {
		conn, err := l.AcceptTCP()
		if err != nil {
			if ctx.Err() == nil {
				t.fail("accept", err)
			}
			return
		}
		t.start(func() {
			kind := make([]byte, 1)
			_ = conn.SetDeadline(time.Now().Add(trafficTimeout))
			if _, err := conn.Read(kind); err != nil {
				conn.Close() // its other end tells
				return
			}
			if kind[0] == isStream {
				t.exchange(ctx, conn, r.bytes)
				return
			}
			defer conn.Close()
			_, _ = conn.Write(kind)
			_, _ = conn.Read(kind) // the end
		})
	}
}

func dialFrom(from host.Endpoint, to netip.AddrPort) (conn *net.TCPConn, err error) {
	d := net.Dialer{Timeout: trafficTimeout, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from.Addr, 0))}
	err = host.Do(from.Namespace, func() error {
		c, err := d.Dial("tcp", to.String())
		if err == nil {
			conn = c.(*net.TCPConn)
		}
		return err
	})
	return conn, err
}

// openShortConns opens connections, exchanges a byte on each, and closes them.
func (t *traffic) openShortConns(ctx context.Context, from host.Endpoint, to netip.AddrPort) {
	for ctx.Err() == nil {
		err := t.shortConn(from, to)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			t.fail("short connection", err)
		}
		t.opened.Add(1)
		_ = host.Sleep(ctx, pause)
	}
}

func (t *traffic) shortConn(from host.Endpoint, to netip.AddrPort) error {
	conn, err := dialFrom(from, to)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(trafficTimeout))
	if _, err := conn.Write([]byte{isShort}); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}

// stream is a connection that stays, from the end that dialed.
func (t *traffic) stream(ctx context.Context, conn *net.TCPConn, rate int) {
	if _, err := conn.Write([]byte{isStream}); err != nil {
		t.fail("stream", err)
		conn.Close()
		return
	}
	t.opened.Add(1)
	t.exchange(ctx, conn, rate)
}

// exchange sends and reads the pattern, until ctx ends.
func (t *traffic) exchange(ctx context.Context, conn *net.TCPConn, rate int) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	defer conn.Close()
	sent := make(chan error, 1)
	go func() { sent <- sendPattern(ctx, conn, rate) }()
	err := t.readPattern(conn)
	if ctx.Err() == nil {
		t.fail("stream", err)
	}
	conn.Close()
	<-sent
}

// pattern is what streams carry, over and over. Its length is odd, so that no two
// successive chunks are alike.
var pattern = func() []byte {
	b := make([]byte, 1<<18+3)
	x := uint32(1)
	for i := range b {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = byte(x)
	}
	return b
}()

func sendPattern(ctx context.Context, conn *net.TCPConn, rate int) error {
	every := time.Duration(float64(chunk) / float64(rate) * float64(time.Second))
	for at := 0; ctx.Err() == nil; {
		part := pattern[at:min(at+chunk, len(pattern))]
		at = (at + len(part)) % len(pattern)
		_ = conn.SetWriteDeadline(time.Now().Add(trafficTimeout))
		if _, err := conn.Write(part); err != nil {
			return err
		}
		_ = host.Sleep(ctx, every)
	}
	return nil
}

func (t *traffic) readPattern(conn *net.TCPConn) error {
	buf := make([]byte, chunk)
	for at := 0; ; {
		_ = conn.SetReadDeadline(time.Now().Add(trafficTimeout))
		n, err := conn.Read(buf[:min(chunk, len(pattern)-at)])
		if err != nil {
			return err
		}
		if string(buf[:n]) != string(pattern[at:at+n]) {
			return fmt.Errorf("what came is not what was sent, at byte %d of %d", at, len(pattern))
		}
		at = (at + n) % len(pattern)
		t.bytes.Add(uint64(n))
	}
}

// tally is what has become of the traffic so far.
type tally struct {
	sent, lost, duplicates, reordered, refused uint64 // datagrams
	opened, bytes                              uint64
	broken                                     []string
}

// awaitQuiet waits until no more datagrams arrive, and counts. The gate is closed.
func (t *traffic) awaitQuiet() (now tally) {
	const poll = 5 * time.Millisecond
	for still, got := time.Now(), uint64(0); ; time.Sleep(poll) {
		now = t.tally()
		if now.lost == 0 {
			break
		}
		if came := now.sent - now.lost; came != got {
			still, got = time.Now(), came
		}
		if time.Since(still) > quietTime {
			break
		}
	}
	return now
}

// quietTime is how long nothing must arrive before missing datagrams count as lost.
var quietTime = host.ScaleTimeout(time.Second)

func (t *traffic) tally() tally {
	now := tally{opened: t.opened.Load(), bytes: t.bytes.Load()}
	for _, n := range t.udp {
		n.mu.Lock()
		sent := n.peer.sent.Load()
		now.sent += sent
		now.lost += sent - n.distinct
		now.duplicates += n.duplicates
		now.reordered += n.reordered
		now.refused += n.refused.Load()
		n.mu.Unlock()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now.broken = append([]string(nil), t.broken...)
	return now
}
