package verify

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

	"github.com/cilium/ebpf"
	"golang.org/x/sync/errgroup"

	"github.com/venturi-net/venturi/internal/accel"
	"github.com/venturi-net/venturi/internal/bpf"
	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/machine"
)

// Churn is the check that one flow does not feel others, however many there are and
// however fast they come and go.
type Churn struct {
	Services int
	Rate     int           // connections a second, at most
	For      time.Duration // each phase
	Flows    []int         // that the table holds, one after the other
}

// DefaultChurn is what a claim about many flows rests on.
func DefaultChurn() Churn {
	return Churn{Services: 30, Rate: 10_000, For: 30 * time.Second, Flows: []int{1, 1000, 1_000_000}}
}

const (
	// stall is what nobody may wait for an answer, unless the slow path has them wait
	// as long.
	stall = 100 * time.Millisecond
	// pingEvery is how often the flow that is watched sends something.
	pingEvery = time.Millisecond
	// Each connection sends a burst of segments, enough to be learned, and then some
	// to and fro, which are carried.
	churnBurst   = 10
	churnToFro   = 5
	churnWorkers = 16
)

// pings is what became of the flow that is watched.
type pings struct {
	median, tail, longest time.Duration // of round trips; tail: of a thousand, one takes longer
	lost                  int
}

func (p pings) String() string {
	return fmt.Sprintf("median %6.1f us, 99.9 %% within %8.1f us, longest %8.1f us, lost %d", us(p.median), us(p.tail), us(p.longest), p.lost)
}

func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Check measures, prints what it saw on w, and wants no stall.
func (c Churn) Check(ctx context.Context, w io.Writer, h compare.Host) (err error) {
	// Whoever answers or waits must not wait for those that make the noise.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4 * runtime.NumCPU()))
	l, err := lab.Up(ctx, lab.Options{Name: h.LabName, Paths: []string{"vxlan", "vxlan+fast"}, Services: c.Services, Program: h.Program})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Down()) }()
	var busy [2]pings
	for i, arm := range l.Arms {
		still, err := c.phase(ctx, arm, func(context.Context) error { return nil })
		if err != nil {
			return err
		}
		var opened atomic.Int64
		began := time.Now()
		busy[i], err = c.phase(ctx, arm, func(ctx context.Context) error { return c.churn(ctx, arm, &opened) })
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%-12s alone                     %v\n", arm.Name, still)
		fmt.Fprintf(w, "%-12s beside %6.0f connections/s %v\n", arm.Name, float64(opened.Load())/time.Since(began).Seconds(), busy[i])
	}
	if err := c.full(ctx, w, l.Arms[1]); err != nil {
		return err
	}
	return conclude(w, "flows stand in each other's way", []bar{
		{fmt.Sprintf("longest wait beside connections that come and go: %v, the slow path's %v", busy[1].longest, busy[0].longest),
			busy[1].longest <= max(stall, busy[0].longest)},
		{"nothing is lost that the slow path does not lose", busy[1].lost <= busy[0].lost},
	})
}

// full fills the table of the first machine with flows that do not exist, and watches
// one that does.
func (c Churn) full(ctx context.Context, w io.Writer, arm lab.Arm) error {
	for _, n := range c.Flows {
		if err := fillFlows(arm.Pins[0], n); err != nil {
			return fmt.Errorf("fill the table of flows: %w", err)
		}
		p, err := c.phase(ctx, arm, func(context.Context) error { return nil })
		if err != nil {
			return err
		}
		t, err := accel.ReadTable(arm.Pins[0])
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%-12s of %8d flows, %5.1f MB %v\n", arm.Name, t.Flows, float64(t.Memory)/1e6, p)
	}
	return nil
}

// fillFlows gives a table n flows that nobody forgets.
func fillFlows(pins string, n int) error {
	table, err := ebpf.LoadPinnedMap(bpf.TableFile(pins, "flows"), nil)
	if err != nil {
		return err
	}
	defer table.Close()
	keys, values := make([]bpf.FlowKey, n), make([]bpf.Flow, n)
	to := netip.MustParseAddrPort("10.255.0.1:53")
	for i := range keys {
		from := netip.AddrFrom4([4]byte{10, 254, byte(i >> 24), byte(i >> 16)})
		keys[i] = bpf.NewFlowKey(0, 17, netip.AddrPortFrom(from, uint16(i)), to)
		values[i] = bpf.Flow{Epoch: ^uint32(0), Used: 1 << 30} // used in days to come
	}
	_, err = table.BatchUpdate(keys, values, nil)
	return err
}

// phase watches a flow while something else goes on.
func (c Churn) phase(ctx context.Context, arm lab.Arm, beside func(context.Context) error) (p pings, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.For)
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
	for i, at := range []machine.Endpoint{arm.From(), arm.To()} {
		err := machine.Do(at.Namespace, func() (err error) {
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

// churn opens connections until ctx ends, has what it sends on each echoed, and
// resets it.
func (c Churn) churn(ctx context.Context, arm lab.Arm, opened *atomic.Int64) error {
	var listener *net.TCPListener
	err := machine.Do(arm.To().Namespace, func() (err error) {
		listener, err = net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(netip.AddrPortFrom(arm.To().Addr, 0)))
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
			return machine.Do(arm.From().Namespace, func() error {
				for ctx.Err() == nil {
					n := opened.Add(1)
					time.Sleep(time.Until(began.Add(time.Duration(n) * time.Second / time.Duration(c.Rate))))
					if err := chat(listener.Addr().String()); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
	return work.Wait()
}

// chat is one connection.
func chat(to string) (err error) {
	conn, err := net.DialTimeout("tcp4", to, trafficPatience)
	if err != nil {
		return err
	}
	c := conn.(*net.TCPConn)
	defer func() { err = errors.Join(err, c.Close()) }()
	// Reset, it leaves its port free at once.
	if err := errors.Join(c.SetLinger(0), c.SetDeadline(time.Now().Add(trafficPatience))); err != nil {
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
