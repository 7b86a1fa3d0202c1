package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/manypods"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/internal/verify"
)

// podsBench measures the fast path's daemon on nodes with many pods and peers: the median of several starts
// is held against the limits.
type podsBench struct {
	kinds  []string
	nodes  []podsNode
	starts int
	idle   time.Duration // how long it is measured after each start
}

// podsNode is a node with its limits; 0 means no limit.
type podsNode struct {
	pods, peers int
	first, all  time.Duration // from the start until a first pod is carried, and until all are
	idle        float64       // share of a core
	memory      int64         // bytes
}

const megabyte = 1_000_000

func defaultPods() podsBench {
	const first = 100 * time.Millisecond
	return podsBench{
		kinds: []string{fastpath.Routed, fastpath.VXLAN},
		nodes: []podsNode{
			{1, 1, first, 0, 0.005, 40 * megabyte},
			{1000, 1000, first, 2 * time.Second, 0.005, 40 * megabyte},
			{250, 1000, 0, 0, 0.01, 60 * megabyte},
		},
		starts: 3, idle: 20 * time.Second,
	}
}

// check measures all nodes, one after the other, and prints what it saw on w.
func (c podsBench) check(ctx context.Context, w io.Writer, h compare.Host) (limits []verify.Requirement, err error) {
	fmt.Fprintf(w, "medians of %d starts; pods and peers send nothing\n\n", c.starts)
	fmt.Fprintf(w, "%-8s %6s %6s %15s %12s %10s %12s %10s %14s\n", "kind", "pods", "peers", "first pod, ms", "CPU, ms", "all, ms", "idle, %", "MB", "private, MB")
	for _, kind := range c.kinds {
		for _, node := range c.nodes {
			f, err := c.measure(ctx, h, kind, node)
			if err != nil {
				return nil, fmt.Errorf("measure %s with %d pods: %w", kind, node.pods, err)
			}
			fmt.Fprintf(w, "%-8s %6d %6d %15d %12d %10d %12.2f %10.1f %14.1f\n", kind, node.pods, node.peers,
				f.First.Milliseconds(), f.CPU.Milliseconds(), f.All.Milliseconds(), 100*f.Idle, float64(f.Memory)/megabyte, float64(f.Private)/megabyte)
			limits = append(limits, node.requirements(kind, f)...)
		}
	}
	return limits, nil
}

// measure raises a node in a lab, which removes it afterwards, and gives the medians of its starts.
func (c podsBench) measure(ctx context.Context, h compare.Host, kind string, node podsNode) (f manypods.Figures, err error) {
	l, err := lab.Up(ctx, lab.Options{Name: h.LabName, Paths: []string{"host"}, Program: h.Program})
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, l.Down()) }()
	netns, err := l.Create("node")
	if err != nil {
		return f, err
	}
	defer netns.Close()
	ends, err := l.Create("pods")
	if err != nil {
		return f, err
	}
	defer ends.Close()
	n, err := manypods.Raise(netns, ends, l.Folder(), kind, node.pods, node.peers)
	if err != nil {
		return f, err
	}
	if err := n.AwaitDevices(ctx); err != nil {
		return f, err
	}
	var starts []manypods.Figures
	for range c.starts {
		f, err := n.Measure(ctx, h.Program, c.idle)
		if err != nil {
			return f, err
		}
		starts = append(starts, f)
	}
	return medians(starts), nil
}

// medians gives the median of each figure.
func medians(starts []manypods.Figures) manypods.Figures {
	median := func(of func(manypods.Figures) float64) float64 {
		var all []float64
		for _, f := range starts {
			all = append(all, of(f))
		}
		return stats.Median(all)
	}
	return manypods.Figures{
		First:   time.Duration(median(func(f manypods.Figures) float64 { return float64(f.First) })),
		All:     time.Duration(median(func(f manypods.Figures) float64 { return float64(f.All) })),
		CPU:     time.Duration(median(func(f manypods.Figures) float64 { return float64(f.CPU) })),
		Idle:    median(func(f manypods.Figures) float64 { return f.Idle }),
		Memory:  int64(median(func(f manypods.Figures) float64 { return float64(f.Memory) })),
		Private: int64(median(func(f manypods.Figures) float64 { return float64(f.Private) })),
	}
}

// requirements holds a daemon's figures against the limits of its node.
func (n podsNode) requirements(kind string, f manypods.Figures) (limits []verify.Requirement) {
	what := fmt.Sprintf("pods: %s, pods %d, peers %d", kind, n.pods, n.peers)
	within := func(of string, took, limit time.Duration) {
		if limit > 0 {
			limits = append(limits, verify.Requirement{
				Text:  fmt.Sprintf("%s: %s carried after %d ms, at most %d", what, of, took.Milliseconds(), limit.Milliseconds()),
				Holds: took <= limit,
			})
		}
	}
	within("the first pod is", f.First, n.first)
	within("all pods are", f.All, n.all)
	return append(limits, verify.Requirement{
		Text: fmt.Sprintf("%s: an idle daemon takes %.2f %% of a core, less than %.1f", what, 100*f.Idle, 100*n.idle), Holds: f.Idle < n.idle,
	}, verify.Requirement{
		Text: fmt.Sprintf("%s: an idle daemon has %.1f MB resident, less than %d", what, float64(f.Memory)/megabyte, n.memory/megabyte), Holds: f.Memory < n.memory,
	})
}
