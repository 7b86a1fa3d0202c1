package iperf3

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"
)

// A peer that says nothing, too little, nonsense or too much is put away in time, costs
// no memory, and the next client is served.
func TestHostileClient(t *testing.T) {
	port, ended := serve(t, 2*time.Second)
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
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if len(text) >= cookieSize {
			select {
			case test := <-ended:
				if test.Err == nil {
					t.Errorf("%s: the test went well", name)
				}
			case <-time.After(20 * time.Second):
				t.Errorf("%s: it is still served", name)
			}
		}
		conn.Close()
	}
	time.Sleep(2100 * time.Millisecond)
	serveAnother(t, port, ended)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapInuse > 256<<20 {
		t.Errorf("%d MiB are in use", m.HeapInuse>>20)
	}
}

// Many silent connections do not keep a client out for longer than their time.
func TestManySilent(t *testing.T) {
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
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
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
			t.Errorf("%s: %v after %v", name, err, time.Since(start))
		}
		ln.Close()
	}
}

func FuzzServer(f *testing.F) {
	for _, seed := range []string{
		frame(`{"tcp":true,"time":1,"parallel":1,"len":1000}`) + "\x04" + frame(`{"streams":[{"id":1}]}`),
		frame(`{"udp":true,"time":1,"parallel":1,"len":1000,"udp_counters_64bit":1}`) + "\x0c",
		frame(`{"tcp":true,"bidirectional":true}`), "\xff\xff\xff\xff", "",
	} {
		f.Add([]byte(seed))
	}
	ln, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		f.Fatal(err)
	}
	s := &Responder{Timeout: 20 * time.Millisecond}
	go s.Serve(f.Context(), ln, false)
	f.Fuzz(func(t *testing.T, text []byte) {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		cookie := newCookie()
		_, _ = conn.Write(append(cookie[:], text...))
		_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
		buf := make([]byte, 1<<16)
		for {
			if _, err := conn.Read(buf); err != nil {
				if nerr := net.Error(nil); errors.As(err, &nerr) && nerr.Timeout() {
					t.Fatal("the server still serves")
				}
				return
			}
		}
	})
}

func FuzzDatagram(f *testing.F) {
	f.Add([]byte("0123456789abcdef"), true)
	f.Add([]byte("0123456789ab"), false)
	f.Add([]byte{}, true)
	f.Fuzz(func(t *testing.T, data []byte, wide bool) {
		h, ok := parseDatagram(data, wide)
		if !ok {
			return
		}
		out := make([]byte, len(data))
		h.put(out, wide)
		if again, ok := parseDatagram(out, wide); !ok || again != h {
			t.Errorf("%+v became %+v", h, again)
		}
	})
}
