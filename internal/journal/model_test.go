package journal

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/setting"
)

// device plays a network device whose driver forgets things: new channels make
// its queues anew, new rings reset its coalescing, and odd sizes are rounded.
type device struct {
	values   map[string]string
	steps    int // reads and writes until it ends the process; 0: never
	fail     int // the write that goes wrong, counted down; 0: none
	failMode func(d *device, key, value string) error
}

func newDevice() *device {
	d := &device{values: map[string]string{"chan": "2", "ring": "256", "coal": "8", "mtu": "1500", "fixed": "1"}}
	d.queues()
	d.values["q0"], d.values["q1"] = "f", "3"
	return d
}

func (d *device) queues() {
	n, _ := strconv.Atoi(d.values["chan"])
	for i := range 8 {
		delete(d.values, fmt.Sprintf("q%d", i))
		if i < n {
			d.values[fmt.Sprintf("q%d", i)] = "0"
		}
	}
}

// killed is what the device panics with when it ends the process.
type killed struct{}

func (d *device) step() {
	if d.steps > 0 {
		if d.steps--; d.steps == 0 {
			panic(killed{})
		}
	}
}

func (d *device) set(key, value string) {
	switch key {
	case "fixed":
		return // it says yes, and does nothing
	case "ring":
		n, _ := strconv.Atoi(value)
		value = strconv.Itoa((n + 7) / 8 * 8)
		d.values["coal"] = "8"
	}
	changed := d.values[key] != value
	d.values[key] = value
	if key == "chan" && changed {
		d.queues()
	}
}

func (d *device) backend() setting.Backend {
	return setting.Backend{
		Name: "device",
		Read: func(s setting.Setting) (setting.Value, error) {
			d.step()
			v, ok := d.values[s.Key]
			if !ok {
				return setting.Value{}, os.ErrNotExist
			}
			return setting.Text(v), nil
		},
		Write: func(s setting.Setting, v setting.Value) error {
			if _, ok := d.values[s.Key]; !ok {
				return os.ErrNotExist
			}
			d.step()
			defer d.step()
			if d.fail > 0 {
				if d.fail--; d.fail == 0 {
					return d.failMode(d, s.Key, v.String())
				}
			}
			d.set(s.Key, v.String())
			return nil
		},
		Matches: func(_ setting.Setting, asked, found setting.Value) bool {
			n, err := strconv.Atoi(asked.String())
			return err == nil && strconv.Itoa((n+7)/8*8) == found.String()
		},
		SideEffects: func(s setting.Setting) (around []setting.Setting, err error) {
			if s.Key != "chan" && s.Key != "ring" {
				return nil, nil
			}
			for _, key := range slices.Sorted(maps.Keys(d.values)) {
				if key != s.Key {
					around = append(around, setting.Setting{Backend: "device", Key: key})
				}
			}
			return around, nil
		},
	}
}

func (d *device) String() string {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(d.values)) {
		lines = append(lines, key+"="+d.values[key])
	}
	return strings.Join(lines, " ")
}

// shm is a folder in memory: what a test that kills does, only a process that
// ends would, and not a machine; so nothing needs to come to a disk.
func shm(t testing.TB) string {
	t.Helper()
	if _, err := os.Stat("/dev/shm"); err != nil {
		return t.TempDir()
	}
	folder, err := os.MkdirTemp("/dev/shm", "venturi-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	return folder
}

// world is a device and its journal, and what somebody does with them.
type world struct {
	t   testing.TB
	dev *device
	o   Options
	log []string
}

func newWorld(t testing.TB, folder string) *world {
	w := &world{t: t, dev: newDevice()}
	w.o = Options{Folder: folder, Settings: setting.NewSettings(w.dev.backend()), Boot: "this"}
	w.o.OnPoint = func(CrashPoint) { w.dev.step() }
	if err := os.RemoveAll(filepath.Join(folder, logName)); err != nil {
		t.Fatal(err)
	}
	return w
}

// process runs fn with the journal open, as a process of its own would: when it
// is killed, nothing of it is left but what it wrote.
func (w *world) process(fn func(*Journal) error) (dead bool, err error) {
	steps := w.dev.steps
	w.dev.steps = 0 // opening changes nothing, and adds a record at most
	j, err := Open(w.o)
	w.dev.steps = steps
	if err != nil {
		w.t.Fatal(err)
	}
	defer j.Close()
	defer func() {
		switch r := recover().(type) {
		case nil:
		case killed:
			dead = true
		default:
			panic(r)
		}
	}()
	return false, fn(j)
}

func deviceSetting(key string) setting.Setting { return setting.Setting{Backend: "device", Key: key} }

var values = map[string][]string{
	"chan": {"1", "2", "3", "4"}, "ring": {"256", "500", "1001"}, "coal": {"0", "8", "16"},
	"mtu": {"1500", "9000"}, "q0": {"0", "1", "f"}, "q1": {"0", "2", "3"}, "q3": {"0", "7"}, "fixed": {"1", "2"},
}

// act does something at random.
func (w *world) act(j *Journal, r *rand.Rand, txs *[]*Tx, entries *[]*Entry) error {
	keys := slices.Sorted(maps.Keys(values))
	note := func(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }
	switch n := r.IntN(10); {
	case n == 0 || len(*txs) == 0:
		note("begin")
		tx, err := j.Begin(0)
		if err != nil {
			return err
		}
		*txs = append(*txs, tx)
	case n < 6:
		tx := (*txs)[r.IntN(len(*txs))]
		key := keys[r.IntN(len(keys))]
		value := values[key][r.IntN(len(values[key]))]
		note("%d: set %s=%s", tx.ID(), key, value)
		e, err := tx.Set("", setting.Write{Setting: deviceSetting(key), Value: setting.Text(value)})
		if e != nil {
			*entries = append(*entries, e)
		}
		if err != nil && !errors.Is(err, errIgnored) && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, errInjected) {
			return err
		}
	case n < 8 && len(*entries) > 0:
		e := (*entries)[r.IntN(len(*entries))]
		on := r.IntN(2) == 0
		if e.State != Applied || j.h.nextChange(e, e.id) != nil {
			break
		}
		note("toggle %s %v", e.Setting.Key, on)
		if err := (*txs)[0].Toggle(e, on); err != nil {
			if conflict := new(ConflictError); errors.As(err, &conflict) || errors.Is(err, os.ErrNotExist) || errors.Is(err, errInjected) {
				return nil // another write of ours reset it, or took it away
			}
			return err
		}
	case n == 8:
		id := (*txs)[r.IntN(len(*txs))].ID()
		note("undo %d", id)
		if _, err := j.Undo([]int{id}, UndoOptions{}); err != nil {
			return err
		}
	}
	return nil
}

var errInjected = errors.New("injected")

// Whatever is done, and wherever it is killed: who undoes all of it finds the
// machine of before.
func TestUndoIsExact(t *testing.T) {
	folder := shm(t)
	sequences := 1500
	if testing.Short() {
		sequences = 300
	}
	for seed := range uint64(sequences) {
		if !exact(t, folder, seed) {
			return
		}
	}
}

func exact(t *testing.T, folder string, seed uint64) bool {
	w := newWorld(t, folder)
	before := w.dev.String()
	r := rand.New(rand.NewPCG(seed, 1))
	for range 1 + r.IntN(2) { // processes that are killed
		if r.IntN(4) > 0 {
			w.dev.steps = 1 + r.IntN(200)
		}
		if r.IntN(3) == 0 {
			w.dev.fail = 1 + r.IntN(6)
			w.dev.failMode = faults[r.IntN(len(faults))]
		}
		var txs []*Tx
		var entries []*Entry
		_, err := w.process(func(j *Journal) error {
			for range 1 + r.IntN(12) {
				if err := w.act(j, r, &txs, &entries); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, strings.Join(w.log, "\n"))
		}
		w.log = append(w.log, "process ends: "+w.dev.String())
		w.dev.fail = 0
	}
	w.dev.steps = r.IntN(100) // the first to undo may be killed too
	dead, err := w.process(func(j *Journal) error { return undoAll(j) })
	w.log = append(w.log, "undone once: "+w.dev.String())
	w.dev.steps = 0
	if dead {
		_, err = w.process(func(j *Journal) error { return undoAll(j) })
	}
	w.process(func(j *Journal) error {
		for _, t := range j.History().Txns {
			if err == nil && t.Open() {
				err = fmt.Errorf("transaction %d is open", t.ID)
			}
		}
		return nil
	})
	if after := w.dev.String(); err != nil || after != before {
		t.Errorf("seed %d: %v\n%s\nbefore %s\nafter  %s", seed, err, strings.Join(w.log, "\n"), before, after)
		return false
	}
	return true
}

// undoAll undoes all. Where it is not known whether we or somebody else changed
// something, it was us.
func undoAll(j *Journal) error {
	for {
		outcomes, err := j.Undo(nil, UndoOptions{})
		doubt := 0
		for _, o := range outcomes {
			conflict := new(ConflictError)
			if errors.As(o.Err, &conflict) && conflict.SideEffect != nil {
				doubt = o.Entry.Txn
			}
			err = errors.Join(err, o.Err)
		}
		if doubt == 0 {
			return err
		}
		if _, err := j.Undo([]int{doubt}, UndoOptions{Force: true}); err != nil {
			return err
		}
	}
}

// faults are ways in which a write can go wrong.
var faults = []func(d *device, key, value string) error{
	func(*device, string, string) error { return errInjected }, // nothing happened
	func(d *device, key, value string) error { // it happened, and it says no
		d.set(key, value)
		return errInjected
	},
	func(d *device, key, value string) error { // only what it resets happened
		if key == "chan" {
			d.queues()
		}
		return errInjected
	},
	func(*device, string, string) error { return nil }, // it says yes, and nothing happened
}
