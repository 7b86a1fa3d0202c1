package setting

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
)

// locator runs fn where the file of a setting can be reached, with its name there.
type locator func(s Setting, fn func(file string) error) error

// readLocated makes the Read of a backend whose settings are files that the kernel makes up.
func readLocated(at locator) func(Setting) (Value, error) {
	return func(s Setting) (v Value, err error) {
		err = at(s, func(file string) error {
			v, err = readText(file)
			return err
		})
		return v, err
	}
}

// writeLocated makes the Write of such a backend.
func writeLocated(at locator) func(Setting, Value) error {
	return func(s Setting, v Value) error {
		return at(s, func(file string) error { return writeText(file, v) })
	}
}

// readText reads a file that the kernel makes up. Of a list of words of which
// one is chosen ("always [madvise] never") the value is the one in brackets: it
// is what would have to be written.
func readText(file string) (Value, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return Value{}, pathErrno(err)
	}
	if _, after, found := strings.Cut(string(data), "["); found {
		if chosen, _, closed := strings.Cut(after, "]"); closed && !strings.Contains(chosen, " ") {
			return Text(chosen), nil
		}
	}
	return Value{Data: data, Present: true}, nil
}

// writeText writes in one call, and never makes a file.
func writeText(file string, v Value) error {
	if !v.Present {
		return errors.New("it cannot be made absent")
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return pathErrno(err)
	}
	n, err := f.Write(v.Data)
	if err == nil && n < len(v.Data) {
		err = fmt.Errorf("it took only %d of %d bytes", n, len(v.Data))
	}
	return pathErrno(errors.Join(err, f.Close()))
}

// pathErrno leaves of an error about a file what the caller does not know: the file is
// called by a descriptor there, or its name has been said.
func pathErrno(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		if errors.Is(p.Err, unix.ENODEV) {
			return fmt.Errorf("%w: %w", host.ErrGone, p.Err)
		}
		return p.Err
	}
	return err
}
