package host

import (
	"cmp"
	"errors"
	"io"
	"os"
)

// PolledFile is a file in /proc that is read repeatedly. It is opened on first use, and again if what
// it describes was gone, as when a module is reloaded.
type PolledFile struct {
	Path string
	Size int // bytes that are read at most; 0: 256
	file *os.File
	text []byte // the last content
}

// Read reads the file from its beginning.
func (f *PolledFile) Read() (text string, err error) {
	if f.file != nil {
		if text, err = f.reread(); err == nil {
			return text, nil
		}
		f.Close()
	}
	if f.file, err = os.Open(f.Path); err != nil {
		f.file = nil
		return "", err
	}
	return f.reread()
}

// Close closes the file, which the next Read opens again.
func (f *PolledFile) Close() {
	if f.file != nil {
		f.file.Close()
		f.file = nil
	}
}

// reread reads the open file from its beginning.
func (f *PolledFile) reread() (string, error) {
	if f.text == nil {
		f.text = make([]byte, cmp.Or(f.Size, 256))
	}
	n, err := f.file.ReadAt(f.text, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return string(f.text[:n]), nil
}
