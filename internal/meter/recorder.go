package meter

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/venturi-net/venturi/result"
)

// Recorder samples meters at the ends of slices. Its Begin and End are what a
// load's probe needs. It is safe for use by several goroutines, because the
// passive ends of two arms may tell it about two slices at the same moment.
type Recorder struct {
	mu      sync.Mutex
	machine string
	arms    []Arm
	runs    []openMeter
}

// openMeter is one open meter with its sums.
type openMeter struct {
	name    string
	sampler Sampler
	keys    []string
	level   []bool    // by key; see leveled
	now     []int64   // scratch
	arms    []account // one an arm
}

// account holds what one meter knows about one arm.
type account struct {
	open    bool
	started time.Time
	begin   []int64
	sum     []int64
	wall    time.Duration
	slices  int
	failed  int   // slices without a sample at either end
	err     error // the last reason for it
}

// NewRecorder opens the named meters for the arms on a machine. Without names
// it is a recorder that does nothing.
func NewRecorder(machine string, names []string, s Setup) (*Recorder, error) {
	if s.Root == "" {
		s.Root = "/"
	}
	r := &Recorder{machine: machine, arms: s.Arms}
	for _, name := range names {
		entry, err := find(name)
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		sampler, err := entry.Open(s)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open meter %s: %w", name, err), r.Close())
		}
		r.add(name, sampler)
	}
	return r, nil
}

func (r *Recorder) add(name string, s Sampler) {
	keys := s.Keys()
	run := openMeter{name: name, sampler: s, keys: keys, level: make([]bool, len(keys)), now: make([]int64, len(keys)), arms: make([]account, len(r.arms))}
	if some, ok := s.(leveled); ok {
		for k := range keys {
			run.level[k] = some.Level(k)
		}
	}
	for i := range run.arms {
		run.arms[i].begin = make([]int64, len(keys))
		run.arms[i].sum = make([]int64, len(keys))
	}
	r.runs = append(r.runs, run)
}

// Begin samples at the start of a slice of an arm. A second Begin without an
// End in between starts anew: the slice before it broke.
//
// Meters are read in the order of the table at the end of a slice and in
// reverse at its start, so that the first meter's span, which is the CPU's,
// holds none of the others' own cost.
func (r *Recorder) Begin(arm int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if arm < 0 || arm >= len(r.arms) {
		return
	}
	for i := len(r.runs) - 1; i >= 0; i-- {
		run := &r.runs[i]
		a := &run.arms[arm]
		if some, ok := run.sampler.(growing); ok && a.slices == 0 {
			run.grow(some, arm)
		}
		a.open = true
		a.started = time.Now()
		if err := run.sampler.Sample(arm, a.begin); err != nil {
			a.open = false
			a.fail(err)
		}
	}
}

// End samples at the end of a slice and adds the differences to the arm. An
// End without a Begin is ignored.
func (r *Recorder) End(arm int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if arm < 0 || arm >= len(r.arms) {
		return
	}
	for i := range r.runs {
		run := &r.runs[i]
		a := &run.arms[arm]
		if !a.open {
			continue
		}
		a.open = false
		now := time.Now()
		if err := run.sampler.Sample(arm, run.now); err != nil {
			a.fail(err)
			continue
		}
		for k, v := range run.now {
			if run.level[k] {
				a.sum[k] = max(a.sum[k], v)
				continue
			}
			a.sum[k] += v - a.begin[k]
		}
		a.wall += now.Sub(a.started)
		a.slices++
	}
}

// grow makes room for what has come up. In a slice of another arm that runs, it counts from now.
func (run *openMeter) grow(some growing, arm int) {
	if err := some.Refresh(); err != nil {
		run.arms[arm].fail(err)
	}
	more := len(run.sampler.Keys()) - len(run.keys)
	if more == 0 {
		return
	}
	run.keys = run.sampler.Keys()
	run.level = append(run.level, make([]bool, more)...)
	run.now = append(run.now, make([]int64, more)...)
	if err := run.sampler.Sample(arm, run.now); err != nil {
		run.arms[arm].fail(err)
	}
	for i := range run.arms {
		a := &run.arms[i]
		a.begin = append(a.begin, run.now[len(run.now)-more:]...)
		a.sum = append(a.sum, make([]int64, more)...)
	}
}

func (a *account) fail(err error) {
	a.failed++
	a.err = err
}

// Meters gives the sums, one for each meter and arm that had a slice and what the
// meter reads; Cell and
// Series are left to the caller. When the sample of a slice failed there are no
// values, since what is left would be divided by the work of all slices; the
// resolution tells of it.
func (r *Recorder) Meters() []result.Meter {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []result.Meter
	for i := range r.runs {
		run := &r.runs[i]
		for arm := range run.arms {
			a := &run.arms[arm]
			if a.slices+a.failed == 0 {
				continue
			}
			if some, ok := run.sampler.(partial); ok && !some.Has(arm) {
				continue
			}
			out = append(out, result.Meter{
				Arm: r.arms[arm].Name, Machine: r.machine, Name: run.name,
				WallNs: a.wall.Nanoseconds(), Values: run.values(a), Resolution: run.resolution(a),
			})
		}
	}
	return out
}

// values gives the sums of an arm by key, nil when there are none.
func (run *openMeter) values(a *account) map[string]int64 {
	if a.slices == 0 || a.failed > 0 {
		return nil
	}
	values, least := map[string]int64{}, int64(0)
	some, isSparse := run.sampler.(sparse)
	if isSparse {
		least = max(1, int64(some.Least()*float64(a.wall.Nanoseconds())))
	}
	for k, key := range run.keys {
		if isSparse && a.sum[k] < least {
			continue
		}
		values[key] = a.sum[k]
	}
	return values
}

func (run *openMeter) resolution(a *account) string {
	if a.failed == 0 {
		return run.sampler.Resolution()
	}
	return fmt.Sprintf("%s; %d of %d slices not read: %v", run.sampler.Resolution(), a.failed, a.slices+a.failed, a.err)
}

// Close closes the meters.
func (r *Recorder) Close() error {
	var errs []error
	for _, run := range r.runs {
		errs = append(errs, run.sampler.Close())
	}
	r.runs = nil
	return errors.Join(errs...)
}
