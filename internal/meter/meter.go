// Package meter reads what happens beside the traffic: CPU time, softnet
// squeezes, retransmits, drops. One file a meter, one line in [Table].
//
// A meter reads counters that only ever grow. A [Recorder] samples them where a
// slice begins and where it ends, and sums the differences per arm over a
// series. Sampling is outside of the timed part but between slices of one
// round, so it must be quick and must not allocate: files are opened once,
// inside the namespace they belong to, and re-read with pread.
package meter

import (
	"fmt"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/verr"
)

// Entry is one meter: a line of [Table].
type Entry struct {
	Name    string
	Summary string // one line for --help
	Source  Source
	// Open prepares the meter for the arms of a series. It fails when this
	// machine cannot be read at all; a coarser source is used when there is
	// one, and [Sampler.Resolution] says so.
	Open func(s Setup) (Sampler, error)
}

// Source is what a meter's counters are of.
type Source int

// The sources of counters.
const (
	Machine   Source = iota // the whole machine: of two agents that share its cores, one reads it
	Namespace               // an arm's network namespaces, of which a pod without privileges sees its own
	FastPath                // an arm's fast path on this machine
)

// Table holds every meter, in the order of reports.
var Table = []Entry{
	{"cpu", "busy time of each core, exact, and its classes", Machine, openCPU},
	{"softnet", "packets that softirq processed and dropped, and its budget squeezes", Machine, openSoftnet},
	{"tcp", "segments, retransmits and timeouts of an arm's namespaces", Namespace, openTCP},
	{"udp", "datagrams, and those lost to errors and full buffers, of an arm's namespaces", Namespace, openUDP},
	{"links", "drops and errors of the devices in an arm's namespaces", Namespace, openLinks},
	// In records the meter of the fast path has the name that the fast path had at first.
	{"accel", "packets that an arm's fast path carried, and why others went slow", FastPath, openFastPath},
	{"threads", "CPU time of each thread of the machine, the kernel's included", Machine, openThreads},
}

// Arm is what a meter needs to know of an arm on this machine.
type Arm struct {
	Name string
	// Ends are the namespaces that hold this machine's ends of the arm, paths
	// of namespace files; "" is that of the process.
	Ends []string
	// Crossed are the namespaces whose devices the arm's packets pass on this
	// machine, those of Ends included.
	Crossed []string
	// Pins is the folder where the arm's fast path keeps its tables on this
	// machine; empty: it has none.
	Pins string
}

// Setup is what a meter is opened for.
type Setup struct {
	Arms []Arm
	// Cores are those that the machine has; none: all of the host's. Of the others, and of what
	// is bound to no core, nothing is read.
	Cores []int
	// Root is where proc is found: "/" or, in tests, a fixture folder.
	Root string
}

// Sampler is an open meter.
type Sampler interface {
	// Keys names the counters, the same for every arm and every sample.
	Keys() []string
	// Sample reads all counters as they are now, for an arm (an index into
	// [Setup.Arms]), into dst, which has one place for each key.
	Sample(arm int, dst []int64) error
	// Resolution says in words how fine the counters are.
	Resolution() string
	Close() error
}

// partial is a [Sampler] of what not every arm has.
type partial interface {
	Has(arm int) bool
}

// leveled is a [Sampler] of which some keys do not count: they say how much there
// is. Of these the most that was there at the end of a slice is kept.
type leveled interface {
	Level(key int) bool
}

// growing is a [Sampler] whose keys get more. Keys that are there stay where they are.
type growing interface {
	// Refresh finds what has come up. It is called before the first slice of each arm.
	Refresh() error
}

// sparse is a [Sampler] most of whose keys say nothing: values below a part of the time are left
// out.
type sparse interface {
	Least() float64
}

// Names lists the meters of [Table].
func Names() []string {
	names := make([]string, len(Table))
	for i, e := range Table {
		names[i] = e.Name
	}
	return names
}

// NamesOf lists the meters of [Table] whose counters are of some sources.
func NamesOf(sources ...Source) (names []string) {
	for _, e := range Table {
		if slices.Contains(sources, e.Source) {
			names = append(names, e.Name)
		}
	}
	return names
}

// find gives the table's line for a name.
func find(name string) (Entry, error) {
	i := slices.IndexFunc(Table, func(e Entry) bool { return e.Name == name })
	if i < 0 {
		return Entry{}, verr.New(verr.Usage, fmt.Sprintf("cannot read meter %q", name),
			"there is no such meter", "use some of: "+strings.Join(Names(), ", "))
	}
	return Table[i], nil
}
