package setting

import (
	"errors"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
)

// The kernel says of a device that its driver has detached, as of one of another name since,
// what it says of one that is gone. It is only gone where it is not found any more.
func TestDetachedIsNotGone(t *testing.T) {
	for name, index := range map[string]int{"there": 1, "gone": 1 << 30} {
		scope := Scope{Netns: &NetnsID{Path: HomeNetns}, Device: &DeviceID{Name: "lo", Index: index, Kind: "device"}, entered: &entered{device: "no-such"}}
		defer scope.entered.close()
		byNetlink := withEthtool(scope, func(e *ethConn) error {
			_, err := e.features()
			return err
		})
		r := flowRequest{command: getRings}
		byRequest := onDevice(scope, func(device string) error { return byIoctl(device, unsafe.Pointer(&r)) })
		byFile := atDeviceFile(Setting{Scope: scope, Key: "mtu"}, func(file string) error {
			return pathErrno(&os.PathError{Op: "read", Path: file, Err: unix.ENODEV})
		})
		for _, err := range []error{byNetlink, byRequest, byFile} {
			if errors.Is(err, host.ErrGone) != (name == "gone") || name == "there" && !errors.Is(err, unix.ENODEV) {
				t.Errorf("one that is %s: %v", name, err)
			}
		}
	}
	scope := Scope{Netns: &NetnsID{Path: HomeNetns}, Device: &DeviceID{Name: "lo", Index: 1 << 30, Kind: "device"}} // it was moved, and has another number here
	if err := scope.explainMissing("lo", unix.ENODEV); errors.Is(err, host.ErrGone) {
		t.Errorf("one that moved and does not answer: %v", err)
	}
}
