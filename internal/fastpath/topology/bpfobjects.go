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

// BPFObjectIDs detects new BPF programs and links anywhere on this host, in any namespace. The
// kernel assigns their ids in ascending order.
type BPFObjectIDs struct{ program, link uint32 }

// HasNew reports whether programs or links were created since the last poll. Without the privilege
// to list them, it reports false.
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

// FirstRevision is the revision of an attach point where no program was attached yet. The kernel
// gives it as soon as it has an entry for the point, which it also makes for tc filters.
const FirstRevision = 1

// ProgramsRevision returns the revision of an attach point of a device: a counter of the programs
// attached and detached there. It is 0 if the device is gone.
func ProgramsRevision(device int, attach uint32) (revision uint64, err error) {
	attr := struct {
		device, attach, flags, attachFlags uint32
		ids                                uint64
		count, _                           uint32
		_, _, _, revision                  uint64
	}{device: uint32(device), attach: attach}
	err = bpf(bpfProgQuery, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	switch {
	case errors.Is(err, unix.ENOENT):
		return FirstRevision, nil
	case errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
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
