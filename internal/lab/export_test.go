package lab

import "time"

// WithTable is for tests that hold up others.
var WithTable = withTable

// SetTableLimits shortens waits for the table; restore sets what was.
func SetTableLimits(soon, limit time.Duration) (restore func()) {
	wasSoon, wasLimit := tableSoon, tableLimit
	tableSoon, tableLimit = soon, limit
	return func() { tableSoon, tableLimit = wasSoon, wasLimit }
}
