package host

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// rxnfc is the beginning of struct ethtool_rxnfc of <linux/ethtool.h>, with room
// for its rest.
type rxnfc struct {
	command, flow uint32
	data          uint64
	rest          [256]byte
}

const (
	ethtoolGetHash = 0x29 // ETHTOOL_GRXFH
	udpV4          = 0x02 // UDP_V4_FLOW
)

// hashFields are the bits of rxnfc.data.
var hashFields = []struct {
	bit  uint64
	name string
}{{1 << 4, "src"}, {1 << 5, "dst"}, {1 << 6, "sport"}, {1 << 7, "dport"}}

// udpHash reads what a device of the calling thread's namespace chooses the
// receive queue of a UDP packet by; nil: it does not tell.
func udpHash(device string) []string {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	question := rxnfc{command: ethtoolGetHash, flow: udpV4}
	request := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: unsafe.Pointer(&question)}
	copy(request.name[:unix.IFNAMSIZ-1], device)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return nil
	}
	var fields []string
	for _, f := range hashFields {
		if question.data&f.bit != 0 {
			fields = append(fields, f.name)
		}
	}
	return fields
}
