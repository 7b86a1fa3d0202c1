package node

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// UntilSettled is how long a comparison goes on.
var UntilSettled = untilSettled

// HolderOf is the process that the files in a folder name, if it has the folder open.
func HolderOf(folder string) *os.Process {
	return files{folder: folder, process: filepath.Join(folder, "process")}.holder()
}

// RemoveOrphans removes the folders in root whose namespaces are gone.
func RemoveOrphans(root string) { removeOrphans(root) }

// SeeAll has all namespaces be in sight, or not, while a test runs.
func SeeAll(t *testing.T, all bool) {
	was := seesAll
	seesAll = func() bool { return all }
	t.Cleanup(func() { seesAll = was })
}

// RetryIPv6 has a daemon for IPv6 that has failed started again after this time.
func RetryIPv6(after time.Duration) { retryIPv6 = after }

// ReadStates is ReadStatus without the tables, for tests that ask again and again: to walk the table of flows takes
// milliseconds of CPU time, however few there are.
func ReadStates() (Status, error) {
	return readStatus(func(files, *Status, string) error { return nil })
}
