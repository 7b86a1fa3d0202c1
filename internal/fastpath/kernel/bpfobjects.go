package kernel

import (
	"errors"
	"io/fs"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// BPFObjectIDs detects new BPF programs and links anywhere on this host, in any namespace. The
// kernel assigns their IDs in ascending order.
type BPFObjectIDs struct{ program, link uint32 }

// BPFNews is what may have changed because of new BPF programs and links.
type BPFNews struct {
	Programs bool // programs that see packets at devices or at netfilter's hooks
	XDPLinks bool // of those, XDP programs that are attached by a link, which is announced nowhere
}

// Poll reports what is new since the last poll. The first time, and without the privilege to list
// programs and links, anything may be.
func (o *BPFObjectIDs) Poll() (news BPFNews) {
	first := o.program == 0
	knowsPrograms := eachNew(unix.BPF_PROG_GET_NEXT_ID, &o.program, func(id uint32) {
		news.Programs = news.Programs || !first && seesPackets(ebpf.ProgramID(id))
	})
	knowsLinks := eachNew(unix.BPF_LINK_GET_NEXT_ID, &o.link, func(id uint32) {
		if !first {
			news.add(newsOfLink(link.ID(id)))
		}
	})
	if first || !knowsPrograms || !knowsLinks {
		return BPFNews{true, true}
	}
	return news
}

func (n *BPFNews) add(more BPFNews) {
	n.Programs, n.XDPLinks = n.Programs || more.Programs, n.XDPLinks || more.XDPLinks
}

// eachNew calls do for each ID above the last one. It reports false if that cannot be known.
func eachNew(command uintptr, last *uint32, do func(id uint32)) bool {
	for {
		attr := struct{ start, next, flags uint32 }{start: *last}
		if err := callBPF(command, unsafe.Pointer(&attr), unsafe.Sizeof(attr)); err != nil {
			return errors.Is(err, unix.ENOENT) // there is no higher one
		}
		*last = attr.next
		do(attr.next)
	}
}

// seesPackets reports whether a program is of a type that can be attached to a device or to
// netfilter. One that is gone is attached to nothing.
func seesPackets(id ebpf.ProgramID) bool {
	p, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer p.Close()
	switch p.Type() {
	case ebpf.SchedCLS, ebpf.SchedACT, ebpf.XDP, ebpf.Netfilter:
		return true
	}
	return false
}

// newsOfLink reports what a new link attaches.
func newsOfLink(id link.ID) BPFNews {
	l, err := link.NewFromID(id)
	if errors.Is(err, fs.ErrNotExist) {
		return BPFNews{}
	}
	if err != nil {
		return BPFNews{true, true}
	}
	defer l.Close()
	info, err := l.Info()
	if err != nil {
		return BPFNews{true, true}
	}
	switch info.Type {
	case link.XDPType:
		return BPFNews{true, true}
	case link.TCXType, link.NetkitType, link.NetfilterType:
		return BPFNews{Programs: true}
	}
	return BPFNews{}
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
	err = callBPF(unix.BPF_PROG_QUERY, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	switch {
	case errors.Is(err, unix.ENOENT):
		return FirstRevision, nil
	case errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		return 0, nil
	}
	return attr.revision, err
}

func callBPF(command uintptr, attr unsafe.Pointer, size uintptr) error {
	if _, _, errno := unix.Syscall(unix.SYS_BPF, command, uintptr(attr), size); errno != 0 {
		return errno
	}
	return nil
}
