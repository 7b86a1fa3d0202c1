package compare

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// FindRun is the run that was named, or the newest there is.
func FindRun(args []string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	records, _ := sanitize.Files(RunsFolder, "*/"+result.FileName) // the patterns are sound
	below, _ := sanitize.Files(RunsFolder, "*/*/"+result.FileName)
	newest, when := "", time.Time{}
	for _, r := range append(records, below...) {
		if info, err := os.Stat(r); err == nil && !info.ModTime().Before(when) {
			newest, when = filepath.Dir(r), info.ModTime()
		}
	}
	if newest == "" {
		return "", verr.New(verr.Usage, "cannot report the newest run",
			"there is no run below "+RunsFolder+"/ here", `make one with "venturi compare", or name the folder of a run`)
	}
	return newest, nil
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
