package fastpath

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
)

// Causes of epochs beside those that the kernel announces.
const (
	causeStart       topology.Cause = "start"       // of the daemon
	causeIPSets      topology.Cause = "ipsets"      // that rules depend on
	causeConnections topology.Cause = "connections" // that somebody has changed, or whose end may have been missed
	causeDelay       topology.Cause = "delay"       // the daemon was held up for longer than its lease, or its audit of rules for longer than auditLimit
	causeRefusal     topology.Cause = "refusal"     // there is a reason now to carry nothing, or another one, or none any more
)

// EpochCauses are all of them.
var EpochCauses = []topology.Cause{
	causeStart, topology.Rules, causeIPSets, topology.IPsec, topology.Routes, topology.Addresses, topology.Neighbours, topology.Devices,
	topology.Sysctl, causeConnections, causeRefusal, topology.LostEvents, causeDelay,
}

// Epochs tell how often everything that was learned was asked anew since the daemon has started, and why.
type Epochs struct {
	Counts map[topology.Cause]uint64 `json:"counts"` // by cause
	Last   topology.Cause            `json:"last"`
	Time   time.Time                 `json:"time"` // of the last one
}

// Total is how many there were.
func (e Epochs) Total() (n uint64) {
	for _, of := range e.Counts {
		n += of
	}
	return n
}

// Since are those that came after earlier ones. If the daemon was started anew meanwhile, all are.
func (e Epochs) Since(before Epochs) Epochs {
	since := Epochs{map[topology.Cause]uint64{}, e.Last, e.Time}
	for cause, was := range before.Counts {
		if e.Counts[cause] < was {
			return e
		}
	}
	for cause, n := range e.Counts {
		if more := n - before.Counts[cause]; more > 0 {
			since.Counts[cause] = more
		}
	}
	return since
}

// Causes are those that there were, the most frequent first.
func (e Epochs) Causes() []topology.Cause {
	return slices.SortedFunc(maps.Keys(e.Counts), func(a, b topology.Cause) int {
		return cmp.Or(cmp.Compare(e.Counts[b], e.Counts[a]), cmp.Compare(a, b))
	})
}

// minEpochInterval is the least time between epochs. A stamp holds the lower bits of an
// epoch, which must not come round again while a packet is under way.
const minEpochInterval = 2 * time.Millisecond

// epoch is the policy epoch. Any goroutine bumps it when it learns that the network may treat
// packets differently from now on.
type epoch struct {
	objs *bpf.Objects

	mu    sync.Mutex
	value uint32
	all   Epochs // that this daemon has begun
}

func newEpoch(objs *bpf.Objects) (*epoch, error) {
	e := &epoch{objs: objs, all: Epochs{Counts: map[topology.Cause]uint64{}}}
	return e, objs.Epoch.Get(&e.value)
}

// bump invalidates everything that was learned until now.
func (e *epoch) bump(cause topology.Cause) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if wait := minEpochInterval - time.Since(e.all.Time); wait > 0 {
		time.Sleep(wait)
	}
	if e.all.Counts[cause]++; cause == causeStart {
		e.all.Counts[cause] = 1 // the first lease begins another one
	}
	e.all.Last, e.all.Time = cause, time.Now()
	e.value++
	if e.value == 0 {
		e.value++ // 0 means none
	}
	return e.objs.Epoch.Set(e.value)
}

// history tells of all epochs until now.
func (e *epoch) history() *Epochs {
	e.mu.Lock()
	defer e.mu.Unlock()
	return &Epochs{maps.Clone(e.all.Counts), e.all.Last, e.all.Time.Round(0)}
}
