// Package experiment runs a comparison: it lays a plan out, has the agents
// measure series by series, looks at the pre-set points whether that is
// enough, and writes the record. It knows agents and tools by interface only.
package experiment

import (
	"crypto/rand"
	"fmt"
	"net/netip"
	"time"

	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// Defaults of a comparison: with four arms and the four default loads they
// take 70 to 80 seconds.
const (
	DefaultSeries     = 8
	DefaultRounds     = 12
	DefaultMargin     = 0.03
	DefaultConfidence = 0.95

	// DefaultBudget is the upper end of a run that goes on until all is decided.
	DefaultBudget = 80 * time.Second
	// decidingRounds are those of a series of such a run. It takes a number of
	// series to decide anything, so they are short.
	decidingRounds = 6
	// decidingSeries is how many it takes to decide that every path differs.
	decidingSeries = 7
	// mostDecidingSeries is how many it has at most, however large its budget is.
	mostDecidingSeries = 10_000

	leastSeries = 3 // an interval from fewer means nothing
	leastRounds = 4
	slowRounds  = 2 // instead, where setting a series up takes longer than all of its rounds
	fewSeries   = 6 // below, the interval grows fast
	fewRounds   = 8
	mostSeries  = 40
	mostRounds  = 100
)

// EmulationSlowdown is how many times longer an emulated machine takes for what is outside the
// timed parts of a run, as measured under QEMU's TCG. The timed parts take as
// long as anywhere.
const EmulationSlowdown = 15

// What a slice and a series cost beside their timed parts, as measured on a
// 2-core machine. They only serve to foretell how long a run takes.
const (
	sliceCost  = 1500 * time.Microsecond
	seriesCost = 40 * time.Millisecond
	flowCost   = 500 * time.Microsecond
	warmUp     = 8 * time.Millisecond
	toolCost   = 200 * time.Millisecond // to start a tool's two ends
)

// Ends are where the traffic of an arm runs.
type Ends struct {
	Pairs []load.Pair   // see load.Arm; a tool uses the first
	Spin  time.Duration // likewise
	// ClientNetns and ServerNetns are the namespaces that the traffic passes besides those
	// of the ends, on the clients' and on the servers' machine.
	ClientNetns, ServerNetns []string
	// ClientPins and ServerPins are folders of those machines; see load.Arm.
	ClientPins, ServerPins string
	// Dial is where clients reach the servers, if not at their own addresses: one a flow, and
	// for each a port of the servers, from ServerPort on.
	Dial       []netip.AddrPort
	ServerPort int
}

// Duration foretells how long the plan takes: series times what one series of
// every cell takes. slow is 1, and [EmulationSlowdown] for an emulated machine.
func Duration(p *result.Plan, slow int) time.Duration {
	return time.Duration(p.Series) * seriesDuration(p, time.Duration(slow))
}

func seriesDuration(p *result.Plan, slow time.Duration) time.Duration {
	arms := time.Duration(len(p.Arms))
	total := time.Duration(0)
	for _, c := range p.Cells {
		slice := c.Head + c.Slice + slow*sliceCost
		if c.Background != nil {
			slice += load.BackgroundLead + slow*sliceCost
		}
		round := arms * slice
		setUp := slow * (seriesCost + arms*(warmUp+time.Duration(c.Flows)*flowCost))
		if c.Tool() != "" {
			total += arms * (slice + slow*toolCost)
			continue
		}
		total += setUp + time.Duration(p.Rounds)*round
	}
	return total
}

// Fit sets series and rounds so that the plan fills its budget and does not
// exceed it. What the user fixed stays as it is. Time goes into more series
// rather than longer ones: at the same number of slices an interval over more
// series is narrower. slow is as for [Duration]. Error: the budget is too small
// for anything to be told.
func Fit(p *result.Plan, slow int, fixedSeries, fixedRounds bool) error {
	if p.Budget == 0 {
		return nil
	}
	if p.UntilDecided {
		return fitUntilDecided(p, slow)
	}
	fits := func() bool { return Duration(p, slow) <= p.Budget }
	least := leastRounds
	if slow > 1 {
		least = slowRounds
	}
	grow(&p.Series, !fixedSeries, mostSeries, fits)
	grow(&p.Rounds, !fixedRounds, mostRounds, fits)
	shrink(&p.Rounds, !fixedRounds, fewRounds, fits)
	shrink(&p.Series, !fixedSeries, fewSeries, fits)
	shrink(&p.Rounds, !fixedRounds, least, fits)
	shrink(&p.Series, !fixedSeries, leastSeries, fits)
	if fits() {
		grow(&p.Rounds, !fixedRounds, mostRounds, fits) // what the last series left
		return nil
	}
	if fixedSeries && fixedRounds {
		return nil
	}
	return errBudget(p, slow)
}

// Shorten takes rounds and series off a plan that takes longer than a time, but leaves as many as
// make a useful interval. slow is as for [Duration].
func Shorten(p *result.Plan, most time.Duration, slow int) {
	fits := func() bool { return Duration(p, slow) <= most }
	shrink(&p.Rounds, true, fewRounds, fits)
	shrink(&p.Series, true, fewSeries, fits)
}

// fitUntilDecided sets the rounds, and as many series as the budget could hold if
// all but one cell were decided at once.
func fitUntilDecided(p *result.Plan, slow int) error {
	p.Series, p.Rounds = decidingSeries, decidingRounds
	shrink(&p.Rounds, true, leastRounds, func() bool { return Duration(p, slow) <= p.Budget })
	if Duration(p, slow) > p.Budget {
		return errBudget(p, slow)
	}
	one := *p
	one.Series, one.Cells = 1, p.Cells[:1]
	for _, c := range p.Cells {
		shorter := one
		shorter.Cells = []result.Cell{c}
		if Duration(&shorter, slow) < Duration(&one, slow) {
			one = shorter
		}
	}
	p.Series = min(max(decidingSeries, int(p.Budget/Duration(&one, slow))), mostDecidingSeries)
	return nil
}

func errBudget(p *result.Plan, slow int) error {
	return verr.New(verr.Usage,
		fmt.Sprintf("cannot compare %d arms over %d loads and sizes with --budget %s", len(p.Arms), len(p.Cells), p.Budget),
		fmt.Sprintf("%d series of %d rounds need %s, and fewer tell nothing", p.Series, p.Rounds, Duration(p, slow).Round(time.Second)),
		"give a larger --budget, or fewer paths, loads or sizes")
}

// grow raises a number as long as the plan fits.
func grow(n *int, free bool, most int, fits func() bool) {
	for free && *n < most && fits() {
		*n++
	}
	if free && !fits() && *n > 1 {
		*n--
	}
}

// shrink lowers a number until the plan fits.
func shrink(n *int, free bool, least int, fits func() bool) {
	for free && *n > least && !fits() {
		*n--
	}
}

// portAllocator hands out port numbers so that a series never meets the closed
// connections of an earlier one, and all arms of a series use the same ones
// as far as they live in different namespaces: a hash over ports then treats
// them alike.
type portAllocator struct{ next int }

const (
	// clientPorts is the first of portSpan ports, outside of the kernel's ephemeral range. Below are
	// those at which Kubernetes' programs listen on a node, 10248 to 10259.
	clientPorts = 10300
	serverPorts = 20000
	portSpan    = 9700
)

// take gives the offset of a block of n ports in both ranges.
func (p *portAllocator) take(n int) int {
	if p.next+n > portSpan {
		p.next = 0
	}
	at := p.next
	p.next += n
	return at
}

// serverKey names the address that a pair is served at.
func serverKey(p load.Pair) string { return p.To.Namespace + " " + p.To.Addr.String() }

// newNonce makes a secret for one series. Unlike the order of the slices, nobody may foresee it.
func newNonce() (n load.Nonce) {
	_, _ = rand.Read(n[:]) // it never fails
	return n
}

// besideCPUs gives the cores of a stream beside a load: those of the load, or the next ones.
func (r *Run) besideCPUs(b *result.BackgroundLoad) (client, server int) {
	client, server = r.Plan.ClientCPU, r.Plan.ServerCPU
	if b.Cores == OtherCores && client >= 0 {
		return r.OtherCPUs[0], r.OtherCPUs[1]
	}
	return client, server
}

// Where a stream beside a load runs.
const (
	SameCores  = "same"  // on the cores of the load
	OtherCores = "other" // on cores of its own
)

// seriesPlan lays one series of one cell out for the agents.
func (r *Run) seriesPlan(cell result.Cell, arms []int) load.Plan {
	plan := load.Plan{
		Token: r.rng.Uint64(), Nonce: newNonce(), Load: cell.Load, Size: cell.Size, Flows: cell.Flows, Batch: cell.Batch, Rate: cell.Rate, Response: cell.Response,
		Threads: cell.Threads, Slice: cell.Slice, Head: cell.Head,
		ClientCPU: r.Plan.ClientCPU, ServerCPU: r.Plan.ServerCPU, Congestion: r.Congestion,
	}
	if cell.Threads > 1 {
		plan.ClientCPUs, plan.ServerCPUs = r.ThreadCPUs[0], r.ThreadCPUs[1]
	}
	// Arms that are served at one address, as the baseline and its copy are,
	// need blocks of ports of their own.
	nth, blocks := make([]int, len(arms)), 1
	served := map[string]int{} // by address, how many blocks are taken
	for i, arm := range arms {
		for _, p := range r.Ends[arm].Pairs {
			nth[i] = max(nth[i], served[serverKey(p)])
		}
		for _, p := range r.Ends[arm].Pairs {
			served[serverKey(p)] = nth[i] + 1
		}
		blocks = max(blocks, nth[i]+1)
	}
	width := cell.Flows
	if l, err := load.Find(cell.Load); err == nil {
		width = max(width, l.ClientPorts(cell.Flows))
	}
	if b := cell.Background; b != nil {
		width += b.Flows
		plan.Background = &load.Background{Load: b.Load, Size: b.Size, Flows: b.Flows, Rate: b.Rate}
		plan.Background.ClientCPU, plan.Background.ServerCPU = r.besideCPUs(b)
	}
	base := r.ports.take(blocks * width)
	for i, arm := range arms {
		e, at := r.Ends[arm], base+nth[i]*width
		serverPort := serverPorts + at
		if len(e.Dial) > 0 { // the client's ports alone keep series apart
			serverPort = e.ServerPort
		}
		plan.Arms = append(plan.Arms, load.Arm{
			Name: r.Plan.Arms[arm].Name, Ends: e.Pairs, Spin: e.Spin,
			ClientNetns: e.ClientNetns, ServerNetns: e.ServerNetns, ClientPins: e.ClientPins, ServerPins: e.ServerPins,
			ClientPort: clientPorts + at, ServerPort: serverPort, Dial: e.Dial,
		})
	}
	for range r.Plan.Rounds {
		plan.Schedule = append(plan.Schedule, r.rng.Perm(len(arms)))
	}
	return plan
}
