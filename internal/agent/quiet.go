package agent

import (
	"runtime"
	"runtime/debug"
	"sync"
)

// memoryLimit is where the garbage collector comes back while it is off, in
// bytes: far above what a series needs.
const memoryLimit = 1 << 30

// quiet counts the series for which the collector is off and the monitor calm. They are
// the process's: one of each, several roles.
var quiet struct {
	sync.Mutex
	users          int
	percent        int
	limit          int64
	restoreMonitor func()
}

// quietRuntime collects garbage once and then turns the collector off, because a
// collection beside a 20 us round trip is most of it; and it calms the runtime's monitor.
// What it returns undoes both after the last user, once.
func quietRuntime() func() {
	quiet.Lock()
	defer quiet.Unlock()
	if quiet.users++; quiet.users == 1 {
		runtime.GC()
		quiet.limit = debug.SetMemoryLimit(memoryLimit)
		quiet.percent = debug.SetGCPercent(-1)
		quiet.restoreMonitor = calmMonitor()
	}
	return sync.OnceFunc(func() {
		quiet.Lock()
		defer quiet.Unlock()
		if quiet.users--; quiet.users == 0 {
			debug.SetGCPercent(quiet.percent)
			debug.SetMemoryLimit(quiet.limit)
			quiet.restoreMonitor()
		}
	})
}
