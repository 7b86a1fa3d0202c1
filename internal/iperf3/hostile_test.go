package iperf3

import (
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
)

// A peer that says nothing, too little, nonsense or too much is put away in time, costs
// no memory, and the next client is served.
func TestHostileClient(t *testing.T) {
	t.Parallel()
	t.Cleanup(func() { // when all have been put away
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if m.HeapInuse > 256<<20 {
			t.Errorf("%d MiB are in use", m.HeapInuse>>20)
		}
	})
	cookie := newCookie()
	say := func(text string) string { return string(cookie[:]) + text }
	for name, text := range map[string]string{
		"silent":            "",
		"half a cookie":     string(cookie[:20]),
		"cookie only":       say(""),
		"huge length":       say("\xff\xff\xff\xff{"),
		"promised length":   say("\x00\x00\x1f\xff{"),
		"no JSON":           say("\x00\x00\x00\x04abcd"),
		"NaN":               say(frame(`{"tcp":true,"time":1e999}`)),
		"too many streams":  say(frame(`{"tcp":true,"time":1,"parallel":1e9,"len":1}`)),
		"huge block":        say(frame(`{"tcp":true,"time":1,"parallel":1,"len":1e12}`)),
		"small datagram":    say(frame(`{"udp":true,"time":1,"parallel":1,"len":1}`)),
		"deep":              say(frame(strings.Repeat("[", 8000))),
		"streams not there": say(frame(`{"tcp":true,"time":1,"parallel":128,"len":1000}`)),
		"datagrams missing": say(frame(`{"udp":true,"time":1,"parallel":2,"len":1000}`)),
		"a web client":      "GET / HTTP/1.1\r\nHost: an-iperf3-server-is-none\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port, ended := serve(t, 2*time.Second)
			conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := conn.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
			if len(text) >= cookieSize {
				if test := endOf(t, ended); test.Err == nil {
					t.Error("the test went well")
				}
			} else {
				_ = conn.SetReadDeadline(time.Now().Add(host.ScaleTimeout(30 * time.Second)))
				if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
					t.Errorf("the server does not hang up: %v", err)
				}
			}
			serveAnother(t, port, ended)
		})
	}
}

// Many silent connections do not keep a client out for longer than their time.
func TestManySilent(t *testing.T) {
	t.Parallel()
	port, ended := serve(t, time.Second)
	for range 3 * mostGreeting {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	time.Sleep(2500 * time.Millisecond)
	serveAnother(t, port, ended)
}

func frame(text string) string {
	n := len(text)
	return string([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}) + text
}

// A server that talks nonsense ends the client's test with an error, in time.
func TestHostileServer(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"silent":            "",
		"unknown state":     "\x63",
		"busy":              "\xff",
		"error cut off":     "\xfe\x00",
		"error":             "\xfe\x00\x00\x00\x0d\x00\x00\x00\x00",
		"terminated":        "\x0b",
		"results at once":   "\x0e",
		"huge results":      "\x0d\x7f\xff\xff\xff",
		"results of others": "\x0d" + frame(`{"streams":[{"id":1},{"id":3}]}`),
		"starts at once":    "\x02",
		"round and round":   strings.Repeat("\x01", 1000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			go func() {
				conn, err := ln.Accept()
				if err == nil {
					_, _ = conn.Write([]byte(text))
					time.Sleep(2 * time.Second)
					conn.Close()
				}
			}()
			start := time.Now()
			_, err = Client{Server: ln.Addr().String(), Time: time.Second, Timeout: 300 * time.Millisecond}.Run(t.Context())
			if err == nil || time.Since(start) > 10*time.Second {
				t.Errorf("%v after %v", err, time.Since(start))
			}
		})
	}
}

// A peer that says each word slowly is not waited for longer than one that is silent.
func TestSlowPeers(t *testing.T) {
	t.Parallel()
	trickle := func(conn net.Conn, text string) { // until the other end has had enough
		for i := 0; ; i++ {
			if _, err := conn.Write([]byte{text[i%len(text)]}); err != nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	port, ended := serve(t, time.Second)
	cookie := newCookie()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write(cookie[:]); err != nil {
		t.Fatal(err)
	}
	go trickle(conn, "\x00\x00\x1f\xff"+strings.Repeat(" ", 1<<13))
	if test := endOf(t, ended); test.Err == nil {
		t.Error("a slow client's test went well")
	}
	serveAnother(t, port, ended)

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = conn.Write([]byte("\x0d\x00\x00\xff\xff"))
		trickle(conn, " ")
	}()
	done := make(chan error, 1)
	go func() {
		_, err := Client{Server: ln.Addr().String(), Timeout: 300 * time.Millisecond}.Run(context.Background())
		done <- err
	}()
	if err := endOf(t, done); err == nil {
		t.Error("the test of a slow server went well")
	}
}

// A client that starts a test of a day and goes without a word does not keep the server busy.
func TestIdleClient(t *testing.T) {
	t.Parallel()
	for _, params := range []string{`{"tcp":true,"time":86400}`, `{"tcp":true,"time":86400,"reverse":true}`, `{"tcp":true,"num":1e18}`} {
		t.Run(params, func(t *testing.T) {
			t.Parallel()
			port, ended := serve(t, 500*time.Millisecond)
			cookie := newCookie()
			control := greeted(t, port, cookie)
			defer control.Close()
			if s, err := readState(control); err != nil || s != paramExchange {
				t.Fatalf("state %d: %v", s, err)
			}
			stream := greeted(t, port, cookie)
			defer stream.Close()
			if _, err := io.WriteString(control, frame(params)); err != nil {
				t.Fatal(err)
			}
			if test := endOf(t, ended); test.Err == nil || !strings.Contains(test.Err.Error(), "await the end of the test") {
				t.Errorf("the test ended with %v", test.Err)
			}
		})
	}
}

// A test whose blocks are further apart than a silent client may be is not cut.
func TestIdleLimit(t *testing.T) {
	for _, c := range []struct {
		params params
		want   time.Duration
	}{
		{params{Length: 128 << 10}, time.Minute},
		{params{Length: 125000, Bandwidth: 10000}, time.Minute + 100*time.Second},
		{params{Length: 1 << 20, Bandwidth: 1e-300}, time.Minute + mostPause},
	} {
		s := &session{server: &Responder{}}
		s.streams.params = c.params
		if got := s.idleLimit(); got != c.want {
			t.Errorf("%+v: idle for %v at most, want %v", c.params, got, c.want)
		}
	}
}

// A rate that is next to nothing is one, and no missing limit.
func TestSlowestRate(t *testing.T) {
	for rate, want := range map[float64]time.Duration{0: 0, 1e-300: mostPause, 2: mostPause, 8e6: time.Millisecond} {
		if got := newPacer(rate, 1000).interval; got != want {
			t.Errorf("blocks at a rate of %v are %v apart, want %v", rate, got, want)
		}
	}
}

// greeted is a connection to a server that has said of which test it is.
func greeted(t *testing.T, port int, cookie [cookieSize]byte) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(host.ScaleTimeout(30 * time.Second)))
	if _, err := conn.Write(cookie[:]); err != nil {
		t.Fatal(err)
	}
	return conn
}

// endOf waits for what comes when something ends.
func endOf[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(host.ScaleTimeout(30 * time.Second)):
		t.Fatal("it does not end")
		panic("unreachable")
	}
}
