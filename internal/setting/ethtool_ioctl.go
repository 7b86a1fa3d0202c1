package setting

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The receive hash is asked for and set by ioctl: netlink reads it on new kernels
// only, and sets it on newer ones still. Commands and layouts are those of
// <linux/ethtool.h>.
const (
	getHashFields = 0x29 // ETHTOOL_GRXFH
	setHashFields = 0x2a // ETHTOOL_SRXFH
	getRings      = 0x2d // ETHTOOL_GRXRINGS
	countRules    = 0x2e // ETHTOOL_GRXCLSRLCNT
	getHash       = 0x46 // ETHTOOL_GRSSH
	setHash       = 0x47 // ETHTOOL_SRSSH
)

// flowRequest is the beginning of struct ethtool_rxnfc, with room for its rest.
type flowRequest struct {
	command, flow uint32
	data          uint64
	_             [168]byte // struct ethtool_rx_flow_spec
	rules         uint32
	_             [84]byte
}

// byIoctl hands the kernel a request about a device of the calling thread's
// namespace.
func byIoctl(device string, request unsafe.Pointer) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open ethtool: %w", err)
	}
	defer unix.Close(fd)
	ifreq := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: request}
	copy(ifreq.name[:unix.IFNAMSIZ-1], device)
	_, _, number := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&ifreq)))
	if number == 0 {
		return nil
	}
	return driverError(number)
}

// onDevice runs fn in the namespace of a scope, with the name of its device. Errors are as
// of [withEthtool].
func onDevice(scope Scope, fn func(device string) error) error {
	if scope.Device == nil {
		return errors.New("no device is named")
	}
	return scope.Enter(func(device string) error { return scope.explainMissing(device, fn(device)) })
}

// receiveRings is how many rings a device receives by, 0 where it does not tell.
func receiveRings(device string) int {
	r := flowRequest{command: getRings}
	if byIoctl(device, unsafe.Pointer(&r)) != nil {
		return 0
	}
	return int(r.data)
}

// FilterRules is how many rules somebody gave a device to sort packets by (ntuple);
// 0 where it takes none.
func FilterRules(scope Scope) (n int, err error) {
	err = onDevice(scope, func(device string) error {
		r := flowRequest{command: countRules}
		err := byIoctl(device, unsafe.Pointer(&r))
		n = int(r.rules)
		if errors.Is(err, unix.EOPNOTSUPP) {
			n, err = 0, nil
		}
		return err
	})
	return n, err
}

// hashHeader is struct ethtool_rxfh, of which the table and the key are the rest.
type hashHeader struct {
	command, context   uint32
	tableSize, keySize uint32
	function, change   uint8
	_                  [2]uint8
	_                  uint32
}

// Sizes are of 32 and 8 bits.
const (
	headerSize = int(unsafe.Sizeof(hashHeader{}))
	// sameTable as the size of a table leaves it as it is; a size of 0 makes it
	// the default one, and the kernel forgets that anybody ever set it.
	sameTable = 0xffffffff
)

// hashIoctl hands over a header, a table and a key, and puts into them what the
// kernel answers.
func hashIoctl(device string, h *hashHeader, table []uint32, key []byte) error {
	// The kernel wants them in one piece, aligned to 32 bits.
	buffer := make([]uint32, headerSize/4+len(table)+(len(key)+3)/4)
	start := unsafe.Pointer(unsafe.SliceData(buffer))
	*(*hashHeader)(start) = *h
	copy(buffer[headerSize/4:], table)
	rest := unsafe.Slice((*byte)(start), len(buffer)*4)[headerSize+4*len(table):]
	copy(rest, key)
	if err := byIoctl(device, start); err != nil {
		return err
	}
	*h = *(*hashHeader)(start)
	copy(table, buffer[headerSize/4:])
	copy(key, rest)
	return nil
}
