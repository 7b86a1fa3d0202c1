package kernel

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"testing"
)

// bzImage makes an image around a compressed kernel.
func bzImage(payload []byte) []byte {
	const sectors = 1
	b := make([]byte, (sectors+1)*sector)
	b[setupSectorsAt] = sectors
	copy(b[magicAt:], magic)
	binary.LittleEndian.PutUint32(b[payloadLengthAt:], uint32(len(payload)))
	return append(b, payload...)
}

// elfKernel makes an ELF file with one note.
func elfKernel(t *testing.T, kind uint32) []byte {
	note := []uint32{4, 4, kind, binary.LittleEndian.Uint32([]byte("Xen\x00")), 0x1000000}
	var b bytes.Buffer
	head := elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: 1, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64,
	}
	prog := elf.Prog64{Type: uint32(elf.PT_NOTE), Off: 120, Filesz: 20}
	for _, part := range []any{head, prog, note} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func TestPlain(t *testing.T) {
	kernel := elfKernel(t, noteXenPVH)
	length := []byte{1, 2, 3, 4}
	for _, ext := range []string{".xz", ".zst", ".gz"} {
		payload := []byte(compressed(t, ext, string(kernel)))
		if ext != ".gz" {
			payload = append(payload, length...)
		}
		got, err := plain(bzImage(payload))
		if err != nil || !bytes.Equal(got, kernel) {
			t.Errorf("%s: %d bytes (%v), want the kernel's %d", ext, len(got), err, len(kernel))
		}
	}
	without := append([]byte(compressed(t, ".xz", string(elfKernel(t, noteXenPVH+1)))), length...)
	for name, image := range map[string][]byte{
		"no entry":            bzImage(without),
		"unknown compression": bzImage([]byte("LZO and more")),
		"cut off":             bzImage(without)[:700],
	} {
		if _, err := plain(image); !errors.Is(err, errNotPlain) {
			t.Errorf("%s: %v, want %v", name, err, errNotPlain)
		}
	}
	if _, err := plain([]byte("text")); !errors.Is(err, errNoImage) {
		t.Errorf("text: %v, want %v", err, errNoImage)
	}
	if _, err := plain(bzImage(append([]byte("\xfd7zXZ\x00 damaged"), length...))); err == nil || errors.Is(err, errNotPlain) {
		t.Errorf("damaged: %v, want an error of its own", err)
	}
}
