package host

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Reader reads a machine. Root is the folder that holds proc, sys and etc; the
// zero value reads the machine that the process runs on.
type Reader struct{ Root string }

// path joins parts to a file name below the root.
func (r Reader) path(parts ...string) string {
	root := r.Root
	if root == "" {
		root = "/"
	}
	return filepath.Join(append([]string{root}, parts...)...)
}

// line reads a file that holds one line; a file that cannot be read is "".
// Facts are gathered on many kinds of machine, and one that is not there is
// left out of the record, not an error.
func (r Reader) line(parts ...string) string {
	b, err := os.ReadFile(r.path(parts...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// pids are those of all processes that are to be seen, in ascending order.
func (r Reader) pids() ([]int, error) {
	entries, err := os.ReadDir(r.path("proc"))
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var all []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, pid)
		}
	}
	slices.Sort(all)
	return all, nil
}
