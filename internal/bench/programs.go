package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/load/engine"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/internal/verify"
)

// programBench measures how long the programs that carry packets take, beside an empty
// program.
//
// Nanoseconds say little: the same program takes twice as long in a slow phase of a
// virtual CPU, and the kernel's own clock around it is a good part of it. So an empty
// program is attached in front of the real one, at the same hook: both see the same
// packets, on the same core, a moment apart, timed by the kernel in the same way. The
// result is the ratio of the kernel's sums over one short slice of traffic, over many
// slices.
//
// The packets are real ones. If a program is run over one packet again and again, that
// packet grows and shrinks, its memory is warm, and no network card or socket takes part.
// The programs find packets of one flow by the core's copy of the flow; those of many
// flows in turn are looked up in the table.
type programBench struct {
	series, rounds int
	slice          time.Duration
	seed           uint64
}

// defaultPrograms is what the limits of programs are held against.
func defaultPrograms(seed uint64) programBench {
	return programBench{series: 12, rounds: 10, slice: 50 * time.Millisecond, seed: seed}
}

// programLimits are how many times as long as an empty one a program may take, for
// UDP packets of 1 byte of one flow. Of many in turn, what counts is their latency,
// see [manyFlows].
var programLimits = []struct {
	program, load string
	limit         float64
}{
	{"from_pod", "udp_bw", 3.5},
	{"from_wire", "udp_bw", 2.8},
}

// programHead is for how long packets go before each slice.
const programHead = 5 * time.Millisecond

// programLoads are what programs are timed under, with as many flows at a time.
var programLoads = []struct {
	load        string
	size, flows int
}{{"udp_bw", 1, 1}, {"tcp_bw", 65536, 1}, {"udp_bw", 1, liveFlows}}

// check times the programs, prints the ratios on w, and gives the limits.
func (c programBench) check(ctx context.Context, w io.Writer, h compare.Host) (limits []verify.Requirement, err error) {
	unlock, err := lab.LockMeasure(ctx, true, "venturi-bench fast", nil)
	if err != nil {
		return nil, err
	}
	defer unlock()
	counting, err := ebpf.EnableStats(0) // BPF_STATS_RUN_TIME
	if err != nil {
		return nil, fmt.Errorf("enable the kernel's statistics of programs: %w", err)
	}
	defer func() { err = errors.Join(err, counting.Close()) }()
	fmt.Fprintf(w, "programs; time of a run as a ratio to that of an empty program on the same packets\n\n")
	fmt.Fprintf(w, "%-12s %-10s %-8s %-10s %-24s %8s %8s\n", "path", "load", "flows", "program", "ratio", "ns", "empty")
	for _, path := range []string{"vxlan+fast", "routed+fast"} {
		timed, err := c.path(ctx, h, path)
		if err != nil {
			return nil, fmt.Errorf("time the programs of %s: %w", path, err)
		}
		for _, t := range timed {
			fmt.Fprintf(w, "%-12s %-10s %-8d %-10s %-24s %8.0f %8.0f\n", path, t.load, t.flows, t.program, interval(t.ratio), t.ns, t.empty)
			limits = append(limits, t.requirements(path)...)
		}
	}
	fmt.Fprintln(w)
	return limits, nil
}

// programTime is the run time of a program, beside that of an empty one.
type programTime struct {
	program, load string
	flows         int
	ratio         *stats.Ratio
	ns, empty     float64 // medians over slices
}

// requirements compares the time with its limit, if there is one.
func (t programTime) requirements(path string) (limits []verify.Requirement) {
	for _, l := range programLimits {
		if l.program == t.program && l.load == t.load && t.flows == 1 {
			what := path + ": " + t.program
			text := fmt.Sprintf("%s takes %s of an empty program, at most %.1f", what, interval(t.ratio), l.limit)
			limits = append(limits, ratioLimits(what, text, t.ratio, meetsLimit(t.ratio, l.limit, true))...)
		}
	}
	return limits
}

// path times the programs of one path.
func (c programBench) path(ctx context.Context, h compare.Host, path string) (all []programTime, err error) {
	name := h.LabName
	if name == "" {
		name = "programs"
	}
	l, err := lab.Up(ctx, lab.Options{Name: name, Paths: []string{path}, Program: h.Program})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Down()) }()
	var both []*programPair
	defer func() {
		for _, b := range both {
			err = errors.Join(err, b.close())
		}
	}()
	plan := load.Plan{
		Slice: c.slice, Head: programHead, ClientCPU: 0, ServerCPU: 1,
		Arms: []load.Arm{{Name: path, Ends: []load.Pair{{From: l.Arms[0].Client(), To: l.Arms[0].Server()}}, ServerPort: 21000, ClientPort: 22000}},
	}
	for range c.rounds {
		plan.Schedule = append(plan.Schedule, []int{0})
	}
	// A pod is known, and has programs, when it has sent something.
	plan.Load, plan.Size, plan.Flows = "udp_lat", 1, 1
	if err := runSeries(ctx, plan, nil); err != nil {
		return nil, err
	}
	// Traffic goes from the first machine to the second.
	for i, of := range []struct {
		program string
		carried bpf.Count
	}{{"from_pod", bpf.CarriedOut}, {"from_wire", bpf.CarriedIn}} {
		b, err := newProgramPair(l.Arms[0].Pins[i], of.program, l.Machines[i].Namespace, of.carried)
		if err != nil {
			return nil, err
		}
		both = append(both, b)
	}
	rng := rand.New(rand.NewPCG(c.seed, 0))
	for _, of := range programLoads {
		for _, b := range both {
			b.series = nil
		}
		if of.flows > 1 {
			err = c.roundRobin(ctx, l.Arms[0], both)
		} else {
			plan.Load, plan.Size = of.load, of.size
			err = c.singleFlow(ctx, plan, rng, both)
		}
		if err != nil {
			return nil, err
		}
		for _, b := range both {
			all = append(all, b.summarize(of.load, of.flows))
		}
	}
	return all, nil
}

// singleFlow runs all series of one flow, each on its own sockets and ports.
func (c programBench) singleFlow(ctx context.Context, plan load.Plan, rng *rand.Rand, both []*programPair) error {
	for range c.series {
		plan.Token = rng.Uint64()
		plan.Arms[0].ServerPort++
		plan.Arms[0].ClientPort++
		if err := runSeries(ctx, plan, both); err != nil {
			return err
		}
	}
	return nil
}

// roundRobin runs all series of round-robin flows, on the same sockets: learning all of
// them takes longer than a series.
func (c programBench) roundRobin(ctx context.Context, arm lab.Arm, both []*programPair) (err error) {
	l, err := openFlowSet(arm)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := l.learn(ctx); err != nil {
		return err
	}
	for range c.series {
		for _, b := range both {
			b.series = append(b.series, nil)
		}
		for range c.rounds {
			if err := errors.Join(ctx.Err(), l.Send(programHead)); err != nil {
				return err
			}
			pairObserver(both).Begin(0)
			if err := l.Send(c.slice); err != nil {
				return err
			}
			pairObserver(both).End(0)
		}
	}
	return nil
}

// runSeries runs one series of slices.
func runSeries(ctx context.Context, plan load.Plan, both []*programPair) (err error) {
	server, err := engine.Serve(plan, nil, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	for _, b := range both {
		b.series = append(b.series, nil)
	}
	results, err := engine.Run(ctx, plan, pairObserver(both), nil)
	for _, r := range results {
		err = errors.Join(err, r.Err)
	}
	return err
}

// programPair is a program of a fast path, and an empty program that sees the same
// packets.
type programPair struct {
	name        string
	pins        string
	counts      bpf.Count
	real, empty *ebpf.Program
	attached    io.Closer
	from        runtimeSums
	series      [][]slice
}

// runtimeSums are the kernel's statistics of both programs.
type runtimeSums struct {
	real, empty *ebpf.ProgramStats
	carried     uint64
	err         error
}

// slice is the time of one run on average, ns.
type slice struct{ real, empty float64 }

func newProgramPair(pins, name, namespace string, counts bpf.Count) (b *programPair, err error) {
	var links []string
	for end := time.Now().Add(host.ScaleTimeout(10 * time.Second)); len(links) != 1; {
		if time.Now().After(end) {
			return nil, fmt.Errorf("%s is attached at %d places, not one", name, len(links))
		}
		time.Sleep(10 * time.Millisecond)
		links, _ = sanitize.Files(pins, name+"_*") // the pattern is sound
	}
	l, err := link.LoadPinnedLink(links[0], nil)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	info, err := l.Info()
	if err != nil {
		return nil, err
	}
	b = &programPair{name: name, pins: pins, counts: counts}
	if b.real, err = ebpf.NewProgramFromID(info.Program); err != nil {
		return nil, err
	}
	b.empty, err = ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()},
	})
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	if b.attached, err = kernel.AttachTCXHead(namespace, b.empty, int(info.TCX().Ifindex), kernel.Ingress); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *programPair) close() (err error) {
	if b.attached != nil {
		err = b.attached.Close()
	}
	return errors.Join(err, b.empty.Close(), b.real.Close())
}

func (b *programPair) read() (s runtimeSums) {
	var err error
	s.real, err = b.real.Stats()
	s.err = errors.Join(s.err, err)
	s.empty, err = b.empty.Stats()
	s.err = errors.Join(s.err, err)
	counted, err := fastpath.ReadStats(b.pins)
	if s.err = errors.Join(s.err, err); s.err == nil {
		s.carried = counted[b.counts].Packets
	}
	return s
}

// addSlice adds what was counted since the slice began. It skips slices in which some
// packets took the slow path, and those with hardly any packets.
func (b *programPair) addSlice(to runtimeSums) {
	if b.from.err != nil || to.err != nil {
		return
	}
	runs, empty := float64(to.real.RunCount-b.from.real.RunCount), float64(to.empty.RunCount-b.from.empty.RunCount)
	if runs < 100 || empty < 100 || float64(to.carried-b.from.carried) < 0.98*runs {
		return
	}
	last := len(b.series) - 1
	b.series[last] = append(b.series[last], slice{
		float64(to.real.Runtime-b.from.real.Runtime) / runs, float64(to.empty.Runtime-b.from.empty.Runtime) / empty,
	})
}

func (b *programPair) summarize(load string, flows int) programTime {
	t := programTime{program: b.name, load: load, flows: flows}
	var logs [][]float64
	var real, empty []float64
	for _, s := range b.series {
		var of []float64
		for _, one := range s {
			of = append(of, math.Log(one.real/one.empty))
			real, empty = append(real, one.real), append(empty, one.empty)
		}
		logs = append(logs, of)
	}
	if r, ok := stats.FromRounds(logs, stats.Design{Confidence: 0.95}); ok {
		t.ratio = &r
		t.ns, t.empty = stats.Median(real), stats.Median(empty)
	}
	return t
}

// pairObserver reads the counters when a slice begins and ends.
type pairObserver []*programPair

func (w pairObserver) Begin(int) {
	for _, b := range w {
		b.from = b.read()
	}
}

func (w pairObserver) End(int) {
	for _, b := range w {
		b.addSlice(b.read())
	}
}
