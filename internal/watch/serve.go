package watch

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// scrapeTime is how long a scraper may take to send its request or to read the answer.
	scrapeTime = 30 * time.Second
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

// ServeMetrics does so with the metrics of any collector.
func ServeMetrics(ctx context.Context, listener net.Listener, metrics prometheus.Collector) error {
	registry := prometheus.NewRegistry()
	if err := registry.Register(metrics); err != nil {
		return errors.Join(err, listener.Close())
	}
	mux := http.NewServeMux()
	mux.Handle("GET "+MetricsPath, promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true, MaxRequestsInFlight: maxScrapes}))
	server := &http.Server{Handler: mux, ReadTimeout: scrapeTime, WriteTimeout: scrapeTime}
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
