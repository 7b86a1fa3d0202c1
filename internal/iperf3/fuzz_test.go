package iperf3

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
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
			f.Add([]byte(seed), flags, byte(atOnce))
		}
		f.Add([]byte(seed), byte(0), byte(slowly))
		f.Add([]byte(seed), byte(0), byte(andGoes))
	}
	f.Fuzz(func(t *testing.T, text []byte, flags, manner byte) {
		synctest.Test(t, func(t *testing.T) {
			n := newPipeNet()
			defer n.close()
			control := true
			dial := func(_ context.Context, network, _ string) (net.Conn, error) {
				client, server := n.connect()
				how := byte(atOnce)
				if control {
					how, control = manner, false
				}
				n.peers.Go(func() { take(server) })
				n.peers.Go(func() {
					if network == "udp" {
						_, _ = server.Write(udpReply)
					}
					say(server, text, how)
				})
				return client, nil
			}
			start := time.Now()
			r, err := Client{Server: "a server", UDP: flags&2 != 0, Reverse: flags&4 != 0, Streams: 1 + int(flags>>3)%4, Time: 2 * time.Second, dial: dial}.Run(t.Context())
			if took := time.Since(start); took > 15*time.Minute {
				t.Errorf("the client waited for %v", took)
			}
			if err == nil {
				if _, err := json.Marshal(r); err != nil { // it refuses what is no number
					t.Error(err)
				}
			}
			if r.Sent < 0 || r.Received < 0 || r.Seconds < 0 || r.Packets < 0 || r.Lost < 0 || r.Jitter < 0 {
				t.Errorf("result %+v", r)
			}
		})
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
			f.Add([]byte(seed), streams, byte(atOnce))
		}
		f.Add([]byte(seed), byte(1), byte(slowly))
		f.Add([]byte(seed), byte(1), byte(andGoes))
	}
	f.Fuzz(func(t *testing.T, text []byte, streams, manner byte) {
		synctest.Test(t, func(t *testing.T) {
			n := newPipeNet()
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- (&Responder{udp: n}).Serve(ctx, n, false) }()
			defer func() {
				cancel()
				n.close()
				if err := <-done; !errors.Is(err, context.Canceled) {
					t.Errorf("the server ended: %v", err)
				}
			}()
			start := time.Now()
			n.converse(text, int(streams%5), manner)
			if took := time.Since(start); took > 25*time.Hour { // the longest test takes a day
				t.Errorf("a client was served for %v", took)
			}
			whole := frame(`{"tcp":true,"time":1,"parallel":1,"len":1000}`) + "\x04" + frame(`{"streams":[{"id":1,"bytes":1000,"end_time":1}]}`) + "\x10"
			// A stream that came after the end of its test may be served now.
			for tries := 0; ; tries++ {
				said := n.converse([]byte(whole), 1, atOnce)
				if strings.HasSuffix(said, string([]byte{byte(displayResults)})) {
					break
				}
				if tries == 100 {
					t.Fatalf("the next client is not served: %q", said)
				}
				time.Sleep(time.Second)
			}
		})
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
