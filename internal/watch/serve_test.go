package watch

import (
	"context"
	"net"
	"net/http"
	"testing"

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
