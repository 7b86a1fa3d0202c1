package compare

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/result"
)

// freshName is what [FreshFolderIn] names a folder.
var freshName = regexp.MustCompile(`^\d{8}-\d{6}(\.\d+)?$`)

// RemoveOldest removes the oldest records below a folder, until so many are left. It
// takes only records in folders that are named after a time, and leaves a folder that
// holds anything else.
func RemoveOldest(parent string, keep int) error {
	records, err := sanitize.Files(parent, "*/"+result.FileName)
	if err != nil {
		return fmt.Errorf("list the records below %s: %w", parent, err)
	}
	records = slices.DeleteFunc(records, func(file string) bool {
		return !freshName.MatchString(filepath.Base(filepath.Dir(file)))
	})
	slices.SortFunc(records, byAge)
	var failed error
	for _, file := range records[:max(0, len(records)-keep)] {
		if err := os.Remove(file); err != nil {
			failed = errors.Join(failed, fmt.Errorf("remove an old record: %w", err))
			continue
		}
		_ = os.Remove(filepath.Dir(file)) // unless somebody keeps something there
	}
	return failed
}

// byAge orders records by the names of their folders: a time, then a number that
// distinguishes runs of the same second.
func byAge(a, b string) int {
	timeA, nthA := freshOrder(a)
	timeB, nthB := freshOrder(b)
	return cmp.Or(strings.Compare(timeA, timeB), cmp.Compare(nthA, nthB))
}

func freshOrder(file string) (started string, nth int) {
	started, suffix, _ := strings.Cut(filepath.Base(filepath.Dir(file)), ".")
	nth, _ = strconv.Atoi(suffix)
	return started, nth
}
