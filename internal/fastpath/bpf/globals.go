package bpf

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// ReadEpoch reads the policy epoch of a fast path of a kind from the folder of its pins.
func ReadEpoch(pins, kind string) (uint32, error) {
	value, err := readGlobal(pins, kind, "epoch", 4)
	if err != nil {
		return 0, fmt.Errorf("read the policy epoch: %w", err)
	}
	return binary.NativeEndian.Uint32(value), nil
}

// ReadExpired reads for how many jiffies the lease of a fast path of a kind has been over; 0: it is valid, or the
// daemon has revoked it.
func ReadExpired(pins, kind string) (uint32, error) {
	value, err := readGlobal(pins, kind, "deadline", 8)
	if err != nil {
		return 0, fmt.Errorf("read the lease: %w", err)
	}
	deadline := binary.NativeEndian.Uint64(value)
	if deadline == 0 {
		return 0, nil
	}
	now, err := jiffies()
	if err != nil {
		return 0, fmt.Errorf("read the clock of the lease: %w", err)
	}
	return uint32(max(int32(now-uint32(deadline)), 0)), nil
}

// jiffies is the lower half of the kernel's clock, which only a program can read. The daemon of a fast path looks at
// all programs of the host once it has seen a new one, which costs it little.
func jiffies() (uint32, error) {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{asm.FnJiffies64.Call(), asm.Return()},
	})
	if err != nil {
		return 0, err
	}
	defer p.Close()
	now, _, err := p.Test(make([]byte, ethLen))
	return now, err
}

// readGlobal reads the bytes of a variable that the daemon and its programs share.
func readGlobal(pins, kind, name string, size int) ([]byte, error) {
	is, err := layoutOf(kind, false)
	if err != nil {
		return nil, err
	}
	at, err := is.offset(name)
	if err != nil {
		return nil, err
	}
	data, err := ebpf.LoadPinnedMap(TableFile(pins, dataTable), &ebpf.LoadPinOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer data.Close()
	globals, err := data.LookupBytes(uint32(0))
	if err != nil {
		return nil, err
	}
	if len(globals) < at+size {
		return nil, fmt.Errorf("the table has %d bytes", len(globals))
	}
	return globals[at : at+size], nil
}
