package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/verify"
)

// churnBench checks that new and ending flows do not delay another flow.
type churnBench struct {
	services int
	rate     int           // connections a second, at most, and made-up flows
	phase    time.Duration // of each measurement
}

func defaultChurn() churnBench {
	return churnBench{services: 30, rate: 10_000, phase: 30 * time.Second}
}

const (
	// stall is the longest acceptable wait for an answer, unless the slow path's is
	// longer.
	stall = 100 * time.Millisecond
	// pingEvery is how often the flow that is watched sends something.
	pingEvery = time.Millisecond
	// Each connection sends a burst of segments, enough to be learned, and then some
	// to and fro, which are carried.
	churnBurst   = 10
	churnToFro   = 5
	churnWorkers = 16
	// minTurnover is the share of the rate that made-up flows must reach: the first of
	// them wait until the watched flow is learned.
	minTurnover = 0.9
)

// pings is what became of the flow that is watched.
type pings struct {
	median, tail, longest time.Duration // of round trips; tail: of a thousand, one takes longer
	lost                  int
}

func (p pings) String() string {
	return fmt.Sprintf("median %6.1f us, 99.9 %% within %8.1f us, longest %8.1f us, lost %d", micros(p.median), micros(p.tail), micros(p.longest), p.lost)
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// check measures, prints what it saw on w, and wants no stall.
func (c churnBench) check(ctx context.Context, w io.Writer, h compare.Host) (limits []verify.Requirement, err error) {
	// Whoever answers or waits must not wait for those that make the noise.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4 * runtime.NumCPU()))
	l, err := lab.Up(ctx, lab.Options{Name: h.LabName, Paths: []string{"vxlan", "vxlan+fast"}, Services: c.services, Program: h.Program})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Down()) }()
	var busy [2]pings
	for i, arm := range l.Arms {
		still, err := c.watch(ctx, arm, func(context.Context) error { return nil })
		if err != nil {
			return nil, err
		}
		var opened atomic.Int64
		busy[i], err = c.watch(ctx, arm, func(ctx context.Context) error { return c.connect(ctx, arm, &opened) })
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(w, "%-12s alone                     %v\n", arm.Name, still)
		fmt.Fprintf(w, "%-12s beside %6.0f connections/s %v\n", arm.Name, float64(opened.Load())/c.phase.Seconds(), busy[i])
	}
	fast, came := l.Arms[1], 0
	full, err := c.watch(ctx, fast, func(ctx context.Context) (err error) {
		came, err = c.turnover(ctx, l, fast)
		return err
	})
	if err != nil {
		return nil, err
	}
	turned := float64(came) / c.phase.Seconds()
	fmt.Fprintf(w, "%-12s beside %6.0f made-up flows/s %v\n", fast.Name, turned, full)
	return []verify.Requirement{
		{Text: fmt.Sprintf("churn: longest wait %v, that of the slow path %v, and %v at most", busy[1].longest, busy[0].longest, stall),
			Holds: busy[1].longest <= max(stall, busy[0].longest)},
		{Text: "churn: nothing is lost that the slow path does not lose", Holds: max(busy[1].lost, full.lost) <= busy[0].lost},
		{Text: fmt.Sprintf("churn: longest wait beside %.0f made-up flows a second, of %d, %v, and %v at most", turned, c.rate, full.longest, stall),
			Holds: turned >= minTurnover*float64(c.rate) && full.longest <= max(stall, busy[0].longest)},
	}, nil
}

// watch watches a flow while something else goes on.
func (c churnBench) watch(ctx context.Context, arm lab.Arm, beside func(context.Context) error) (p pings, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.phase)
	defer cancel()
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error { return beside(ctx) })
	work.Go(func() error {
		p, err = ping(ctx, arm)
		return err
	})
	return p, work.Wait()
}

// ping sends datagrams to and fro until ctx ends.
func ping(ctx context.Context, arm lab.Arm) (p pings, err error) {
	var ends [2]*net.UDPConn
	for i, at := range []host.Endpoint{arm.Client(), arm.Server()} {
		err := host.Do(at.Namespace, func() (err error) {
			ends[i], err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(at.Addr, 0)))
			return err
		})
		if err != nil {
			return p, err
		}
		defer ends[i].Close()
	}
	go func() {
		runtime.LockOSThread()
		for buf := make([]byte, 8); ; {
			n, from, err := ends[1].ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			_, _ = ends[1].WriteToUDPAddrPort(buf[:n], from) // one that is lost is missed by the other end
		}
	}()
	to := ends[1].LocalAddr().(*net.UDPAddr).AddrPort()
	var took []time.Duration
	buf := make([]byte, 8)
	for n := 0; ctx.Err() == nil; n++ {
		sent := time.Now()
		for i := range buf {
			buf[i] = byte(n >> (8 * i))
		}
		want := [8]byte(buf)
		if _, err := ends[0].WriteToUDPAddrPort(buf, to); err != nil {
			return p, err
		}
		if err := ends[0].SetReadDeadline(sent.Add(10 * stall)); err != nil {
			return p, err
		}
		for err = error(nil); err == nil; {
			if _, _, err = ends[0].ReadFromUDPAddrPort(buf); err == nil && [8]byte(buf) == want {
				break
			}
		}
		if err != nil {
			p.lost++
		}
		took = append(took, time.Since(sent))
		time.Sleep(time.Until(sent.Add(pingEvery)))
	}
	slices.Sort(took)
	if n := len(took); n > 0 {
		p.median, p.tail, p.longest = took[n/2], took[n-1-n/1000], took[n-1]
	}
	return p, nil
}

// connect opens connections until ctx ends, has what it sends on each echoed, and
// resets it.
func (c churnBench) connect(ctx context.Context, arm lab.Arm, opened *atomic.Int64) error {
	var listener *net.TCPListener
	err := host.Do(arm.Server().Namespace, func() (err error) {
		listener, err = net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(netip.AddrPortFrom(arm.Server().Addr, 0)))
		return err
	})
	if err != nil {
		return err
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.AcceptTCP()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	began := time.Now()
	work, ctx := errgroup.WithContext(ctx)
	for range churnWorkers {
		work.Go(func() error {
			return host.Do(arm.Client().Namespace, func() error {
				for ctx.Err() == nil {
					n := opened.Add(1)
					time.Sleep(time.Until(began.Add(time.Duration(n) * time.Second / time.Duration(c.rate))))
					if err := echoConn(listener.Addr().String()); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
	return work.Wait()
}

// echoConn opens one connection, and has what it sends echoed.
func echoConn(to string) (err error) {
	conn, err := net.DialTimeout("tcp4", to, trafficTimeout)
	if err != nil {
		return err
	}
	c := conn.(*net.TCPConn)
	defer func() { err = errors.Join(err, c.Close()) }()
	// Reset, it leaves its port free at once.
	if err := errors.Join(c.SetLinger(0), c.SetDeadline(time.Now().Add(trafficTimeout))); err != nil {
		return err
	}
	var buf [churnBurst]byte
	for round := range 1 + churnToFro {
		n := 1
		if round == 0 {
			n = churnBurst
		}
		for range n {
			if _, err := c.Write(buf[:1]); err != nil {
				return err
			}
		}
		if _, err := io.ReadFull(c, buf[:n]); err != nil {
			return err
		}
	}
	return nil
}
