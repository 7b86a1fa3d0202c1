package compare

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/result"
)

// freshName is what [FreshFolderIn] names a folder.
var freshName = regexp.MustCompile(`^\d{8}-\d{6}(\.\d+)?$`)

// RemoveOldest removes the oldest records below a folder, until so many are left, but never that of the
// newest run, whatever its clock says. It takes only records in folders that are named after a time, and
// leaves a folder that holds anything else.
func RemoveOldest(parent, newest string, keep int) error {
	records, err := sanitize.Files(parent, "*/"+result.FileName)
	if err != nil {
		return fmt.Errorf("list the records below %s: %w", parent, err)
	}
	records = slices.DeleteFunc(records, func(file string) bool {
		return !freshName.MatchString(filepath.Base(filepath.Dir(file)))
	})
	if i := slices.Index(records, filepath.Join(newest, result.FileName)); i >= 0 {
		records, keep = slices.Delete(records, i, i+1), keep-1
	}
	started := map[string]time.Time{}
	for _, file := range records {
		started[file] = startOfRecord(file)
	}
	slices.SortFunc(records, func(a, b string) int {
		return cmp.Or(started[a].Compare(started[b]), byName(a, b))
	})
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

// mostHeader is how many bytes the first line of a record may have to be read for its time.
const mostHeader = 64 << 10

// startOfRecord is when a record was begun, by its first line. The name of its folder is a local time, which
// comes twice when summer time ends; it is the time of a record that does not tell.
func startOfRecord(file string) time.Time {
	if f, err := os.Open(file); err == nil {
		defer f.Close()
		var first result.Line
		if json.NewDecoder(io.LimitReader(f, mostHeader)).Decode(&first) == nil && first.Header != nil && !first.Header.Started.IsZero() {
			return first.Header.Started
		}
	}
	name, _ := freshOrder(file)
	at, _ := time.ParseInLocation(folderTime, name, time.Local) // zero: as old as can be
	return at
}

// byName orders records by the names of their folders: a time, then a number that
// distinguishes runs of the same second.
func byName(a, b string) int {
	timeA, nthA := freshOrder(a)
	timeB, nthB := freshOrder(b)
	return cmp.Or(strings.Compare(timeA, timeB), cmp.Compare(nthA, nthB))
}

func freshOrder(file string) (started string, nth int) {
	started, suffix, _ := strings.Cut(filepath.Base(filepath.Dir(file)), ".")
	nth, _ = strconv.Atoi(suffix)
	return started, nth
}
