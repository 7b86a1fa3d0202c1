package host

import (
	"os"
	"path/filepath"
	"slices"
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

func sortedInts(list []int) []int {
	slices.Sort(list)
	return list
}
