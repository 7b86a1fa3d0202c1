package kernel

import (
	"errors"
	"fmt"
	"io"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
)

// AttachTCXHead attaches a program to a device of a network namespace, ahead of all programs
// that are there: it sees every packet that they see. It stays until it is closed, or this
// process ends. The error wraps [host.ErrGone] if there is no such device.
func AttachTCXHead(namespace string, p *ebpf.Program, device int, at AttachPoint) (attached io.Closer, err error) {
	err = host.Do(namespace, func() (err error) {
		attached, err = link.AttachTCX(link.TCXOptions{
			Interface: device, Program: p, Attach: ebpf.AttachType(at), Anchor: link.Head(),
		})
		return err
	})
	if errors.Is(err, unix.ENODEV) {
		err = host.ErrGone
	}
	if err != nil {
		return nil, fmt.Errorf("attach a program to device %d of %s: %w", device, namespace, err)
	}
	return attached, nil
}
