package watch

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"time"
)

// HistoryFile is the name of the file that keeps a history.
const HistoryFile = "history.json"

// mostRuns is how many runs a history keeps: a year of one an hour.
const mostRuns = 9000

// RatioHistory is the ratios of all runs, in their order. A service that is started again
// goes on from it.
type RatioHistory struct {
	Version int         `json:"version"`
	Request string      `json:"of,omitempty"` // what was measured, as it was asked for; empty: not known
	Runs    []RunRatios `json:"runs"`
	// Changes are those that were counted of each ratio, by cell and path, also in runs that are no longer
	// kept. A file without them is of an earlier version: its runs tell.
	Changes map[string]map[string]ChangeCount `json:"changes,omitempty"`
}

// ChangeCount is how often a ratio has changed.
type ChangeCount struct {
	Count int    `json:"count"`
	Last  Change `json:"last,omitzero"`
}

const historyVersion = 1

// MostHistory is how many bytes the file of a history has at most.
const MostHistory = 256 << 20

// RunRatios is the ratios of one run to its baseline.
type RunRatios struct {
	Started time.Time                     `json:"started"`
	Ratios  map[string]map[string]float64 `json:"ratios"` // by cell and path
}

// ReadRatios reads what [RatioHistory.Write] has written.
func ReadRatios(r io.Reader) (h RatioHistory, err error) {
	if err := json.NewDecoder(r).Decode(&h); err != nil {
		return h, fmt.Errorf("read the history: %w", err)
	}
	if h.Version > historyVersion {
		return h, fmt.Errorf("read the history: it is of version %d, and this program knows %d", h.Version, historyVersion)
	}
	return h, nil
}

// Write writes the history.
func (h RatioHistory) Write(w io.Writer) error {
	h.Version = historyVersion
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

func (h *RatioHistory) add(run RunRatios) {
	h.Runs = append(h.Runs, run)
	h.Runs = slices.Delete(h.Runs, 0, max(0, len(h.Runs)-mostRuns))
}

// count keeps the changes of a ratio.
func (h *RatioHistory) count(key RatioID, changes ChangeCount) {
	if h.Changes == nil {
		h.Changes = map[string]map[string]ChangeCount{}
	}
	if h.Changes[key.Cell] == nil {
		h.Changes[key.Cell] = map[string]ChangeCount{}
	}
	h.Changes[key.Cell][key.Path] = changes
}

// startOf is when the run began that has the n-th last value of a ratio.
func (h *RatioHistory) startOf(key RatioID, n int) time.Time {
	for i := len(h.Runs) - 1; i >= 0; i-- {
		if _, has := h.Runs[i].Ratios[key.Cell][key.Path]; !has {
			continue
		}
		if n--; n <= 0 {
			return h.Runs[i].Started
		}
	}
	return time.Time{}
}

func (r RunRatios) size() (n int) {
	for _, paths := range r.Ratios {
		n += len(paths)
	}
	return n
}

// all visits the ratios that can be taken a logarithm of, in a fixed order.
func (r RunRatios) all() iter.Seq2[RatioID, float64] {
	return func(yield func(RatioID, float64) bool) {
		for _, cell := range slices.Sorted(maps.Keys(r.Ratios)) {
			for _, path := range slices.Sorted(maps.Keys(r.Ratios[cell])) {
				if v := r.Ratios[cell][path]; v > 0 && !yield(RatioID{path, cell}, v) {
					return
				}
			}
		}
	}
}
