package e2e

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/fastpathtest"
)

const (
	floodRate   = 100_000 // new flows a second, of one packet each
	floodSinks  = 64      // ports that they are for; each with 60,000 source ports
	floodSlice  = 250 * time.Millisecond
	floodRounds = 40
)

// BenchmarkFlood tells what a flood of new flows takes from a stream that the fast path carries. In
// turn, the flood goes between pods of the fast path, between pods of a plain path beside it, and
// nowhere: what the fast path itself takes is the stream's rate in the first case to that in the
// second.
func BenchmarkFlood(b *testing.B) {
	requireFastPath(b)
	l := testenv.Lab(b, lab.Options{Paths: []string{"vxlan", "vxlan+fast"}})
	floods := map[string]*flood{}
	var fast lab.Arm
	for _, arm := range l.Arms {
		if floods[arm.Name] = openFlood(b, arm); arm.Name == "vxlan+fast" {
			fast = arm
		}
	}
	received := stream64K(b, fast)
	rates := map[string][]float64{}
	var sent [2]int // flows, to plain and fast
	carried := fastpathtest.CarriedPackets(b, fast)
	for b.Loop() {
		for range floodRounds {
			for i, name := range []string{"vxlan", "vxlan+fast", ""} {
				begin, before := time.Now(), received.Load()
				if f := floods[name]; f != nil {
					sent[i] += f.run(b, floodSlice)
				} else {
					time.Sleep(floodSlice)
				}
				rates[name] = append(rates[name], float64(received.Load()-before)/time.Since(begin).Seconds())
			}
		}
	}
	var ratios []float64
	for i, rate := range rates["vxlan+fast"] {
		ratios = append(ratios, rate/rates["vxlan"][i])
	}
	slices.Sort(ratios)
	for name, at := range map[string]int{"ratio-25%": 1, "ratio-median": 2, "ratio-75%": 3} {
		b.ReportMetric(ratios[len(ratios)*at/4], name)
	}
	for name, of := range rates {
		slices.Sort(of)
		b.ReportMetric(of[len(of)/2]/1e6, "MB/s-flood:"+name)
	}
	for i, n := range sent {
		b.ReportMetric(float64(n)/(float64(len(ratios))*floodSlice.Seconds()), []string{"flows/s:vxlan", "flows/s:vxlan+fast"}[i])
	}
	if now := fastpathtest.CarriedPackets(b, fast); now[0] == carried[0] {
		b.Error("the stream was not carried")
	}
	b.ReportMetric(0, "ns/op")
}

// stream64K keeps a stream going over an arm, and counts the bytes that arrive.
func stream64K(b *testing.B, arm lab.Arm) *atomic.Int64 {
	b.Helper()
	server, listener := listenBoth(b, arm.Server())
	server.Close()
	received, done := new(atomic.Int64), make(chan struct{}, 2)
	go func() {
		defer func() { done <- struct{}{} }()
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for buf := make([]byte, 256<<10); ; {
			n, err := conn.Read(buf)
			if received.Add(int64(n)); err != nil {
				return
			}
		}
	}()
	conn := dial(b, arm.Client(), listener.Addr().(*net.TCPAddr).AddrPort())
	go func() {
		defer func() { done <- struct{}{} }()
		for chunk := make([]byte, 64<<10); ; {
			if _, err := conn.Write(chunk); err != nil {
				return
			}
		}
	}()
	b.Cleanup(func() {
		conn.Close()
		listener.Close()
		<-done
		<-done
	})
	time.Sleep(time.Second)
	return received
}

// flood sends datagrams, each of another flow.
type flood struct {
	raw    int // socket
	packet []byte
	to     netip.AddrPort // the first sink
	next   int
}

func openFlood(b *testing.B, arm lab.Arm) *flood {
	b.Helper()
	f := &flood{raw: -1, to: netip.AddrPortFrom(arm.Server().Addr, 20000)}
	for i := range floodSinks {
		sink := listenAt(b, arm.Server(), netip.AddrPortFrom(f.to.Addr(), f.to.Port()+uint16(i)))
		b.Cleanup(func() { sink.Close() })
	}
	testenv.Must(b, host.Do(arm.Client().Namespace, func() (err error) {
		f.raw, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		return err
	}))
	b.Cleanup(func() { unix.Close(f.raw) })
	f.packet = append(f.packet, 0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, unix.IPPROTO_UDP, 0, 0) // the kernel fills in length and checksum
	f.packet = append(append(f.packet, arm.Client().Addr.AsSlice()...), f.to.Addr().AsSlice()...)
	f.packet = append(f.packet, 0, 0, 0, 0, 0, 9, 0, 0, '?')
	return f
}

// run sends for a while, and tells how many.
func (f *flood) run(b *testing.B, during time.Duration) (sent int) {
	b.Helper()
	const sources, header = 60_000, 20
	to := &unix.SockaddrInet4{Addr: f.to.Addr().As4()}
	for begin := time.Now(); ; {
		passed := time.Since(begin)
		if passed >= during {
			return sent
		}
		due := int(passed.Seconds() * floodRate)
		if sent >= due {
			time.Sleep(200 * time.Microsecond)
			continue
		}
		for ; sent < due; sent++ {
			binary.BigEndian.PutUint16(f.packet[header:], uint16(1024+f.next%sources))
			binary.BigEndian.PutUint16(f.packet[header+2:], f.to.Port()+uint16(f.next/sources%floodSinks))
			f.next++
			if err := unix.Sendto(f.raw, f.packet, 0, to); err != nil && !errors.Is(err, unix.ENOBUFS) {
				b.Fatalf("send a flood: %v", err)
			}
		}
	}
}
