package meter

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/venturi-net/venturi/internal/host"
)

// file is a file of /proc that is read again and again from its start.
type file struct {
	f   *os.File
	buf []byte
}

// openFile opens root/path as the process sees it.
func openFile(root, path string) (*file, error) {
	f, err := os.Open(filepath.Join(root, path))
	if err != nil {
		return nil, err
	}
	return &file{f: f, buf: make([]byte, 16<<10)}, nil
}

// read gives the whole file, in a buffer that the next read overwrites. The
// buffer grows when the file has, so that only the first reads allocate.
func (f *file) read() ([]byte, error) {
	n := 0
	for {
		if n == len(f.buf) {
			f.buf = append(f.buf, make([]byte, len(f.buf))...)
		}
		k, err := f.f.ReadAt(f.buf[n:], int64(n))
		n += k
		if errors.Is(err, io.EOF) {
			return f.buf[:n], nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", f.f.Name(), err)
		}
	}
}

func (f *file) close() error { return f.f.Close() }

// openNetFiles opens files of /proc/net as they are in a network namespace. An
// open file of /proc/net stays with the namespace it was opened in, so samples
// need not enter it again.
func openNetFiles(root, namespace string, names ...string) ([]*file, error) {
	files := make([]*file, 0, len(names))
	err := host.Do(namespace, func() error {
		for _, name := range names {
			f, err := openFile(root, filepath.Join("proc/thread-self/net", name))
			if err != nil {
				return err
			}
			files = append(files, f)
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open counters of namespace %q: %w", namespace, err), closeAll(files))
	}
	return files, nil
}

func closeAll(files []*file) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.close())
	}
	return errors.Join(errs...)
}

// number reads the decimal number at the start of b after blanks, and gives
// what follows it. ok is false when there is none. A number too large for an
// int64 wraps, as the kernel's own counters do.
func number(b []byte) (n int64, rest []byte, ok bool) {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	neg := false
	if len(b) > 0 && b[0] == '-' { // snmp prints MaxConn as -1
		neg, b = true, b[1:]
	}
	i := 0
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		n = n*10 + int64(b[i]-'0')
		i++
	}
	if neg {
		n = -n
	}
	return n, b[i:], i > 0
}

// line cuts the first line off b, without its end.
func line(b []byte) (first, rest []byte) {
	for i, c := range b {
		if c == '\n' {
			return b[:i], b[i+1:]
		}
	}
	return b, nil
}
