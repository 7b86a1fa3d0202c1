package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/venturi-net/venturi/internal/bench/pods"
	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/internal/verify"
)

const (
	floodRate  = 100_000 // new flows a second, of one packet each
	floodSinks = 64      // ports that they are for
	floodPorts = 60_000  // source ports of each
	floodSlice = 250 * time.Millisecond
	floodTurn  = 4 // slices of each state in a turn
	// floodReached is how much of its rate a flood must reach for the ratio to say something.
	floodReached = 0.5
	// floodLimit is what is to be left of a stream's throughput.
	floodLimit = 0.97
	// floodLoad is the load that is measured.
	floodLoad = "tcp_bw"
)

// floodedStream measures what a flood of new flows takes from a stream that the fast path carries.
// The flood itself takes most, because the lab's machines share cores with it. So the stream is
// measured beside a flood between pods of the fast path, and in turn beside the same between pods of
// a plain path: the fast path's own share is the ratio.
func floodedStream(ctx context.Context, w io.Writer, h compare.Host, budget time.Duration, seed uint64) (limits []verify.Requirement, err error) {
	q := fastRequest(overlayPaths, 0, seed)
	q.NoCopy = true
	b, err := verify.OpenComparer(ctx, q, h)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	var floods []*flood
	var fast lab.Arm
	for _, arm := range b.Session.Lab().Arms[1:] {
		f, err := openFlood(arm)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		floods, fast = append(floods, f), arm
	}
	stream, err := openStream(fast)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	before, err := pods.CountsOf(fast.Pins)
	if err != nil {
		return nil, err
	}
	now := 0
	s := &states{names: overlayPaths,
		enter: func(_ context.Context, state int) error { now = state; return nil },
		measure: func(ctx context.Context, _ *rand.Rand) (sample, error) {
			var rates []float64
			for range floodTurn {
				begin, was := time.Now(), stream.received.Load()
				if err := errors.Join(ctx.Err(), floods[now].run(floodSlice)); err != nil {
					return nil, err
				}
				rates = append(rates, float64(stream.received.Load()-was)/time.Since(begin).Seconds())
			}
			m := stats.Median(rates)
			if m == 0 {
				return nil, fmt.Errorf("nothing arrives of a stream through %s beside a flood through %s", fast.Name, overlayPaths[now])
			}
			return sample{floodLoad: {path: math.Log(m)}}, nil
		}}
	seen, err := s.run(ctx, budget, seed)
	if err != nil {
		return nil, err
	}
	after, err := pods.CountsOf(fast.Pins)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(w, "%s beside a flood of %d new flows a second, of one packet each; %d times each in turn\n\n", fast.Name, floodRate, len(seen[0]))
	fmt.Fprintf(w, "%-22s %14s %16s\n", "flood through", "stream, MB/s", "flows/s")
	for i, name := range s.names {
		var logs []float64
		for _, m := range seen[i] {
			logs = append(logs, m[floodLoad].path)
		}
		fmt.Fprintf(w, "%-22s %14.0f %16.0f\n", name, math.Exp(stats.Median(logs))/1e6, floods[i].perSecond())
	}
	fmt.Fprintln(w)
	carried := after[bpf.CarriedOut] - before[bpf.CarriedOut]
	least := min(floods[0].perSecond(), floods[1].perSecond())
	return append(judgeFlood(ratioBetween(seen[1], seen[0], floodLoad, false)), verify.Requirement{
		Text:  fmt.Sprintf("flows: a flood comes to %.0f new flows a second, at least %.0f", least, floodReached*floodRate),
		Holds: least >= floodReached*floodRate,
	}, verify.Requirement{
		Text: fmt.Sprintf("flows: the stream beside a flood is carried (%d packets)", carried), Holds: carried > 0,
	}), nil
}

// judgeFlood holds the throughput beside a flood through the fast path against that beside one
// through a plain path.
func judgeFlood(r *stats.Ratio) []verify.Requirement {
	what := "flows: a stream beside a flood of new flows"
	return ratioLimits(what, fmt.Sprintf("%s: %s of that beside a flood through the plain path, %s", what, interval(r), boundText(false, floodLimit)),
		r, meetsLimit(r, floodLimit, false))
}

// stream sends 64 KiB at a time as fast as it can.
type stream struct {
	listener *net.TCPListener
	conn     *net.TCPConn
	received atomic.Int64 // bytes
	done     chan struct{}
}

func openStream(arm lab.Arm) (s *stream, err error) {
	s = &stream{done: make(chan struct{}, 2)}
	err = host.Do(arm.Server().Namespace, func() (err error) {
		s.listener, err = net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(netip.AddrPortFrom(arm.Server().Addr, 0)))
		return err
	})
	if err != nil {
		return nil, err
	}
	if s.conn, err = dialFrom(arm.Client(), s.listener.Addr().(*net.TCPAddr).AddrPort()); err != nil {
		return nil, errors.Join(err, s.listener.Close())
	}
	go s.receive()
	go s.send()
	return s, nil
}

func (s *stream) receive() {
	defer func() { s.done <- struct{}{} }()
	conn, err := s.listener.AcceptTCP()
	if err != nil {
		return
	}
	defer conn.Close()
	for buf := make([]byte, 256<<10); ; {
		n, err := conn.Read(buf)
		s.received.Add(int64(n))
		if err != nil {
			return
		}
	}
}

func (s *stream) send() {
	defer func() { s.done <- struct{}{} }()
	for chunk := make([]byte, 64<<10); ; {
		if _, err := s.conn.Write(chunk); err != nil {
			return
		}
	}
}

func (s *stream) Close() error {
	err := errors.Join(s.conn.Close(), s.listener.Close())
	<-s.done
	<-s.done
	return err
}

// flood sends datagrams, each of another flow.
type flood struct {
	raw    *net.IPConn
	sinks  []net.PacketConn
	to     netip.AddrPort // the first sink
	sent   int
	lasted time.Duration
}

func openFlood(arm lab.Arm) (f *flood, err error) {
	const firstPort = 20000
	f = &flood{to: netip.AddrPortFrom(arm.Server().Addr, firstPort)}
	err = host.Do(arm.Server().Namespace, func() error {
		for i := range uint16(floodSinks) {
			sink, err := net.ListenPacket("udp4", netip.AddrPortFrom(f.to.Addr(), firstPort+i).String())
			if err != nil {
				return err
			}
			f.sinks = append(f.sinks, sink)
		}
		return nil
	})
	if err == nil {
		err = host.Do(arm.Client().Namespace, func() (err error) {
			f.raw, err = net.ListenIP("ip4:udp", &net.IPAddr{IP: arm.Client().Addr.AsSlice()})
			return err
		})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open a flood through %s: %w", arm.Name, err), f.Close())
	}
	return f, nil
}

func (f *flood) Close() (err error) {
	for _, sink := range f.sinks {
		err = errors.Join(err, sink.Close())
	}
	if f.raw != nil {
		err = errors.Join(err, f.raw.Close())
	}
	return err
}

// perSecond is how many new flows it came to.
func (f *flood) perSecond() float64 { return float64(f.sent) / f.lasted.Seconds() }

// run sends for a while.
func (f *flood) run(lasting time.Duration) error {
	packet := []byte{0, 0, 0, 0, 0, 9, 0, 0, '?'} // without a checksum
	to := &net.IPAddr{IP: f.to.Addr().AsSlice()}
	begin, sent := time.Now(), 0
	defer func() { f.lasted += time.Since(begin) }()
	for {
		passed := time.Since(begin)
		if passed >= lasting {
			return nil
		}
		due := int(passed.Seconds() * floodRate)
		if sent >= due {
			time.Sleep(200 * time.Microsecond)
			continue
		}
		for ; sent < due; sent++ {
			binary.BigEndian.PutUint16(packet, uint16(1024+f.sent%floodPorts))
			binary.BigEndian.PutUint16(packet[2:], f.to.Port()+uint16(f.sent/floodPorts%floodSinks))
			f.sent++
			if _, err := f.raw.WriteToIP(packet, to); err != nil && !errors.Is(err, syscall.ENOBUFS) {
				return fmt.Errorf("send a flood: %w", err)
			}
		}
	}
}
