package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"time"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/verify"
	"github.com/venturi-net/venturi/result"
)

const (
	rewriteEvery = time.Second
	// rewriteRounds are as many slices of each load as take a second and more: what a
	// rewrite costs is in some of them. They are no longer than elsewhere, because at
	// the ends of each the receiver says a word, which a flow that goes one way waits
	// for after a rewrite.
	rewriteRounds = 24
	// rewrittenChains are those of the table that is rewritten: what kube-proxy has
	// for two or three Services.
	rewrittenChains = 10
)

// rewriteLimits are ratios to the host network while rules are rewritten.
var rewriteLimits = []struct {
	load  string
	below bool
	limit float64
}{{"tcp_lat", true, 0.95}, {"udp_lat", true, 0.93}, {"udp_bw", false, 1.15}, {"tcp_bw", false, 1.02}}

// meanFigure is the mean of all slices: the medians of round trips and of slices would
// not show those that a rewrite delayed.
var meanFigure = figureOf{
	func(s *result.Slice, m result.Metric) (float64, bool) {
		if m == result.OneWay {
			return s.Mean()
		}
		return s.Value(m)
	},
	func(mine, host []float64) (path, ratio float64) {
		total := func(x []float64) (sum float64) {
			for _, v := range x {
				sum += v
			}
			return sum
		}
		return math.Log(total(mine) / float64(len(mine))), math.Log(total(mine) / total(host))
	},
}

// rewrites measures the fast path while rules of the machines are rewritten once a
// second, and while they are left alone, in turn.
func rewrites(ctx context.Context, w io.Writer, h compare.Host, budget time.Duration, seed uint64) (limits []verify.Requirement, err error) {
	const path = "vxlan+fast"
	q := fastRequest([]string{path}, fastServices, seed)
	q.Loads, q.NoCopy, q.Series, q.Rounds = fastLoads, true, 1, rewriteRounds
	b, err := verify.OpenComparer(ctx, q, h)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	r, err := newRewriter(b.Session.Lab())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	by := &comparisonSampler{comparer: b, request: q, path: path, figure: meanFigure}
	s := &states{names: []string{"quiet", "rewriting"}, measure: by.measure,
		enter: func(ctx context.Context, state int) error {
			if state == 0 {
				return r.rest()
			}
			return r.begin(ctx)
		}}
	seen, err := s.run(ctx, budget, seed)
	if err = errors.Join(err, r.rest()); err != nil {
		return nil, err
	}
	fmt.Fprintf(w, "%d Services, %s; rules rewritten %d times on each machine, every %s; %d times each in turn for %d slices of each load\n\n",
		fastServices, path, r.times, rewriteEvery, len(seen[0]), rewriteRounds)
	fmt.Fprintf(w, "%-10s %-26s %-26s %s\n", "load", "quiet, to host", "rewriting, to host", "rewriting, to quiet")
	for _, load := range fastLoads {
		fmt.Fprintf(w, "%-10s %-26s %-26s %s\n", load, interval(ratioToHost(seen[0], load)), interval(ratioToHost(seen[1], load)), interval(ratioBetween(seen[1], seen[0], load, false)))
	}
	fmt.Fprintln(w, "\nmeans, where other sections have medians: what a rewrite costs is in a few slices")
	return judgeRewrites(path, seen[1]), nil
}

// judgeRewrites holds a path, while rules were rewritten, against the limits.
func judgeRewrites(path string, seen []sample) (limits []verify.Requirement) {
	for _, of := range rewriteLimits {
		ratio, what := ratioToHost(seen, of.load), fmt.Sprintf("rewrites: %s %s", path, of.load)
		text := fmt.Sprintf("%s: %s of the host network, %s", what, interval(ratio), boundText(of.below, of.limit))
		limits = append(limits, ratioLimits(what, text, ratio, meetsLimit(ratio, of.limit, of.below))...)
	}
	return limits
}

// rewriter rewrites a table of its own on the machines of a lab.
type rewriter struct {
	spaces []*netcfg.Namespace
	stop   context.CancelFunc // nil: it rests
	done   chan error
	times  int
}

func newRewriter(l *lab.Lab) (r *rewriter, err error) {
	r = new(rewriter)
	for i := range l.Machines {
		space, err := l.Open(i)
		if err != nil {
			return nil, errors.Join(err, r.close())
		}
		r.spaces = append(r.spaces, space)
	}
	return r, nil
}

// begin starts to rewrite the table every second, until rest is called.
func (r *rewriter) begin(ctx context.Context) error {
	if r.stop != nil {
		return nil
	}
	ctx, r.stop = context.WithCancel(ctx)
	r.done = make(chan error, 1)
	go func() {
		every := time.NewTicker(rewriteEvery)
		defer every.Stop()
		for {
			for _, space := range r.spaces {
				if err := space.RewriteTable(rewritten); err != nil {
					r.done <- err
					return
				}
			}
			r.times++
			select {
			case <-ctx.Done():
				r.done <- nil
				return
			case <-every.C:
			}
		}
	}()
	return nil
}

// rest stops rewriting, and returns its error.
func (r *rewriter) rest() error {
	if r.stop == nil {
		return nil
	}
	r.stop()
	r.stop = nil
	return <-r.done
}

func (r *rewriter) close() error {
	err := r.rest()
	for _, space := range r.spaces {
		space.Close()
	}
	return err
}

// rewritten is the table: chains that no packet comes to, as those of a Service that
// nobody talks to.
var rewritten = func() netcfg.Table {
	t := netcfg.Table{Name: "venturi-rewritten"}
	for i := range rewrittenChains {
		t.Chains = append(t.Chains, netcfg.Chain{
			Name:  fmt.Sprintf("chain-%d", i),
			Rules: []netcfg.Rule{{netcfg.Dst(netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 51, 100, byte(i)}), 32)), netcfg.Return()}},
		})
	}
	return t
}()
