package topology

import (
	"sync"

	"github.com/mdlayher/netlink"
)

// lateFilter is an [rtnlFilter] that is loaded with the first message, or when [Watcher.Settle] is
// called, from tables that were read before: with a thousand pods that takes ten milliseconds, in
// which others start up.
type lateFilter struct {
	filter *rtnlFilter
	tables *Tables
	ports  filterTables
	once   sync.Once
}

func newLateFilter(owns ProgramOwner, family Family) *lateFilter {
	return &lateFilter{filter: newRtnlFilter(owns, family)}
}

// read reads the tables.
func (l *lateFilter) read() {
	l.tables, l.ports = readTables(l.filter.family), readFilterTables(l.filter.family)
}

func (l *lateFilter) load() {
	l.once.Do(func() {
		l.filter.load(l.tables, l.ports)
		l.tables, l.ports = nil, filterTables{}
	})
}

func (l *lateFilter) event(m netlink.Message) Event {
	l.load()
	return l.filter.event(m)
}

func (l *lateFilter) resync() {
	l.once.Do(func() { l.tables, l.ports = nil, filterTables{} }) // what was read before is too old
	l.filter.resync()
}
