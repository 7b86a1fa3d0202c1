package compare

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// FindRun is the run that was named, or the newest one whose record has an end: one that goes on, or
// was killed, is passed over, with a word to warn. With partial, it is not.
func FindRun(warn io.Writer, args []string, partial bool) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	runs := newestFirst()
	if len(runs) == 0 {
		return "", verr.New(verr.Usage, "cannot report the newest run",
			"there is no run below "+RunsFolder+"/ here", `make one with "venturi compare", or name the folder of a run`)
	}
	whole := slices.IndexFunc(runs, hasEnd)
	if partial || whole <= 0 {
		return runs[0], nil
	}
	sanitize.Fprintf(warn, "venturi: %s is newer, but was killed or is still running; report it with: venturi report --partial\n", sanitize.Path(runs[0]))
	return runs[whole], nil
}

// newestFirst lists the folders of runs.
func newestFirst() (runs []string) {
	records, _ := sanitize.Files(RunsFolder, "*/"+result.FileName) // the patterns are sound
	below, _ := sanitize.Files(RunsFolder, "*/*/"+result.FileName)
	when := map[string]time.Time{}
	for _, r := range append(records, below...) {
		if info, err := os.Stat(r); err == nil {
			run := filepath.Dir(r)
			runs, when[run] = append(runs, run), info.ModTime()
		}
	}
	slices.Reverse(runs) // of those that are equally old, the last by name
	slices.SortStableFunc(runs, func(a, b string) int { return when[b].Compare(when[a]) })
	return runs
}

// hasEnd tells whether the last line of a run's record is its end. A long record is not read for that.
func hasEnd(run string) bool {
	f, err := os.Open(filepath.Join(run, result.FileName))
	if err != nil {
		return false
	}
	defer f.Close()
	const most = 64 << 10 // of a line that says why a run failed
	if info, err := f.Stat(); err == nil && info.Size() > most {
		_, _ = f.Seek(-most, io.SeekEnd) // if that fails, the first line is taken for the last, and is no end
	}
	tail, err := io.ReadAll(io.LimitReader(f, most))
	text, whole := bytes.CutSuffix(tail, []byte("\n"))
	var last result.Line
	return err == nil && whole && json.Unmarshal(text[bytes.LastIndexByte(text, '\n')+1:], &last) == nil && last.End != nil
}

// OpenRecord reads a record, or says in a person's words why it cannot. With
// partial, one that was cut off is taken as far as it goes, with a word to warn.
func OpenRecord(warn io.Writer, path string, partial bool) (*result.Record, error) {
	rec, err := result.Open(path)
	what := "cannot read the record of " + path
	syntax := new(result.SyntaxError)
	switch {
	case err == nil:
		return rec, nil
	case errors.Is(err, result.ErrTruncated) && partial:
		sanitize.Fprintf(warn, "venturi: the record of %s was cut off; this is the report of what there is\n", path)
		return rec, nil
	case errors.Is(err, result.ErrTruncated):
		return nil, &verr.Error{Code: verr.BadRecord, Summary: what, Err: err,
			Reason: "it is truncated: the run was killed, or is still going on",
			Hint:   "add --partial to report what there is"}
	case errors.Is(err, result.ErrNewer):
		return nil, verr.Wrap(verr.BadRecord, what, err, "use the version of venturi that wrote it, or a later one")
	case errors.Is(err, result.ErrNotRecord):
		return nil, verr.Wrap(verr.BadRecord, what, err, "name the folder of a run, or the "+result.FileName+" in it")
	case errors.As(err, &syntax):
		return nil, verr.Wrap(verr.BadRecord, what, err, "the file was changed or damaged; use an intact copy")
	case errors.Is(err, fs.ErrNotExist):
		return nil, verr.Wrap(verr.Usage, what, err, "name the folder of a run, as under "+RunsFolder+"/")
	}
	return nil, verr.Wrap(verr.Failed, what, err, "make the file readable for this user")
}
