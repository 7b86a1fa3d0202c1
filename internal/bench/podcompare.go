package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/bench/pods"
	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/verify"
)

// podCompare compares ways between pods that no path of a lab is.
type podCompare struct {
	name     string // of its section first
	services int
	path     string // that its lab has
	build    func(ctx context.Context, l *lab.Lab, program []string) ([]pods.Arm, error)
	loads    []pods.Load
	limits   []podLimit
}

// podLimit holds the ratio of an arm to another against a limit: of latencies at most that, of streams at
// least 1/limit. Without a limit the ratio is only shown.
type podLimit struct {
	arm, base string
	limit     float64
}

var (
	latencies = []pods.Load{pods.TCPLatency, pods.UDPLatency}
	allLoads  = append(latencies[:2:2], pods.TCPStream)
)

// What is asked for of them.
const (
	serviceLimit = 1.06 // of a Service, compared with its pod's own address
	versionLimit = 1.03 // of IPv6, compared with IPv4
	noSlower     = 1.00
)

var siblingLimits = []podLimit{
	{"bridge+fast", "bridge", noSlower},
	{"routed+fast", "routed", noSlower},
	{"routed+fast to a Service", "routed to a Service", noSlower},
	{"routed+fast to a Service", "routed+fast", serviceLimit},
}

var podCompares = []podCompare{
	{"siblings", 0, "routed", pods.Siblings, allLoads, siblingLimits},
	{"siblings, 1000 Services", fastServices, "routed", pods.Siblings, allLoads, siblingLimits},
	{"clusterip", 0, "vxlan+fast", clusterIP, latencies, []podLimit{{"vxlan+fast to a Service", "vxlan+fast", serviceLimit}}},
	{"clusterip, routed", 0, "routed+fast", clusterIP, latencies, []podLimit{{"routed+fast to a Service", "routed+fast", serviceLimit}}},
	{"ipv6", 0, "routed+fast", pods.BothVersions, allLoads, []podLimit{
		{pods.RoutedIPv6, pods.RoutedIPv4, versionLimit}, {pods.HostIPv6, pods.HostIPv4, 0}, {pods.RoutedIPv4, pods.HostIPv4, 0}, {pods.RoutedIPv6, pods.HostIPv6, 0},
	}},
}

func clusterIP(_ context.Context, l *lab.Lab, _ []string) ([]pods.Arm, error) {
	return pods.Services(l)
}

// podSection makes a section of all of its name.
func podSection(section string) func(context.Context, io.Writer, compare.Host, time.Duration, uint64) ([]verify.Requirement, error) {
	return func(ctx context.Context, w io.Writer, h compare.Host, budget time.Duration, seed uint64) (limits []verify.Requirement, err error) {
		for _, b := range podCompares {
			if name, _, _ := strings.Cut(b.name, ","); name != section {
				continue
			}
			rows, err := b.measure(ctx, h, pods.Plan{Budget: budget, Seed: seed, Series: minStates, Rounds: 8, Slice: 40 * time.Millisecond})
			if err != nil {
				return nil, err
			}
			limits = append(limits, b.print(w, rows)...)
		}
		return limits, nil
	}
}

func (b podCompare) measure(ctx context.Context, h compare.Host, p pods.Plan) (rows []pods.Row, err error) {
	c, err := verify.OpenComparer(ctx, fastRequest([]string{b.path}, b.services, p.Seed), h)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	cpus, err := host.AllowedCPUs()
	if err != nil {
		return nil, err
	}
	if p.Arms, err = b.build(ctx, c.Session.Lab(), h.Program); err != nil {
		return nil, err
	}
	p.Loads = b.loads
	p.ClientCPU, p.ServerCPU = compare.ChooseCPUs(cpus)
	return p.Run(ctx)
}

// print shows the figures of all arms, and the ratios that there are limits for.
func (b podCompare) print(w io.Writer, rows []pods.Row) (limits []verify.Requirement) {
	fmt.Fprintf(w, "%s: %d Services; medians\n\n", b.name, b.services)
	row := pods.Print(w, rows)
	fmt.Fprintf(w, "\n%-8s %-26s %-26s %s\n", "load", "way", "to", "ratio")
	for _, l := range b.loads {
		for _, of := range b.limits {
			r := ratioOf(row[l][of.arm].RatiosTo(row[l][of.base]))
			fmt.Fprintf(w, "%-8s %-26s %-26s %s\n", l, of.arm, of.base, interval(r))
			if of.limit == 0 {
				continue
			}
			limit, below, what := of.limit, l != pods.TCPStream, fmt.Sprintf("%s: %s of %s", b.name, l, of.arm)
			if !below {
				limit = 1 / limit
			}
			limits = append(limits, ratioLimits(what, fmt.Sprintf("%s: %s of %s, %s", what, interval(r), of.base, boundText(below, limit)), r, meetsLimit(r, limit, below))...)
		}
	}
	fmt.Fprintln(w)
	return limits
}
