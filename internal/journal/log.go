package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/setting"
)

// The log is a file of lines: the checksum (CRC-32C, eight hexadecimal digits) of
// the rest of the line, a blank, and a record as JSON. Lines are only ever
// added, each made durable before what it announces happens. A line that was
// cut off, or that something damaged, is passed over and told of.

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func encode(r record) ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("write record: %w", err)
	}
	return seal(text), nil
}

func seal(text []byte) []byte {
	return fmt.Appendf(nil, "%08x %s\n", crc32.Checksum(text, castagnoli), text)
}

func decode(line []byte) (record, error) {
	sum, text, found := bytes.Cut(line, []byte(" "))
	want, err := strconv.ParseUint(string(sum), 16, 32)
	if !found || len(sum) != 8 || err != nil {
		return record{}, errors.New("it does not begin with a checksum")
	}
	if uint32(want) != crc32.Checksum(text, castagnoli) {
		return record{}, errors.New("its checksum is another one")
	}
	var r record
	if err := setting.UnmarshalStrict(text, &r); err != nil {
		return r, fmt.Errorf("%w: %w", errUnknown, err)
	}
	return r, nil
}

// errUnknown: a record is as it was written, and this version does not know all of it. What could be read
// of it comes with the error.
var errUnknown = errors.New("this version does not know all of it")

// Damage is a line of the log that cannot be read.
type Damage struct {
	Offset       int64  `json:"offset"` // of its first byte
	Bytes        int    `json:"bytes"`
	Last         bool   `json:"last"`              // it is the last one, and has no end: it was cut off
	Acknowledged bool   `json:"told"`              // it was cut off, and who changed something next was told, and recorded that
	Writer       string `json:"version,omitempty"` // the version of Venturi that wrote it, which knows more than this one
	Reason       string `json:"why"`
}

func (d Damage) String() string {
	if d.Writer != "" {
		return fmt.Sprintf("venturi %s wrote the record at byte %d: %s", d.Writer, d.Offset, d.Reason)
	}
	if d.Last {
		return fmt.Sprintf("it ends in the middle of a record, at byte %d", d.Offset)
	}
	return fmt.Sprintf("the %d bytes from byte %d on are no record: %s", d.Bytes, d.Offset, d.Reason)
}

// parse reads all records of a log, and what of it is damaged.
func parse(text []byte) (records []record, damaged []Damage) {
	bad := false // the line before is
	writer := "of another version"
	for offset := int64(0); len(text) > 0; {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		r, err := decode(line)
		if r.Begin != nil && r.Begin.Version != "" {
			writer = r.Begin.Version
		}
		switch {
		case errors.Is(err, errUnknown):
			bad = false
			damaged = append(damaged, Damage{Offset: offset, Bytes: len(line), Writer: writer, Reason: err.Error()})
		case err == nil && r.Cut != nil:
			if bad {
				damaged[len(damaged)-1].Acknowledged = true
			}
			bad = false
		case err == nil:
			bad = false
			records = append(records, r) // one that lacks only its end is whole
		case len(line) > 0:
			bad = true
			damaged = append(damaged, Damage{Offset: offset, Bytes: len(line), Last: !whole, Reason: err.Error()})
		}
		offset += int64(len(line) + 1)
		text = rest
	}
	return records, damaged
}

// logName is the journal's file in its folder.
const logName = "journal"

// log is the file, open for adding, and locked.
type log struct {
	file        *os.File
	partialLine bool // its last line has no end
}

// errBusy: somebody else has the journal open for writing.
var errBusy = errors.New("another venturi is changing this machine")

func openLog(folder string) (*log, []byte, error) { return openLogBy(folder, syncFolder) }

func openLogBy(folder string, sync func(string) error) (*log, []byte, error) {
	if err := CheckFolder(folder); err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, nil, err
	}
	name := filepath.Join(folder, logName)
	file, err := openIn(folder, os.O_RDWR|os.O_APPEND|os.O_CREATE)
	if err != nil {
		return nil, nil, err
	}
	l := &log{file: file}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, nil, errBusy
		}
		return nil, nil, fmt.Errorf("lock %s: %w", name, err)
	}
	text, err := io.ReadAll(file)
	if err == nil && len(text) == 0 { // the first record is to come: the file's own name must be durable too
		err = syncParents(folder, sync)
	}
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	l.partialLine = len(text) > 0 && text[len(text)-1] != '\n'
	return l, text, nil
}

// InUse tells whether a process has the journal of a folder open for changing. One that
// cannot be looked at is taken to be.
func InUse(folder string) bool {
	if folder == "" {
		folder = Folder
	}
	file, err := openIn(folder, os.O_RDONLY)
	if err != nil {
		return true
	}
	defer file.Close()
	return unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil
}

// syncParents makes the names on the way to a folder durable, from that of the file in it
// up: any of the folders may have just been made, also by a process that was killed
// before it came to this. A file system that does not sync folders says so by EINVAL. Those
// above that may not be read or written, nobody made for this.
func syncParents(folder string, sync func(string) error) error {
	if err := sync(folder); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	for folder != filepath.Dir(folder) {
		folder = filepath.Dir(folder)
		if err := sync(folder); err != nil && !errors.Is(err, os.ErrPermission) && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EROFS) {
			return err
		}
	}
	return nil
}

func syncFolder(folder string) error {
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// add makes records durable. On an error none of them counts: what of them came
// to the file is cut off, or if that fails too, stays there without its end.
func (l *log) add(records ...record) error {
	var text []byte
	if l.partialLine {
		line, err := encode(record{Cut: &cutRecord{Time: time.Now()}})
		if err != nil {
			return err
		}
		text = append([]byte("\n"), line...)
	}
	for _, r := range records {
		line, err := encode(r)
		if err != nil {
			return err
		}
		text = append(text, line...)
	}
	size, err := l.file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	_, err = l.file.Write(text)
	if err == nil {
		err = l.file.Sync()
	}
	if err == nil {
		l.partialLine = false
		return nil
	}
	// A disk that is full takes a part of it.
	if cut := l.file.Truncate(size); cut != nil {
		l.partialLine = true
	}
	return err
}

// room is how much is kept free behind the end of the log: enough to record that
// what is written is undone, also when the disk has filled up since. Bytes.
const room = 1 << 20

// reserve keeps room. Error: the disk is too full for it. File systems that
// cannot keep any are not asked for it.
func (l *log) reserve() error {
	size, err := l.file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	err = retryInterrupted(func() error { return unix.Fallocate(int(l.file.Fd()), unix.FALLOC_FL_KEEP_SIZE, size, room) })
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return nil
	}
	return err
}

// retryInterrupted calls fn until no signal interrupts it. On older kernels any signal ends
// the keeping of room in memory, and Go's runtime sends some.
func retryInterrupted(fn func() error) error {
	for {
		if err := fn(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func (l *log) close() error { return l.file.Close() }
