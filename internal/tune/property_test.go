package tune

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/testenv"
)

// How many sequences are played, and one alone that is to be repeated.
const (
	sequencesVariable = "VENTURI_UNDO_SEQUENCES"
	seedVariable      = "VENTURI_UNDO_SEED"
)

// Whatever is set, and wherever the process is killed: undo brings every byte
// back. Sequences are played one after the other in the same testbed, for each
// must leave it as it was.
func TestExactUndo(t *testing.T) {
	testenv.Root(t)
	sequences, first, players := 100, uint64(0), 6
	if testenv.Long() {
		sequences = 1000
	}
	if text := os.Getenv(seedVariable); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s=%s is no seed", seedVariable, text)
		}
		sequences, first, players = 1, n, 1
	}
	if text := os.Getenv(sequencesVariable); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("%s=%s is no number of sequences", sequencesVariable, text)
		}
		sequences, players = n, 6
	}
	program := testenv.RoleCommand(t, "child")
	var total tally
	var group sync.WaitGroup
	seeds := make(chan uint64)
	for range players {
		p := newRunner(t, program)
		group.Go(func() {
			for seed := range seeds {
				if total.failed() < 3 {
					total.add(p.play(seed))
				}
			}
			p.end()
		})
	}
	for i := range uint64(sequences) {
		seeds <- first + i
	}
	close(seeds)
	group.Wait()
	total.report(t)
	if first == 0 && sequences >= 100 && (len(total.sets) < 10 || len(total.kills) < len(points)) {
		t.Errorf("only %d knobs were set, and processes killed at %d of %d points", len(total.sets), len(total.kills), len(points))
	}
}

// tally is what came of sequences.
type tally struct {
	mu        sync.Mutex
	sequences int
	conflicts int
	kills     map[string]int
	sets      map[string]int
	wrong     []string
}

// outcome is what came of one.
type outcome struct {
	kills     []string
	sets      map[string]int
	conflicts int
	wrong     string
}

func (s *tally) add(r outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kills == nil {
		s.kills, s.sets = map[string]int{}, map[string]int{}
	}
	s.sequences++
	s.conflicts += r.conflicts
	for _, point := range r.kills {
		s.kills[point]++
	}
	for name, n := range r.sets {
		s.sets[name] += n
	}
	if r.wrong != "" {
		s.wrong = append(s.wrong, r.wrong)
	}
}

func (s *tally) failed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.wrong)
}

func (s *tally) report(t *testing.T) {
	var b strings.Builder
	kills := 0
	for _, n := range s.kills {
		kills += n
	}
	fmt.Fprintf(&b, "%d sequences, %d processes killed, %d changes by somebody else left alone, %d differences\n", s.sequences, kills, s.conflicts, len(s.wrong))
	for _, point := range points {
		fmt.Fprintf(&b, "  killed at %-16s %6d\n", point, s.kills[point])
	}
	for _, name := range slices.Sorted(maps.Keys(s.sets)) {
		fmt.Fprintf(&b, "  set %-20s %6d\n", name, s.sets[name])
	}
	t.Log(b.String())
	for _, wrong := range s.wrong {
		t.Error(wrong)
	}
}

// runner plays sequences in a testbed of its own.
type runner struct {
	t       testing.TB
	program []string
	testbed *testbed
	file    string
	initial string

	cmd *exec.Cmd // the child that waits for its next order
	in  io.WriteCloser
	out *bufio.Reader
}

func newRunner(t testing.TB, program []string) *runner {
	p := &runner{t: t, program: program, testbed: newTestbed(t)}
	p.testbed.prepare(t)
	p.file = p.testbed.save(t)
	p.initial = p.testbed.snapshot(t)
	if again := p.testbed.snapshot(t); again != p.initial {
		t.Fatalf("the testbed changes by itself:\n%s", differences(p.initial, again))
	}
	return p
}

// send has a child carry out an order. Killed: it died of it, as it was told to.
func (p *runner) send(o childOrder) (a answer, killed bool, err error) {
	if p.cmd == nil {
		p.cmd = exec.Command(p.program[0], append(p.program[1:], p.file)...)
		p.cmd.Stderr = os.Stderr
		if p.in, err = p.cmd.StdinPipe(); err != nil {
			return a, false, err
		}
		out, err := p.cmd.StdoutPipe()
		if err != nil {
			return a, false, err
		}
		p.out = bufio.NewReader(out)
		if err := p.cmd.Start(); err != nil {
			return a, false, err
		}
	}
	text, err := json.Marshal(o)
	if err != nil {
		return a, false, err
	}
	if _, err := fmt.Fprintf(p.in, "%s\n", text); err != nil {
		return a, false, err
	}
	line, err := p.out.ReadBytes('\n')
	if errors.Is(err, io.EOF) {
		err = p.cmd.Wait()
		p.cmd = nil
		if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() == -1 && o.Point != "" {
			return a, true, nil
		}
		return a, false, fmt.Errorf("the child ended: %w", err)
	}
	if err != nil {
		return a, false, err
	}
	return a, false, json.Unmarshal(line, &a)
}

// end lets the child go.
func (p *runner) end() {
	if p.cmd != nil {
		p.in.Close()
		_ = p.cmd.Wait()
		p.cmd = nil
	}
}

func (p *runner) play(seed uint64) (r outcome) {
	for _, name := range []string{"log", "others", "journal"} {
		if name != "journal" || seed%4 == 0 { // some find what others left in it
			os.RemoveAll(filepath.Join(p.testbed.folder, name))
		}
	}
	if err := p.sequence(seed, &r); err != nil {
		log, _ := os.ReadFile(filepath.Join(p.testbed.folder, "log"))
		r.wrong = fmt.Sprintf("sequence %d: %v\nIt was:\n%s\nTo repeat it: %s=%d go test -count=1 -run TestExactUndo ./internal/tune", seed, err, log, seedVariable, seed)
		// The next one gets a testbed that is as it should be.
		p.end()
		p.testbed = newTestbed(p.t)
		p.testbed.prepare(p.t)
		p.file, p.initial = p.testbed.save(p.t), p.testbed.snapshot(p.t)
	}
	return r
}

func (p *runner) sequence(seed uint64, r *outcome) error {
	random := rand.New(rand.NewPCG(seed, 7))
	o := childOrder{Seed: seed, ForeignEdits: random.IntN(5) == 0, Fault: faults[random.IntN(len(faults))], FaultAt: 1 + random.IntN(6)}
	if random.IntN(8) > 0 {
		o.Point = points[random.IntN(len(points))]
		o.Passes = random.IntN(4)
		if o.Point == points[7] {
			o.Passes = random.IntN(300) // there are many
		}
	}
	a, killed, err := p.send(o)
	if err != nil {
		return err
	}
	r.sets = a.Sets
	if killed {
		r.kills = append(r.kills, o.Point)
	} else {
		p.end() // a fresh one undoes
	}
	o.Fault, o.Undo, o.Point = "", true, ""
	if random.IntN(3) == 0 { // who undoes is killed too
		o.Point = points[3+random.IntN(len(points)-3)]
		o.Passes = random.IntN(3)
		if a, killed, err = p.send(o); err != nil {
			return err
		}
		if killed {
			r.kills = append(r.kills, o.Point)
		}
		o.Point = ""
	}
	if a, _, err = p.send(o); err != nil {
		return err
	}
	if err := p.checkForeignEdits(&o, a, r); err != nil {
		return err
	}
	if len(a.Errors) > 0 {
		return errors.New(strings.Join(a.Errors, "; "))
	}
	if diff := differences(p.initial, p.testbed.snapshot(p.t)); diff != "" {
		return fmt.Errorf("it is not as it was (-: before, +: after):\n%s", diff)
	}
	return nil
}

// checkForeignEdits looks that what somebody else wrote last stands, and puts it back.
func (p *runner) checkForeignEdits(o *childOrder, a answer, r *outcome) error {
	text, err := os.ReadFile(filepath.Join(p.testbed.folder, "others"))
	if errors.Is(err, os.ErrNotExist) {
		if len(a.Conflicts) > 0 {
			return fmt.Errorf("nobody else changed anything, and still there are conflicts: %v", a.Conflicts)
		}
		return nil
	}
	if err != nil {
		return err
	}
	settings := p.testbed.machine(func(b setting.Backend) setting.Backend { return b }).Settings
	stands := map[string]setting.Write{}
	for line := range strings.Lines(string(text)) {
		var w setting.Write
		if err := json.Unmarshal([]byte(line), &w); err != nil {
			return err
		}
		stands[w.Setting.ID()] = w
	}
	for _, w := range stands {
		now, err := settings.Read(w.Setting)
		if err != nil {
			return err
		}
		if !now.Equal(w.Value) {
			return fmt.Errorf("somebody else had set %s to %q, and now it is %q", w.Setting, w.Value, now)
		}
		r.conflicts++
	}
	o.Force = true
	if a, _, err := p.send(*o); err != nil || len(a.Errors)+len(a.Conflicts) > 0 {
		return fmt.Errorf("undo with force: %v %v %w", a.Errors, a.Conflicts, err)
	}
	return nil
}
