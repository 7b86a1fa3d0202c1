package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/verr"
)

// ProofRecord is a finished proof, as a line of the log holds it.
type ProofRecord struct {
	Build   string        `json:"build"` // of the program
	Fault   string        `json:"fault"`
	Budget  time.Duration `json:"budget"` // ns, as all times here
	MDE     float64       `json:"mde"`
	Seed    uint64        `json:"seed"` // of all proofs
	Nth     int           `json:"nth"`  // of this fault, from 0
	Time    time.Time     `json:"at"`
	Took    time.Duration `json:"took"`
	Counts  Counts        `json:"counts"`
	Summary string        `json:"told"`
}

// proofLog keeps finished proofs, so that many can be made in several sittings. Without a
// file it is gone at the end.
type proofLog struct {
	file string
	done map[string][]ProofRecord // by fault
}

// openLog reads the proofs that a file holds; a file that does not exist holds none.
func (c Proofs) openLog() (*proofLog, error) {
	r := &proofLog{file: c.Record, done: map[string][]ProofRecord{}}
	if r.file == "" {
		return r, nil
	}
	const what = "cannot go on with the proofs of "
	text, err := os.ReadFile(r.file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, verr.Wrap(verr.Failed, what+r.file, err, "name a file that can be read")
	}
	n := 0
	for line := range bytes.Lines(text) {
		n++
		var f ProofRecord
		if err := json.Unmarshal(line, &f); err != nil {
			return nil, verr.Wrap(verr.Failed, what+r.file, fmt.Errorf("line %d: %w", n, err), "take that line out, or name another file")
		}
		want := ProofRecord{Build: c.Build, Budget: c.Budget, MDE: c.MDE, Seed: c.Seed}
		if got := (ProofRecord{Build: f.Build, Budget: f.Budget, MDE: f.MDE, Seed: f.Seed}); got != want {
			return nil, verr.New(verr.Usage, what+r.file,
				fmt.Sprintf("line %d is of %s, and this is %s: they do not count together", n, got.conditions(), want.conditions()), "name another file, or do as then")
		}
		r.done[f.Fault] = append(r.done[f.Fault], f)
	}
	return r, nil
}

// conditions are what proofs must have in common to be counted together.
func (f ProofRecord) conditions() string {
	return fmt.Sprintf("%s, budget %s, effect %g, seed %d", f.Build, f.Budget, f.MDE, f.Seed)
}

// add keeps a proof. It is on disk when this returns.
func (r *proofLog) add(f ProofRecord) error {
	r.done[f.Fault] = append(r.done[f.Fault], f)
	if r.file == "" {
		return nil
	}
	line, err := json.Marshal(f)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(r.file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("record a proof: %w", err)
	}
	_, err = out.Write(append(line, '\n'))
	if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
		return fmt.Errorf("record a proof: %w", err)
	}
	return nil
}

// sum adds up what there is of some faults.
func (r *proofLog) sum(faults []Fault) (all Counts, proofs int, took time.Duration) {
	for _, f := range faults {
		for _, one := range r.done[f.Name] {
			all.add(one.Counts)
			took += one.Took
			proofs++
		}
	}
	return all, proofs, took
}

// line is a proof in the report.
func (f ProofRecord) line(of int) string {
	return fmt.Sprintf("%s %3d/%d  %s  %s", f.Fault, f.Nth+1, of, f.Took.Round(time.Second), strings.TrimSpace(f.Summary))
}
