package compare

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// RunsFolder holds the runs of a user who names no folder.
const RunsFolder = "venturi-runs"

// roomForRun is what the default run takes many times over, bytes.
const roomForRun = 8 << 20

// output is the file of a record, in a folder of its own.
type output struct {
	path        string
	createdDirs []string // folders that were not there before, the innermost first
	file        *os.File
	write       func(result.Line) error
}

// createRecord makes the folder and the file, and makes sure of room on the
// disk: what can fail here shall fail before anything is measured.
func createRecord(folder string, owner *Owner) (*output, error) {
	if folder == "" {
		folder = FreshFolder(time.Now())
	}
	o := &output{path: filepath.Join(folder, result.FileName)}
	if _, err := os.Stat(o.path); err == nil {
		return nil, verr.New(verr.Usage, "cannot write the record to "+folder, "it holds the record of another run",
			"name another folder with --out")
	}
	if err := o.create(folder, owner); err != nil {
		if o.file != nil {
			o.file.Close()
		}
		o.remove()
		return nil, verr.Wrap(verr.Failed, "cannot write the record to "+folder, err,
			"name a writable folder with --out, on a disk with free space")
	}
	o.write = result.NewWriter(o.file).Write
	return o, nil
}

// MakeFolder makes a folder for runs.
func MakeFolder(folder string) error { return os.MkdirAll(folder, 0o755) }

// Prepare makes the folder of a record that another process will write, and makes
// sure that it can. tidy removes what was made if there is still nothing in it.
func Prepare(folder string, owner *Owner) (tidy func(), err error) {
	o, err := createRecord(folder, owner)
	if err != nil {
		return nil, err
	}
	err = errors.Join(o.file.Close(), os.Remove(o.path))
	return o.removeFolders, recordError(err)
}

// folderTime is how a folder is named after a time.
const folderTime = "20060102-150405"

// FreshFolder names the folder of a run by when it started; two of one second
// do not share it.
func FreshFolder(now time.Time) string { return FreshFolderIn(RunsFolder, now) }

// FreshFolderIn is [FreshFolder] below another folder.
func FreshFolderIn(parent string, now time.Time) string {
	name := filepath.Join(parent, now.Format(folderTime))
	for n, folder := 2, name; ; n++ {
		if _, err := os.Lstat(folder); err != nil {
			return folder
		}
		folder = fmt.Sprintf("%s.%d", name, n)
	}
}

func (o *output) create(folder string, owner *Owner) (err error) {
	for f := filepath.Clean(folder); f != "." && f != "/"; f = filepath.Dir(f) {
		if _, err := os.Stat(f); !errors.Is(err, os.ErrNotExist) {
			break
		}
		o.createdDirs = append(o.createdDirs, f)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	// Not through a link that somebody left in a folder that root writes to.
	if o.file, err = os.OpenFile(o.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644); err != nil {
		return err
	}
	owner.take(o)
	// A file system may promise a length that it has no room for, so write it.
	_, err = o.file.WriteAt(make([]byte, roomForRun), 0)
	return errors.Join(err, o.file.Truncate(0))
}

// Owner is a user other than the one that the process runs as.
type Owner struct{ UID, GID int }

// take gives what was made to its owner. That it cannot be given is no reason
// not to measure.
func (w *Owner) take(o *output) {
	if w == nil {
		return
	}
	for _, f := range append([]string{o.path}, o.createdDirs...) {
		_ = os.Lchown(f, w.UID, w.GID)
	}
}

// close closes the record, and removes one in which nothing was measured.
func (o *output) close(rec *result.Record) error {
	err := o.file.Close()
	if err != nil {
		err = fmt.Errorf("%w: %w", experiment.ErrRecord, err)
	}
	if rec == nil || len(rec.Slices) == 0 {
		o.remove()
	}
	return recordError(err)
}

// remove takes away what was made; a folder that holds anything else stays.
func (o *output) remove() {
	_ = os.Remove(o.path)
	o.removeFolders()
}

func (o *output) removeFolders() {
	for _, f := range o.createdDirs {
		_ = os.Remove(f)
	}
}

// recordError tells a person of an error of the record, and lets others pass.
func recordError(err error) error {
	if err == nil || !errors.Is(err, experiment.ErrRecord) {
		return err
	}
	return verr.Wrap(verr.Failed, "cannot write the record", err, "free space on the disk, or name another folder with --out")
}

// WriteBeside makes a file in the folder of a run, which is named by itself or by
// its record. What was there of this name before stays until the new one is whole.
func WriteBeside(run, name string, write func(io.Writer) error) (file string, err error) {
	folder := run
	if info, err := os.Stat(run); err == nil && !info.IsDir() {
		folder = filepath.Dir(run)
	}
	file = filepath.Join(folder, name)
	f, err := os.CreateTemp(folder, name)
	if err != nil {
		return "", fmt.Errorf("write %s: %w", file, err)
	}
	defer os.Remove(f.Name()) // when it has its name, there is nothing to remove
	err = errors.Join(write(f), f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return "", fmt.Errorf("write %s: %w", file, err)
	}
	return file, nil
}
