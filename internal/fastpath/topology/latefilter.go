package topology

import (
	"context"
	"sync"
	"time"

	"github.com/mdlayher/netlink"
)

// lateFilter is an [rtnlFilter] that is loaded with the first message, from tables that were read
// before: with a thousand pods that takes ten milliseconds, in which others start up.
type lateFilter struct {
	filter *rtnlFilter
	tables *Tables
	ports  filterTables
	once   sync.Once
}

// filterDelay is after how long it is loaded without a message, so that the tables can go.
const filterDelay = time.Second

// newLateFilter reads the tables.
func newLateFilter(owns ProgramOwner) *lateFilter {
	return &lateFilter{filter: newRtnlFilter(owns), tables: readTables(), ports: readFilterTables()}
}

func (l *lateFilter) load() {
	l.once.Do(func() {
		l.filter.load(l.tables, l.ports)
		l.tables, l.ports = nil, filterTables{}
	})
}

// loadLater loads it after a while, unless ctx ends.
func (l *lateFilter) loadLater(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(filterDelay):
		l.load()
	}
}

func (l *lateFilter) event(m netlink.Message) Event {
	l.load()
	return l.filter.event(m)
}

func (l *lateFilter) resync() {
	l.once.Do(func() { l.tables, l.ports = nil, filterTables{} }) // what was read before is too old
	l.filter.resync()
}
