package kernel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/venturi-net/venturi/internal/verr"
)

// Fields of the header of an x86 boot image (Documentation/arch/x86/boot.rst).
const (
	headerSize  = 0x8000 // the release is within the first 32 KiB
	magicAt     = 0x202
	magic       = "HdrS"
	releaseAt   = 0x20e // 16-bit offset, less 0x200, of a text that begins with the release
	setupOffset = 0x200
)

var errNoImage = errors.New("the file is not a bzImage: its header lacks the magic " + magic)

// open returns the kernel of a bzImage file that a user named.
func open(file string) (Kernel, error) {
	what := "cannot use kernel " + file
	release, err := releaseIn(file)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return Kernel{}, verr.Wrap(verr.Usage, what, err, `name the file of a bzImage (vmlinuz), or a version such as 6.1`)
	case errors.Is(err, os.ErrPermission):
		return Kernel{}, verr.Wrap(verr.Permission, what, err, "make it readable for this user, or run as root")
	case err != nil:
		return Kernel{}, verr.Wrap(verr.Usage, what, err, `name the file that boots: arch/x86/boot/bzImage, or vmlinuz-RELEASE; not the ELF file vmlinux`)
	}
	image, err := filepath.Abs(file)
	if err != nil {
		return Kernel{}, err
	}
	k := Kernel{Release: release, Image: image, Source: "a file"}
	for _, folder := range k.ModuleDirs() {
		if info, err := os.Stat(folder); err == nil && info.IsDir() {
			k.Modules = folder
			break
		}
	}
	return k, nil
}

// releaseIn reads the release from the header of a bzImage.
func releaseIn(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return "", errors.New("it is a directory")
	}
	header := make([]byte, headerSize)
	n, err := io.ReadFull(f, header)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", fmt.Errorf("read header: %w", err)
	}
	header = header[:n]
	if len(header) < releaseAt+2 || string(header[magicAt:magicAt+len(magic)]) != magic {
		return "", errNoImage
	}
	at := int(binary.LittleEndian.Uint16(header[releaseAt:]))
	if at == 0 || at+setupOffset >= len(header) {
		return "", errors.New("the bzImage does not say which release it is")
	}
	text, _, _ := bytes.Cut(header[at+setupOffset:], []byte{0})
	release, _, _ := strings.Cut(string(text), " ")
	if seriesOf(release) == "" || strings.Contains(release, "/") {
		return "", fmt.Errorf("the bzImage calls its release %q, which is not a release", release)
	}
	return release, nil
}
