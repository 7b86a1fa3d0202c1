package topology

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Commands of bpf(2).
const (
	bpfProgNextID = 11
	bpfProgQuery  = 16
	bpfLinkNextID = 31
)

// BPFObjectIDs follows whether programs of BPF and links of them come on this machine, in
// whatever namespace. Their numbers go up.
type BPFObjectIDs struct{ program, link uint32 }

// HasNew tells whether some have come since the last look. It tells of none where it may
// not look at them.
func (o *BPFObjectIDs) HasNew() bool {
	programs, links := advance(bpfProgNextID, &o.program), advance(bpfLinkNextID, &o.link)
	return programs || links
}

func advance(command uintptr, last *uint32) (is bool) {
	for {
		attr := struct{ start, next, flags uint32 }{start: *last}
		if err := bpf(command, unsafe.Pointer(&attr), unsafe.Sizeof(attr)); err != nil {
			return is
		}
		*last, is = attr.next, true
	}
}

// ProgramsRevision tells how often programs have come and gone at a point of a device,
// since the first came.
func ProgramsRevision(device int, attach uint32) (revision uint64, err error) {
	attr := struct {
		device, attach, flags, attachFlags uint32
		ids                                uint64
		count, _                           uint32
		_, _, _, revision                  uint64
	}{device: uint32(device), attach: attach}
	err = bpf(bpfProgQuery, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENXIO) {
		return 0, nil
	}
	return attr.revision, err
}

func bpf(command uintptr, attr unsafe.Pointer, size uintptr) error {
	if _, _, errno := unix.Syscall(unix.SYS_BPF, command, uintptr(attr), size); errno != 0 {
		return errno
	}
	return nil
}
