package iperf3

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
)

// No server makes a client wait for longer than its timeouts, or gives it a result that no test has.
func FuzzClient(f *testing.F) {
	whole := "\x09\x0a\x01\x02\x0d"
	for _, seed := range []string{
		whole + frame(`{"streams":[{"id":1,"bytes":1000,"end_time":1}]}`) + "\x0e",
		whole + frame(`{"streams":[{"id":1,"bytes":1e18,"end_time":1e-300}]}`) + "\x0e",
		whole + frame(`{"streams":[{"id":1,"packets":1,"omitted_packets":1e300,"errors":-1}]}`) + "\x0e",
		"\x09\x0a\x0a", "\x02", "\xfe\x00\x00\x00\x0d\x00\x00\x00\x00", "\x0d\xff\xff\xff\xff", "\xff", "",
	} {
		for flags := range byte(8) {
			f.Add([]byte(seed), flags)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, flags byte) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		go func() {
			for first := true; ; first = false {
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				if first {
					_, _ = conn.Write(text)
				}
				if first && flags&1 != 0 {
					_ = conn.(*net.TCPConn).CloseWrite()
				}
				go func() { _, _ = io.Copy(io.Discard, conn) }()
			}
		}()
		done := make(chan error, 1)
		go func() {
			r, err := Client{Server: ln.Addr().String(), UDP: flags&2 != 0, Reverse: flags&4 != 0, Timeout: 20 * time.Millisecond}.Run(context.Background())
			if err == nil {
				_, err = json.Marshal(r) // refuses what is no number
			} else {
				err = nil
			}
			if r.Sent < 0 || r.Received < 0 || r.Seconds < 0 || r.Packets < 0 || r.Lost < 0 || r.Jitter < 0 {
				err = errors.Join(err, fmt.Errorf("result %+v", r))
			}
			done <- err
		}()
		if err := endOf(t, done); err != nil {
			t.Error(err)
		}
	})
}

// Whatever a client asks for, what is accepted can be run, and what a peer tells is of as many streams
// and in range.
func FuzzMessages(f *testing.F) {
	for _, seed := range []string{`{"tcp":true,"time":1,"parallel":2,"len":1000}`, `{"udp":true,"len":16,"bandwidth":1e15}`,
		`{"streams":[{"id":1,"bytes":1,"omitted_errors":1e300}]}`, `{"tcp":true,"parallel":0.5}`, `[]`, `{"time":1e308,"tcp":1}`} {
		f.Add([]byte(frame(seed)))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var p params
		if readJSON(bytes.NewReader(text), mostParams, &p) == nil && p.check() == nil {
			if n, size := int(p.Parallel), int(p.Length); n < 1 || n > MaxStreams || size < 1 || size > maxBlock || p.TCP == p.UDP || p.Time+p.Omit > 2*maxSeconds {
				t.Errorf("accepted are %+v", p)
			}
		}
		var r results
		if readJSON(bytes.NewReader(text), mostResults, &r) == nil && r.check(1) == nil {
			if _, err := json.Marshal(newTestResult(&params{UDP: true}, r, r, true)); err != nil {
				t.Errorf("%+v: %v", r, err)
			}
		}
	})
}

// Whatever a client says, with or without the streams that it is to open, its test ends and the
// next client's goes well.
func FuzzServer(f *testing.F) {
	for _, seed := range []string{
		frame(`{"tcp":true,"time":1,"parallel":1,"len":1000}`) + "\x04" + frame(`{"streams":[{"id":1}]}`),
		frame(`{"tcp":true,"time":1,"parallel":3,"len":1000,"reverse":true}`) + "\x04" + frame(`{"streams":[{"id":1},{"id":3},{"id":4}]}`) + "\x10",
		frame(`{"udp":true,"time":1,"parallel":1,"len":1000,"udp_counters_64bit":1}`) + "\x0c",
		frame(`{"udp":true,"time":1,"parallel":2,"len":1000}`) + "\x04" + frame(`{"streams":[]}`),
		frame(`{"tcp":true,"bidirectional":true}`), "\xff\xff\xff\xff", "",
	} {
		for _, streams := range []byte{0, 1, 3} {
			f.Add([]byte(seed), streams)
		}
	}
	ln, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		f.Fatal(err)
	}
	s := &Responder{Timeout: 20 * time.Millisecond}
	go s.Serve(f.Context(), ln, false)
	f.Fuzz(func(t *testing.T, text []byte, streams byte) {
		converse(t, ln.Addr().String(), string(text), int(streams%5), false)
		whole := frame(`{"tcp":true,"time":1,"parallel":1,"len":1000}`) + "\x04" + frame(`{"streams":[{"id":1,"bytes":1000,"end_time":1}]}`) + "\x10"
		converse(t, ln.Addr().String(), whole, 1, true)
	})
}

// converse is a client that says all that it has to say at once, and opens streams when it is told
// to. It wants the server to end its test in time, and, if it is an honest one, with results. While
// the server is busy with a client before, it tries again.
func converse(t *testing.T, server, text string, streams int, honest bool) {
	t.Helper()
	end := time.Now().Add(host.ScaleTimeout(30 * time.Second))
	for {
		states, served := conversation(t, server, text, streams, end)
		switch {
		case served && (!honest || strings.Contains(states, string([]byte{byte(displayResults)}))):
			return
		case !honest && !served:
			return // it came while another was served, and was told so
		case time.Now().After(end):
			t.Fatalf("the next client is not served: %q", states)
		}
		time.Sleep(time.Millisecond)
	}
}

// conversation is one test of a client. It gives what the server said, and whether it was served.
func conversation(t *testing.T, server, text string, streams int, end time.Time) (said string, served bool) {
	t.Helper()
	dial := func(network string, first []byte) net.Conn {
		conn, err := net.Dial(network, server)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(end)
		_, _ = conn.Write(first)
		return conn
	}
	cookie := newCookie()
	control := dial("tcp", append(cookie[:], text...))
	defer control.Close()
	buf := make([]byte, 1<<16)
	for opened := false; ; {
		n, err := control.Read(buf)
		if nerr := net.Error(nil); errors.As(err, &nerr) && nerr.Timeout() {
			t.Fatal("the server still serves")
		}
		said += string(buf[:n])
		if err != nil {
			return said, said != "" && said[0] == byte(paramExchange)
		}
		if opened || !strings.Contains(said, string([]byte{byte(createStreams)})) {
			continue
		}
		opened = true
		for range streams {
			data := dial("tcp", cookie[:])
			defer data.Close()
			_, _ = data.Write(buf)
			datagram := dial("udp", udpHello)
			defer datagram.Close()
		}
	}
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
