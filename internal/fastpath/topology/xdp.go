package topology

import (
	"errors"

	"golang.org/x/sys/unix"
)

// XDPProgram returns the ID of the XDP program of a device of the poller's namespace; 0 means that
// it has none, or is gone. No notification is sent when a program is attached by a BPF link.
func (p *Poller) XDPProgram(device int) (program uint32, err error) {
	program, err = p.querier.xdpProgram(device)
	if errors.Is(err, unix.ENODEV) {
		return 0, nil
	}
	return program, err
}
