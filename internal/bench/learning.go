package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/venturi-net/venturi/internal/bench/pods"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/load/engine"
	"github.com/venturi-net/venturi/internal/verify"
)

// turnFlows are numbers of flows that take turns, of which each is to be learned from
// its own traffic. A TCP connection takes two descriptors here, and a process without
// CAP_SYS_RESOURCE may have no more than 20,000.
var turnFlows = []struct {
	protocol string
	flows    int
	open     func(arm lab.Arm, flows int) (turns, error)
}{
	{"udp", 1000, openUDPTurns}, {"udp", 10_000, openUDPTurns}, {"udp", 100_000, openUDPTurns},
	{"tcp", 1000, openTCPTurns}, {"tcp", 9000, openTCPTurns},
}

const (
	// turnsToLearn is after how many requests of each flow it is to be carried.
	turnsToLearn = 16
	// turnShare is how many of the packets are to be carried from then on.
	turnShare = 0.95
)

// turns sends one request on each of many flows, and waits for its answer before it
// goes on to the next.
type turns interface {
	tour() error
	Close() error
}

// takeTurns counts what is carried of flows that take turns on a path, once each has
// sent [turnsToLearn] requests.
func takeTurns(ctx context.Context, w io.Writer, arm lab.Arm) (limits []verify.Requirement, err error) {
	fmt.Fprintf(w, "%s: flows that send one request each in turn, and what of the %dth is carried\n\n", arm.Name, turnsToLearn+1)
	for _, c := range turnFlows {
		share, err := turnsCarried(ctx, arm, func() (turns, error) { return c.open(arm, c.flows) })
		if err != nil {
			return nil, fmt.Errorf("send on %d %s flows in turn: %w", c.flows, c.protocol, err)
		}
		fmt.Fprintf(w, "%-4s %7d flows  %6.2f %%\n", c.protocol, c.flows, 100*share)
		limits = append(limits, verify.Requirement{Text: fmt.Sprintf("flows: %d %s flows in turn: %.2f %% of the packets are carried, more than %.0f %%",
			c.flows, c.protocol, 100*share, 100*turnShare), Holds: share > turnShare})
	}
	fmt.Fprintln(w)
	return limits, nil
}

func turnsCarried(ctx context.Context, arm lab.Arm, open func() (turns, error)) (share float64, err error) {
	t, err := open()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	for range turnsToLearn {
		if err := errors.Join(ctx.Err(), t.tour()); err != nil {
			return 0, err
		}
	}
	before, err := pods.CountsOf(arm.Pins)
	if err != nil {
		return 0, err
	}
	if err := t.tour(); err != nil {
		return 0, err
	}
	after, err := pods.CountsOf(arm.Pins)
	return carriedOf(before, after), err
}

// carriedOf is which share of the packets between two counts was carried.
func carriedOf(before, after [bpf.Counts]uint64) float64 {
	var r peerRuns
	r.add(before, after)
	return r.share()
}

type udpTurns struct{ *engine.RoundRobin }

func openUDPTurns(arm lab.Arm, flows int) (turns, error) {
	r, err := engine.OpenRoundRobin(load.Pair{From: arm.Client(), To: arm.Server()}, liveClients, flows/liveClients, liveClientPort, liveServerPort, 0, 1)
	return udpTurns{r}, err
}

func (t udpTurns) tour() error {
	trips, err := t.Tour(0, t.Flows(), 1)
	if err == nil && trips.Lost > trips.Requests/100 {
		return fmt.Errorf("%d of %d requests had no answer", trips.Lost, trips.Requests)
	}
	return err
}

// tcpTurns are connections to one echo server.
type tcpTurns struct {
	listener *net.TCPListener
	conns    []*net.TCPConn
}

func openTCPTurns(arm lab.Arm, flows int) (turns, error) {
	t := &tcpTurns{}
	err := host.Do(arm.Server().Namespace, func() (err error) {
		t.listener, err = net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(netip.AddrPortFrom(arm.Server().Addr, 0)))
		return err
	})
	if err != nil {
		return nil, err
	}
	go t.serve()
	at := t.listener.Addr().(*net.TCPAddr).AddrPort()
	for range flows {
		c, err := dialFrom(arm.Client(), at)
		if err != nil {
			return nil, errors.Join(err, t.Close())
		}
		t.conns = append(t.conns, c)
	}
	return t, nil
}

// serve ends with the listener, and each of its connections with that of the client.
func (t *tcpTurns) serve() {
	for {
		c, err := t.listener.AcceptTCP()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			for b := make([]byte, 1); ; {
				if _, err := c.Read(b); err != nil {
					return
				}
				if _, err := c.Write(b); err != nil {
					return
				}
			}
		}()
	}
}

func (t *tcpTurns) tour() error {
	b := make([]byte, 1)
	for _, c := range t.conns {
		if err := c.SetDeadline(time.Now().Add(trafficTimeout)); err != nil {
			return err
		}
		if _, err := c.Write(b); err != nil {
			return err
		}
		if _, err := c.Read(b); err != nil {
			return err
		}
	}
	return nil
}

func (t *tcpTurns) Close() error {
	err := t.listener.Close()
	for _, c := range t.conns {
		err = errors.Join(err, c.Close())
	}
	return err
}
