package bench

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/venturi-net/venturi/internal/host"
)

const (
	burst        = 64       // most datagrams at once, when the sender was held up
	datagramSize = 128      // bytes
	receiveRoom  = 32 << 20 // bytes; a receiver that is held up loses nothing
	step         = time.Millisecond
)

// numbered is one end of a flow of numbered datagrams, from 1.
type numbered struct {
	conn    *net.UDPConn
	peer    *numbered
	sent    atomic.Uint64
	refused atomic.Uint64 // by this end's own kernel

	mu                              sync.Mutex
	received                        []bool // by number
	distinct, duplicates, reordered uint64 // different ones; those that had come already; those that others overtook
	last                            uint64
}

func listenNumbered(at host.Endpoint) (conn *net.UDPConn, err error) {
	c := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) {
			failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUFFORCE, receiveRoom)
		})
		if err == nil {
			err = failed
		}
		return err
	}}
	err = host.Do(at.Namespace, func() error {
		p, err := c.ListenPacket(context.Background(), "udp", netip.AddrPortFrom(at.Addr, 0).String())
		if err == nil {
			conn = p.(*net.UDPConn)
		}
		return err
	})
	return conn, err
}

// send sends at a rate, but not while the gate is closed.
func (n *numbered) send(ctx context.Context, gate *sync.RWMutex, rate int) {
	to := n.peer.conn.LocalAddr().(*net.UDPAddr).AddrPort()
	packet := make([]byte, datagramSize)
	ticks := time.NewTicker(step)
	defer ticks.Stop()
	due, last := 0.0, time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticks.C:
			due = min(due+now.Sub(last).Seconds()*float64(rate), burst)
			last = now
		}
		gate.RLock()
		for ; due >= 1; due-- {
			binary.BigEndian.PutUint64(packet, n.sent.Load()+1)
			// The number counts before it can come.
			n.sent.Add(1)
			if _, err := n.conn.WriteToUDPAddrPort(packet, to); err != nil {
				n.refused.Add(1)
			}
		}
		gate.RUnlock()
	}
}

func (n *numbered) receive() {
	buf := make([]byte, 2*datagramSize)
	for {
		size, _, err := n.conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		if size == datagramSize {
			n.record(binary.BigEndian.Uint64(buf))
		}
	}
}

func (n *numbered) record(number uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for uint64(len(n.received)) <= number {
		n.received = append(n.received, make([]bool, 1<<16)...)
	}
	switch {
	case n.received[number]:
		n.duplicates++
		return
	case number < n.last:
		n.reordered++
	}
	n.received[number] = true
	n.distinct++
	n.last = max(n.last, number)
}
