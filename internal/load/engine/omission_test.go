package engine_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/load/engine"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/result"
)

// TestNoCoordinatedOmission stops who answers for 100 ms in every second. A tenth of the
// requests fall into those, wherever the client stands, so the 99th percentile is near
// the end of them.
func TestNoCoordinatedOmission(t *testing.T) {
	t.Parallel() // it waits
	for i, name := range []string{"probe", "ping"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace, _ := ownNetwork(t)
			end := host.Endpoint{Namespace: namespace, Addr: netip.MustParseAddr("127.0.0.1")}
			p := load.Plan{
				Token: 0xfeed + uint64(i), Load: name, Size: 64, Flows: 1, Rate: 1000, ClientCPU: -1, ServerCPU: -1,
				Slice: 3 * time.Second, Head: 2 * time.Millisecond, Schedule: [][]int{{0}},
				Arms: []load.Arm{{Name: "a", Ends: []load.Pair{{From: end, To: end}}, ServerPort: 24000, ClientPort: 25000}},
			}
			server, err := engine.Serve(p, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			if name == "ping" {
				answerPings(t, namespace)
			} else {
				p.Arms[0].Ends[0].To, p.Arms[0].ServerPort = relay(t, namespace, end, 24000), 24500
			}
			results, err := engine.Run(context.Background(), p, nil, nil)
			if err != nil || len(results) != 1 || results[0].Err != nil {
				t.Fatalf("%+v: %v", results, err)
			}
			l := results[0].Latency
			rtt, err := result.DecodeRTT(l.RTT)
			if err != nil {
				t.Fatal(err)
			}
			if l.Requests != 3000 || l.Replies < 2000 {
				t.Errorf("%d of 3000 requests, %d replies", l.Requests, l.Replies)
			}
			if p99 := time.Duration(rtt.ValueAtQuantile(99)); p99 < 80*time.Millisecond {
				t.Errorf("99th percentile %v: requests of the pauses were left out", p99)
			}
		})
	}
}

// pause stops who calls it for the first 100 ms of every second.
func pause() {
	if into := time.Duration(time.Now().UnixNano()) % time.Second; into < 100*time.Millisecond {
		time.Sleep(100*time.Millisecond - into)
	}
}

// answerPings answers echo requests in a namespace in place of the kernel.
func answerPings(t *testing.T, namespace string) {
	t.Helper()
	var fd int
	testenv.InNetns(t, namespace, func() (err error) {
		if err := os.WriteFile("/proc/sys/net/ipv4/icmp_echo_ignore_all", []byte("1"), 0); err != nil {
			return err
		}
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
		return err
	})
	serve(t, fd, func() error {
		buf := make([]byte, 1<<16)
		n, from, err := unix.Recvfrom(fd, buf, 0)
		if err != nil {
			return err
		}
		pause()
		if b := buf[20:n]; b[0] == 8 {
			b[0] = 0
			sum := uint32(b[2])<<8 + uint32(b[3]) + 8<<8
			sum = sum>>16 + sum&0xffff
			b[2], b[3] = byte(sum>>8), byte(sum)
			return unix.Sendto(fd, b, 0, from)
		}
		return nil
	})
}

// relay hands datagrams on to a server, and what that answers back.
func relay(t *testing.T, namespace string, end host.Endpoint, port int) host.Endpoint {
	t.Helper()
	fds := [2]int{}
	testenv.InNetns(t, namespace, func() error {
		for i, bind := range []int{24500, 24501} {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			if err == nil {
				err = unix.Bind(fd, &unix.SockaddrInet4{Addr: end.Addr.As4(), Port: bind})
			}
			if err != nil {
				return err
			}
			fds[i] = fd
		}
		return unix.Connect(fds[1], &unix.SockaddrInet4{Addr: end.Addr.As4(), Port: port})
	})
	client := &unix.SockaddrInet4{Addr: end.Addr.As4(), Port: 25000}
	hand := func(from int, on func([]byte) error) {
		buf := make([]byte, 1<<16)
		serve(t, from, func() error {
			n, _, err := unix.Recvfrom(from, buf, 0)
			if err != nil || n == 0 {
				return err
			}
			pause()
			return on(buf[:n])
		})
	}
	hand(fds[0], func(b []byte) error { return unix.Send(fds[1], b, 0) })
	hand(fds[1], func(b []byte) error { return unix.Sendto(fds[0], b, 0, client) })
	return end
}

// serve calls once with a socket until the test ends.
func serve(t *testing.T, fd int, once func() error) {
	t.Helper()
	tick := unix.Timeval{Usec: 20_000}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tick); err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := once(); err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
				return
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-done; unix.Close(fd) })
}
