package watch

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"
)

// Whoever reaches the port may send anything, and the server may share one core with a daemon that must not wait:
// see [ServeMetrics].
const (
	// requestTime is how long a scraper may take to send its request.
	requestTime = time.Second
	// scrapeTime is how long the answer may take, with the time to read it.
	scrapeTime = 10 * time.Second
	// maxRequest is the size of the largest request; net/http adds 4 KiB.
	maxRequest = 8 << 10
	// maxConnections is how many are open at a time. Others wait in the kernel.
	maxConnections = 8
	// acceptInterval is the shortest time from one connection to the next.
	acceptInterval = 10 * time.Millisecond
	// shutdownTime is how long the answers that are on their way are waited for.
	shutdownTime = 2 * time.Second
	// maxScrapes is how many requests are answered at a time. Others are told to come again (503).
	maxScrapes = 4
)

// MetricsPath is where the metrics are served.
const MetricsPath = "/metrics"

// Serve serves the metrics until ctx ends, and closes the listener. Then it returns nil.
func (s *Service) Serve(ctx context.Context, listener net.Listener) error {
	return ServeMetrics(ctx, listener, s)
}

// ServeMetrics does so with the metrics of any collector. However many connections there are, and whatever they send,
// the rest of the process has most of a core left: few are open at a time, each may send one request, and they come no
// faster than one each [acceptInterval].
func ServeMetrics(ctx context.Context, listener net.Listener, metrics prometheus.Collector) error {
	registry := prometheus.NewRegistry()
	if err := registry.Register(metrics); err != nil {
		return errors.Join(err, listener.Close())
	}
	mux := http.NewServeMux()
	mux.Handle("GET "+MetricsPath, promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true, MaxRequestsInFlight: maxScrapes}))
	server := &http.Server{Handler: mux, ReadTimeout: requestTime, WriteTimeout: scrapeTime, MaxHeaderBytes: maxRequest}
	server.SetKeepAlivesEnabled(false) // nor is a second request read that came with the first
	listener = netutil.LimitListener(&pacedListener{Listener: listener}, maxConnections)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	err := errors.Join(server.Shutdown(bounded), server.Close())
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil // a scraper was cut off
	}
	<-served
	return err
}

// pacedListener accepts a connection each [acceptInterval] at most. It has one caller.
type pacedListener struct {
	net.Listener
	next time.Time
}

// Accept is of [net.Listener].
func (l *pacedListener) Accept() (net.Conn, error) {
	time.Sleep(time.Until(l.next))
	c, err := l.Listener.Accept()
	l.next = time.Now().Add(acceptInterval)
	return c, err
}
