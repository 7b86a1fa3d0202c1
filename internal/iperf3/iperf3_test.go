package iperf3

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/plain"
)

func TestMain(m *testing.M) {
	plain.WaitTogether()
	testenv.Main(m, nil)
}

// stock is Debian's iperf3.
func stock(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("iperf3")
	if err != nil {
		t.Skip("there is no iperf3 here: apt-get install iperf3")
	}
	return program
}

// serve runs a server of ours on a free port of the loopback, and gives its port and what
// became of its tests.
func serve(t *testing.T, timeout time.Duration) (port int, ended chan Test) {
	t.Helper()
	ln, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	ended = make(chan Test, 100)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	s := &Responder{Timeout: timeout, Event: func(r Test) { ended <- r }}
	go func() { done <- s.Serve(ctx, ln, false) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the server ended with %v", err)
			}
		case <-time.After(30 * time.Second):
			t.Error("the server did not end")
		}
	})
	return ln.Addr().(*net.TCPAddr).Port, ended
}

// stockReport is what is read of a stock client's JSON.
type stockReport struct {
	Error string `json:"error"`
	End   struct {
		Sum      *stockSum `json:"sum"`
		Sent     *stockSum `json:"sum_sent"`
		Received *stockSum `json:"sum_received"`
		Streams  []any     `json:"streams"`
	} `json:"end"`
}

type stockSum struct {
	Seconds     float64  `json:"seconds"`
	Bytes       float64  `json:"bytes"`
	Retransmits *float64 `json:"retransmits"`
	Lost        float64  `json:"lost_packets"`
	Packets     float64  `json:"packets"`
}

var interop = []struct {
	name    string
	args    []string // of a stock client
	client  Client   // the same of ours
	streams int
	usual   bool // not with -short: it sends as fast as it can, and another case is of the same and more
}{
	{"tcp", nil, Client{}, 1, false},
	{"tcp in reverse", []string{"-R"}, Client{Reverse: true}, 1, true},
	{"four of tcp", []string{"-P", "4"}, Client{Streams: 4}, 4, true},
	{"four of tcp in reverse", []string{"-P", "4", "-R"}, Client{Streams: 4, Reverse: true}, 4, false},
	{"udp", []string{"-u", "-b", "20M"}, Client{UDP: true, Rate: 20e6}, 1, false},
	{"udp in reverse", []string{"-u", "-b", "20M", "-R"}, Client{UDP: true, Rate: 20e6, Reverse: true}, 1, false},
	{"four of udp", []string{"-u", "-b", "5M", "-P", "4"}, Client{UDP: true, Rate: 20e6, Streams: 4}, 4, false},
	{"four of udp in reverse", []string{"-u", "-b", "5M", "-P", "4", "-R"}, Client{UDP: true, Rate: 20e6, Streams: 4, Reverse: true}, 4, false},
	{"tcp at a rate", []string{"-b", "20M"}, Client{Rate: 20e6}, 1, false},
}

// A stock client measures against our server.
func TestStockClient(t *testing.T) {
	t.Parallel()
	program := stock(t)
	for _, c := range interop {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.usual {
				plain.SkipShort(t)
			}
			port, ended := serve(t, 0)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			args := append([]string{"-c", "127.0.0.1", "-p", strconv.Itoa(port), "-t", "1", "-J"}, c.args...)
			out, err := exec.CommandContext(ctx, program, args...).Output()
			var r stockReport
			if jerr := json.Unmarshal(out, &r); jerr != nil || err != nil || r.Error != "" {
				t.Fatalf("%v, %v, %s\n%s", err, jerr, r.Error, out)
			}
			test := endOf(t, ended)
			if test.Err != nil || test.Result.Streams != c.streams || len(r.End.Streams) != c.streams {
				t.Fatalf("our server: %+v", test)
			}
			if r.End.Received == nil || r.End.Sent == nil || r.End.Sent.Bytes == 0 {
				t.Fatalf("the client has no figures:\n%s", out)
			}
			// Both ends tell the same of the same test.
			for what, pair := range map[string][2]float64{
				"received": {test.Result.Received, r.End.Received.Bytes}, "sent": {test.Result.Sent, r.End.Sent.Bytes},
			} {
				if d := pair[0]/pair[1] - 1; d < -0.02 || d > 0.02 {
					t.Errorf("%s: our server says %.0f bytes, the client %.0f", what, pair[0], pair[1])
				}
			}
			plausible(t, c.client, test.Result)
		})
	}
}

// Our client measures against a stock server.
func TestStockServer(t *testing.T) {
	t.Parallel()
	program := stock(t)
	for i, c := range interop {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.usual {
				plain.SkipShort(t)
			}
			addr := fmt.Sprintf("127.0.1.%d", i+1) // of its own: nothing that runs beside takes the port
			port := freePort(t, addr)
			server := exec.CommandContext(t.Context(), program, "-s", "-1", "-B", addr, "-p", strconv.Itoa(port))
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
			defer server.Wait()
			defer server.Process.Kill()
			awaitPort(t, addr, port)
			c.client.Server, c.client.Time = fmt.Sprintf("%s:%d", addr, port), time.Second
			r, err := c.client.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if r.Streams != c.streams {
				t.Errorf("%d streams", r.Streams)
			}
			plausible(t, c.client, r)
		})
	}
}

// plausible holds a report against what was asked for. The machine may be busy.
func plausible(t *testing.T, c Client, r TestResult) {
	t.Helper()
	t.Logf("%+v", r)
	if r.Received <= 0 || r.Received > r.Sent || r.Seconds < 0.5 || r.Seconds > 10 {
		t.Errorf("%+v", r)
	}
	if c.Rate > 0 && (r.BitsPerSec < c.Rate/10 || r.BitsPerSec > 1.3*c.Rate) {
		t.Errorf("%.0f bit/s at a rate of %.0f", r.BitsPerSec, c.Rate)
	}
	if c.UDP != (r.Packets > 0) || !c.UDP && r.Retransmits < 0 {
		t.Errorf("%+v", r)
	}
}

func freePort(t *testing.T, addr string) int {
	t.Helper()
	ln, err := net.Listen("tcp", addr+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}

// awaitPort waits until somebody listens at a port. It neither connects, which would be the server's only
// test, nor tries to listen, which could be what keeps the server from it.
func awaitPort(t *testing.T, addr string, port int) {
	t.Helper()
	ip := netip.MustParseAddr(addr).As4()
	local := fmt.Sprintf(": %08X:%04X ", binary.NativeEndian.Uint32(ip[:]), port)
	for end := time.Now().Add(host.ScaleTimeout(30 * time.Second)); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		sockets, err := os.ReadFile("/proc/net/tcp")
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(strings.Split(string(sockets), "\n"), func(s string) bool {
			return strings.Contains(s, local) && strings.Contains(s, " 00000000:0000 0A ") // listens
		}) {
			return
		}
	}
	t.Fatal("the stock server does not listen")
}

// What is not done is refused in words, and the server goes on.
func TestRefused(t *testing.T) {
	t.Parallel()
	program := stock(t)
	port, ended := serve(t, 0)
	// With -J some versions exit with 0 all the same.
	out, _ := exec.CommandContext(t.Context(), program, "-c", "127.0.0.1", "-p", strconv.Itoa(port), "-t", "1", "-J", "--bidir").Output()
	var r stockReport
	if err := json.Unmarshal(out, &r); err != nil || !strings.Contains(r.Error, "not implemented") {
		t.Errorf("both directions at a time: %v\n%s", err, out)
	}
	if test := endOf(t, ended); test.Err == nil || !strings.Contains(test.Err.Error(), "-R") {
		t.Errorf("%+v", test)
	}
	serveAnother(t, port, ended)
}

// serveAnother wants the server to serve.
func serveAnother(t *testing.T, port int, ended chan Test) {
	t.Helper()
	r, err := Client{Server: fmt.Sprintf("127.0.0.1:%d", port), Time: time.Second, Rate: 1e7}.Run(t.Context())
	if err != nil || r.Received == 0 {
		t.Errorf("afterwards: %+v, %v", r, err)
	}
	if test := endOf(t, ended); test.Err != nil {
		t.Errorf("afterwards: %+v", test)
	}
}

// A second client is told that the server is busy, and the first goes on.
func TestBusy(t *testing.T) {
	t.Parallel()
	port, ended := serve(t, 0)
	c := Client{Server: fmt.Sprintf("127.0.0.1:%d", port), Time: 2 * time.Second, Rate: 1e7}
	first := make(chan error, 1)
	go func() {
		_, err := c.Run(t.Context())
		first <- err
	}()
	time.Sleep(500 * time.Millisecond)
	if _, err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "busy") {
		t.Errorf("the second: %v", err)
	}
	if err := endOf(t, first); err != nil {
		t.Errorf("the first: %v", err)
	}
	endOf(t, ended)
}

func TestOneOff(t *testing.T) {
	t.Parallel()
	ln, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- (&Responder{}).Serve(t.Context(), ln, true) }()
	if _, err := (Client{Server: ln.Addr().String(), Time: time.Second, Rate: 1e7}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := endOf(t, done); err != nil {
		t.Error(err)
	}
}
