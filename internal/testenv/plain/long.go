// Package plain is what tests share that need no lab: a test binary that has a lab in it is linked in twice the time.
package plain

import (
	"flag"
	"os"
	"testing"
)

// longEnv is 1 where tests take as long as they must: in `make test-long`.
const longEnv = "VENTURI_TEST_LONG"

// Long tells whether tests that can be cut short run in full size.
func Long() bool { return os.Getenv(longEnv) == "1" }

// NeedsLong skips a test of which no share is worth running elsewhere.
func NeedsLong(t testing.TB) {
	t.Helper()
	if !Long() {
		t.Skip("takes minutes: `make test-long` runs it")
	}
}

// SkipShort skips a test that takes seconds, of CPU time or waiting, where -short is given: `make test` runs it.
func SkipShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds: run it without -short")
	}
}

// WaitTogether lets sixteen tests that call t.Parallel run at once, however few cores there are: they wait most of
// their time. A TestMain calls it.
func WaitTogether() { _ = flag.Set("test.parallel", "16") }
