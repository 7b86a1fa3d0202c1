package watch

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/internal/testenv/comparetest"
	"github.com/venturi-net/venturi/result"
)

func TestMain(m *testing.M) { testenv.Main(m, testenv.Roles{"agent": agenttest.RunAgent}) }

// stopper ends a service as soon as its log tells of a change that was planted.
type stopper struct {
	bytes.Buffer
	planted func() bool
	stop    func()
}

// Write stops the service at a change, if one was planted: a machine that others use may have changes of its own.
func (s *stopper) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("CHANGED")) && s.planted() {
		s.stop()
	}
	return s.Buffer.Write(p)
}

// plantedSpin is many round trips, so that it shows on a machine that is busy otherwise.
const plantedSpin = 5 * time.Millisecond

// A path of a lab is made slower after some runs, and the service tells.
func TestChangeInLab(t *testing.T) {
	host := comparetest.Host(t)
	const calm, most = 12, 60 // runs before the change, and of all: some may be too noisy
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	q := compare.Request{Paths: []string{"host", "host"}, Loads: []string{"udp_lat"}, Series: 3, Rounds: 4, Slice: 30 * time.Millisecond, Wait: true} // some requests, each with the spin
	session, _, err := compare.OpenRequest(ctx, q, host)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	}()
	runs := 0
	measure := func(ctx context.Context) (*result.Record, error) {
		runs++
		q.Out, q.Seed = filepath.Join(t.TempDir(), "run"), uint64(runs)
		if runs > calm {
			q.Spin = map[int]time.Duration{1: plantedSpin}
		}
		r, err := q.Resolve()
		if err != nil {
			return nil, err
		}
		return session.Compare(ctx, r, func(result.Line) error { return nil })
	}
	log := &stopper{planted: func() bool { return runs > calm }, stop: stop}
	s := New(measure, Options{Runs: most, FalseAlarm: 1000, Log: log})
	if err := s.Run(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d runs:\n%s", runs, log.String())
	w := s.ratios[RatioID{"host.2", "udp_lat/1"}]
	if w == nil || w.changes == 0 || runs <= calm || w.last.After < w.last.Before {
		t.Errorf("a path that takes %v more was not found: %+v", plantedSpin, w)
	}
}
