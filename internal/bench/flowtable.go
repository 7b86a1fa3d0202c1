package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sync/errgroup"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/internal/verify"
)

// tableFlows are how many flows the table holds, beside that which is measured.
var tableFlows = []int{0, 999, 999_999}

// sameLatency is how near latencies with many flows are to come to those with few.
const sameLatency = 0.03

// manySizes measures what flows cost others, those that are in the tables and those that are new.
func manySizes(ctx context.Context, w io.Writer, h compare.Host, budget time.Duration, seed uint64) ([]verify.Requirement, error) {
	limits, err := tableSizes(ctx, w, h, budget, seed)
	if err != nil {
		return nil, err
	}
	more, err := floodedStream(ctx, w, h, budget/4, seed)
	return append(limits, more...), err
}

// tableSizes measures latency with more and more flows in the tables of both machines:
// first of one flow, of which the cores keep a copy, then of many in turn, each of which
// is looked up.
func tableSizes(ctx context.Context, w io.Writer, h compare.Host, budget time.Duration, seed uint64) (limits []verify.Requirement, err error) {
	const path = "vxlan+fast"
	q := fastRequest([]string{path}, 0, seed)
	q.Loads, q.NoCopy, q.Series, q.Rounds = fastLatencies, true, 1, 16
	b, err := verify.OpenComparer(ctx, q, h)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	tables, err := newBallasts(b.Session.Lab().Arms)
	if err != nil {
		return nil, err
	}
	defer tables.close()
	by := &comparisonSampler{comparer: b, request: q, path: path, figure: medianFigure}
	limits, err = oneFlow(ctx, w, by, tables, budget/2, seed)
	if err != nil {
		return nil, err
	}
	arms := b.Session.Lab().Arms
	many, err := manyFlows(ctx, w, arms, tables, budget/2, seed)
	if err != nil {
		return nil, err
	}
	learned, err := takeTurns(ctx, w, arms[1])
	return slices.Concat(limits, many, learned), err
}

// oneFlow measures the latency of one flow.
func oneFlow(ctx context.Context, w io.Writer, by *comparisonSampler, tables ballasts, budget time.Duration, seed uint64) (limits []verify.Requirement, err error) {
	var memory []uint64 // of the first machine's table, by state
	s := &states{measure: by.measure, enter: func(_ context.Context, state int) error {
		if err := tables.hold(tableFlows[state]); err != nil {
			return err
		}
		if state == len(memory) {
			taken, err := tables[0].memory()
			if err != nil {
				return err
			}
			memory = append(memory, taken)
		}
		return nil
	}}
	for _, n := range tableFlows {
		s.names = append(s.names, strings.TrimSuffix(fmt.Sprintf("%d flows", n+1), map[bool]string{true: "s"}[n == 0]))
	}
	seen, err := s.run(ctx, budget, seed)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(w, "%s, 0 Services, one flow that sends; %d times each in turn\n\n", by.path, len(seen[0]))
	fmt.Fprintf(w, "%-10s %-14s %-26s %s\n", "load", "in the table", "to host", "to 1 flow")
	for _, load := range fastLatencies {
		for i, name := range s.names {
			ratio := ratioBetween(seen[i], seen[0], load, true)
			fmt.Fprintf(w, "%-10s %-14s %-26s %s\n", load, name, interval(ratioToHost(seen[i], load)), interval(ratio))
			if i > 0 {
				limits = append(limits, judgeSame("flows: "+load+" with "+name, "that with 1", ratio)...)
			}
		}
	}
	last := len(tableFlows) - 1
	each := float64(memory[last]-memory[0]) / float64(tableFlows[last]-tableFlows[0])
	fmt.Fprintf(w, "\nmemory: %.0f bytes a flow; the table of a machine takes %d bytes with 1 flow and %d with %d\n\n",
		each, memory[0], memory[last], tableFlows[last]+1)
	return limits, nil
}

// judgeSame holds the ratio of two latencies that are to be the same.
func judgeSame(what, base string, r *stats.Ratio) []verify.Requirement {
	return ratioLimits(what, fmt.Sprintf("%s: %s of %s, within %.0f %%", what, interval(r), base, 100*sameLatency),
		r, meetsLimit(r, 1+sameLatency, true) && meetsLimit(r, 1-sameLatency, false))
}

const ipUDP = 17 // protocol number

// ballast are flows in a table that nobody uses, and that the daemon takes for live ones.
type ballast struct {
	table *ebpf.Map
	size  int
}

// ballasts are those of the machines of some arms' fast paths.
type ballasts []*ballast

func newBallasts(arms []lab.Arm) (all ballasts, err error) {
	for _, arm := range arms {
		for _, pins := range arm.Pins {
			table, err := ebpf.LoadPinnedMap(bpf.TableFile(pins, "flows"), nil)
			if err != nil {
				all.close()
				return nil, err
			}
			all = append(all, &ballast{table: table})
		}
	}
	return all, nil
}

// hold works on all machines at once: a million flows take seconds.
func (b ballasts) hold(flows int) error {
	var work errgroup.Group
	for _, one := range b {
		work.Go(func() error { return one.hold(flows) })
	}
	return work.Wait()
}

func (b ballasts) close() {
	for _, one := range b {
		one.table.Close()
	}
}

// flowBatch is how many flows one system call adds.
const flowBatch = 4096

// farTick is a tick far in the future: a flow that was carried then is not idle.
const farTick = 1 << 30

// hold adds or deletes flows until there are so many, and checks that all of the earlier
// ones were there.
func (b *ballast) hold(flows int) error {
	for b.size < flows {
		keys := ballastKeys(b.size, min(flowBatch, flows-b.size))
		values := make([]bpf.Flow, len(keys))
		for i := range values {
			values[i] = bpf.Flow{Epoch: 1, Used: farTick, Requested: farTick}
		}
		n, err := b.table.BatchUpdate(keys, values, nil)
		if b.size += n; err != nil {
			return fmt.Errorf("add flows to a table with %d: %w", b.size, err)
		}
	}
	for b.size > flows {
		first := max(flows, b.size-flowBatch)
		keys := ballastKeys(first, b.size-first)
		n, err := b.table.BatchDelete(keys, nil)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("flow %d of those added is missing", first+n)
		}
		if err != nil {
			return fmt.Errorf("take flows out of a table with %d: %w", b.size, err)
		}
		b.size = first
	}
	return nil
}

// memory is what the table takes, bytes.
func (b *ballast) memory() (uint64, error) {
	info, err := b.table.Info()
	if err != nil {
		return 0, err
	}
	taken, ok := info.Memlock()
	if !ok {
		return 0, errors.New("the kernel does not report the memory of a table")
	}
	return taken, nil
}

// ballastKeys are some of the flows, by number.
func ballastKeys(first, n int) []bpf.FlowKey {
	keys := make([]bpf.FlowKey, n)
	for i := range keys {
		number := uint32(first + i)
		keys[i] = bpf.FlowKey{TenantProto: ipUDP, Local: number, Remote: ^number, LocalPort: uint16(number), RemotePort: uint16(number >> 8)}
	}
	return keys
}
