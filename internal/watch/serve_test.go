package watch

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/venturi-net/venturi/internal/testenv"
)

// blocking is a collector that answers when it is released.
type blocking struct{ asked, release chan struct{} }

func (b blocking) Describe(chan<- *prometheus.Desc) {}

func (b blocking) Collect(chan<- prometheus.Metric) {
	b.asked <- struct{}{}
	<-b.release
}

// However many ask for metrics at a time, only some are answered: the others are told to come again.
func TestScrapesAreBounded(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testenv.Must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	b, ended := blocking{make(chan struct{}), make(chan struct{})}, make(chan error, 1)
	go func() { ended <- ServeMetrics(ctx, listener, b) }()
	codes := make(chan int)
	get := func() {
		r, err := http.Get("http://" + listener.Addr().String() + MetricsPath)
		if err != nil {
			t.Error(err)
			codes <- 0
			return
		}
		r.Body.Close()
		codes <- r.StatusCode
	}
	for range maxScrapes {
		go get()
		<-b.asked
	}
	go get()
	if code := <-codes; code != http.StatusServiceUnavailable {
		t.Errorf("one too many has code %d", code)
	}
	close(b.release)
	for range maxScrapes {
		if code := <-codes; code != http.StatusOK {
			t.Errorf("code %d", code)
		}
	}
	stop()
	testenv.Must(t, <-ended)
}

// counted is a listener that keeps the largest number of connections that were open at a time.
type counted struct {
	net.Listener
	open, peak atomic.Int64
}

func (l *counted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if open := l.open.Add(1); open > l.peak.Load() { // one goroutine accepts
		l.peak.Store(open)
	}
	return &countedConn{Conn: c, open: &l.open}, err
}

type countedConn struct {
	net.Conn
	once sync.Once
	open *atomic.Int64
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

// One too many connections wait until a deadline frees those that send nothing. Of several requests in one connection,
// only the first is answered.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testenv.Must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	l, ended := &counted{Listener: listener}, make(chan error, 1)
	go func() { ended <- ServeMetrics(ctx, l, prometheus.NewGauge(prometheus.GaugeOpts{Name: "x"})) }()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", listener.Addr().String())
		testenv.Must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	for range maxConnections + 1 {
		_, err := io.WriteString(dial(), "GET "+MetricsPath) // and no more
		testenv.Must(t, err)
	}
	last := dial() // the kernel hands them out in their order
	testenv.Must(t, last.SetDeadline(time.Now().Add(testenv.Timeout)))
	_, err = io.WriteString(last, strings.Repeat("GET "+MetricsPath+" HTTP/1.1\r\nHost: x\r\n\r\n", 3))
	testenv.Must(t, err)
	answer, err := io.ReadAll(last)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) { // as what it sent was not read
		t.Errorf("read the answer: %v", err)
	}
	if n := strings.Count(string(answer), "HTTP/1.1 200 OK"); n != 1 {
		t.Errorf("%d requests of a connection were answered:\n%s", n, answer)
	}
	if peak := l.peak.Load(); peak != maxConnections {
		t.Errorf("%d connections were open at a time, want %d", peak, maxConnections)
	}
	stop()
	testenv.Must(t, <-ended)
}
