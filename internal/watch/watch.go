// Package watch repeats a comparison, keeps the ratios of all runs, detects when one of
// them changes, and serves them as metrics.
package watch

import (
	"context"
	"errors"
	"io"
	"math"
	"time"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// Defaults of a service.
const (
	DefaultInterval   = time.Hour
	DefaultBudget     = 30 * time.Second
	DefaultListen     = ":9137"
	DefaultKeep       = 200
	DefaultFalseAlarm = 1000
)

// Options of a service.
type Options struct {
	Interval   time.Duration // from the start of one run to that of the next
	Runs       int           // the service ends after so many; 0: it does not
	FalseAlarm int           // runs between false alarms, in the mean, over all ratios
	Log        io.Writer
	// History are the ratios of earlier runs. Save keeps those of all, after each run.
	History RatioHistory
	Save    func(RatioHistory) error
}

// Service measures again and again.
type Service struct {
	measure func(context.Context) (*result.Record, error)
	opt     Options
	history RatioHistory
	ratios  map[RatioID]*watchedRatio
	state   state // what is served
}

// RatioID names a ratio.
type RatioID struct{ Path, Cell string }

// watchedRatio is a ratio from run to run.
type watchedRatio struct {
	detector stats.ChangeDetector
	changes  int
	last     Change // zero: none yet
}

// Change is a detected change of a ratio.
type Change struct {
	Since  time.Time `json:"since"`  // the first run after it
	Before float64   `json:"before"` // medians of the ratio
	After  float64   `json:"after"`
}

// New makes a service that measures by a function, which returns a record or an error, or both where a
// part of the record is missing: [verr.Partial]. The other ratios then count.
func New(measure func(context.Context) (*result.Record, error), opt Options) *Service {
	s := &Service{measure: measure, opt: opt, ratios: map[RatioID]*watchedRatio{}}
	s.state.interval = opt.Interval
	s.history.Request = opt.History.Request
	for _, run := range opt.History.Runs {
		s.take(run, false)
	}
	s.restoreChanges(opt.History.Changes)
	return s
}

// restoreChanges takes the counts of an earlier service over. Its runs alone do not tell them: the first
// are no longer kept, or another threshold held. A counter may not fall.
func (s *Service) restoreChanges(kept map[string]map[string]ChangeCount) {
	for cell, paths := range kept {
		for path, changes := range paths {
			key := RatioID{path, cell}
			if s.ratios[key] == nil {
				s.ratios[key] = &watchedRatio{}
			}
			s.ratios[key].changes, s.ratios[key].last = max(0, changes.Count), changes.Last
		}
	}
	for key, w := range s.ratios {
		s.history.count(key, ChangeCount{w.changes, w.last})
	}
	s.state.ratios = s.ratios
}

// Run measures until ctx ends, which is no error. Error: the first run could not be made.
func (s *Service) Run(ctx context.Context) error {
	for n := 1; ; n++ {
		next := time.Now().Add(s.opt.Interval)
		rec, err := s.measure(ctx)
		partial := rec != nil && verr.Code(err) == verr.Partial
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !partial && n == 1:
			return err
		case err != nil && !partial:
			s.failed(err)
		default:
			if partial {
				s.log("%v", err)
			}
			if err := s.measured(rec, partial); err != nil {
				s.failed(err)
			}
		}
		if n == s.opt.Runs {
			return nil
		}
		if host.Sleep(ctx, time.Until(next)) != nil {
			return nil
		}
	}
}

func (s *Service) failed(err error) {
	s.state.update(func() { s.state.failed++ })
	reason := err.Error()
	if known := new(verr.Error); errors.As(err, &known) {
		reason = known.Summary + ": " + known.Reason
	}
	s.log("the run failed: %s", reason)
}

func (s *Service) log(format string, args ...any) {
	sanitize.Fprintf(s.opt.Log, "venturi: "+format+"\n", args...)
}

// measured takes the record of a run; partial: some path is missing.
func (s *Service) measured(rec *result.Record, partial bool) error {
	sum, err := analysis.Analyze(rec, analysis.Options{})
	if err != nil {
		return err
	}
	run := RunRatios{Started: rec.Header.Started, Ratios: map[string]map[string]float64{}}
	for i := range sum.Cells {
		c := &sum.Cells[i]
		if c.Floor != nil && c.Floor.Invalid {
			s.log("%s is too noisy in this run, and is left out", c.Cell.Name)
			continue
		}
		for _, r := range c.Rows {
			if r.Ratio != nil && (r.Blank() || c.Rows[0].Blank()) {
				s.log("%s in %s is left out: many slices of it, or of %s, have no figure in this run, and the others are the better ones", r.Arm.Name, c.Cell.Name, c.Rows[0].Arm.Name)
				continue
			}
			if r.Ratio == nil || r.Foreign() || !(r.Ratio.Value > 0) || math.IsInf(r.Ratio.Value, 0) {
				continue
			}
			if run.Ratios[c.Cell.Name] == nil {
				run.Ratios[c.Cell.Name] = map[string]float64{}
			}
			run.Ratios[c.Cell.Name][r.Arm.Name] = r.Ratio.Value
		}
	}
	s.state.update(func() {
		s.state.rec, s.state.sum = rec, sum
		if partial {
			s.state.partial++
		} else {
			s.state.measured++
		}
		s.take(run, true)
	})
	s.log("measured %d ratios in %s", run.size(), time.Since(run.Started).Round(time.Second))
	if s.opt.Save != nil {
		if err := s.opt.Save(s.history); err != nil {
			s.log("cannot keep the history: %v", err)
		}
	}
	return nil
}

// take adds a run to the history, and looks for changes; aloud says so in the log.
func (s *Service) take(run RunRatios, aloud bool) {
	s.history.add(run)
	threshold := float64(max(s.opt.FalseAlarm, 2) * max(run.size(), len(s.ratios), 1))
	for key, value := range run.all() {
		w := s.ratios[key]
		if w == nil {
			w = &watchedRatio{}
			s.ratios[key] = w
			s.history.count(key, ChangeCount{})
		}
		w.detector.Threshold = threshold
		shift, found := w.detector.Add(math.Log(value))
		if !found {
			continue
		}
		w.changes++
		w.last = Change{Since: s.history.startOf(key, shift.Since), Before: math.Exp(shift.Before), After: math.Exp(shift.After)}
		s.history.count(key, ChangeCount{w.changes, w.last})
		if aloud {
			s.log("CHANGED: %s in %s: its ratio changed from %.3f to %.3f (%+.1f %%), first seen in the run of %s",
				key.Path, key.Cell, w.last.Before, w.last.After, 100*(w.last.After/w.last.Before-1), w.last.Since.UTC().Format("2006-01-02 15:04:05 UTC"))
		}
	}
	s.state.threshold, s.state.ratios, s.state.last = threshold, s.ratios, run
}
