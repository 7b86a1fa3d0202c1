package kernel

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// More fields of the header of an x86 boot image.
const (
	setupSectorsAt  = 0x1f1 // number of sectors of setup code after the first
	payloadOffsetAt = 0x248 // of the compressed kernel, from the end of the setup code
	payloadLengthAt = 0x24c
	payloadEnd      = 0x250
	sector          = 512
	lengthSize      = 4  // after the payload: its decompressed size
	noteXenPVH      = 18 // XEN_ELFNOTE_PHYS32_ENTRY
)

// compressions are the compressions of a kernel in its image, by magic number. The name is the file
// extension.
var compressions = map[string]string{"\xfd7zXZ\x00": ".xz", "\x28\xb5\x2f\xfd": ".zst", "\x1f\x8b": ".gz"}

// addPlain decompresses the kernel of a folder's image to a file beside it, because an emulated CPU
// would spend seconds on that at each boot. It skips kernels that cannot be started so, and unknown
// compressions.
func addPlain(folder, release string) error {
	image, err := os.ReadFile(filepath.Join(folder, "boot", "vmlinuz-"+release))
	if err != nil {
		return err
	}
	kernel, err := plain(image)
	if errors.Is(err, errNotPlain) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("decompress the kernel: %w", err)
	}
	return write(plainFile(folder, release), bytes.NewReader(kernel))
}

func plainFile(folder, release string) string {
	return filepath.Join(folder, "boot", "vmlinux-"+release)
}

var errNotPlain = errors.New("the kernel cannot be started without its image")

// plain extracts the kernel from a bzImage: an ELF file with a 32-bit entry point (PVH,
// Documentation of Xen: x86/hvm). Otherwise the error is errNotPlain.
func plain(image []byte) ([]byte, error) {
	if len(image) < payloadEnd || string(image[magicAt:magicAt+len(magic)]) != magic {
		return nil, errNoImage
	}
	from := (int(image[setupSectorsAt])+1)*sector + int(binary.LittleEndian.Uint32(image[payloadOffsetAt:]))
	to := from + int(binary.LittleEndian.Uint32(image[payloadLengthAt:]))
	if to > len(image) || from >= to {
		return nil, errNotPlain
	}
	payload := image[from:to]
	for begins, ending := range compressions {
		if !bytes.HasPrefix(payload, []byte(begins)) {
			continue
		}
		if ending != ".gz" { // gzip's own trailer includes the size
			payload = payload[:len(payload)-lengthSize]
		}
		r, err := decompress(ending, bytes.NewReader(payload))
		if err != nil {
			return nil, err
		}
		kernel, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		if !startsItself(kernel) {
			return nil, errNotPlain
		}
		return kernel, nil
	}
	return nil, errNotPlain
}

// startsItself reports whether an ELF file has a 32-bit entry point.
func startsItself(kernel []byte) bool {
	f, err := elf.NewFile(bytes.NewReader(kernel))
	if err != nil {
		return false
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_NOTE {
			continue
		}
		notes, err := io.ReadAll(p.Open())
		if err != nil {
			return false
		}
		for len(notes) >= 12 {
			name, desc := round4(f.ByteOrder.Uint32(notes)), round4(f.ByteOrder.Uint32(notes[4:]))
			if f.ByteOrder.Uint32(notes[8:]) == noteXenPVH && bytes.HasPrefix(notes[12:], []byte("Xen\x00")) {
				return true
			}
			if uint64(len(notes)) < 12+name+desc {
				break
			}
			notes = notes[12+name+desc:]
		}
	}
	return false
}

// round4 rounds a length up to a multiple of four bytes.
func round4(n uint32) uint64 { return (uint64(n) + 3) &^ 3 }
