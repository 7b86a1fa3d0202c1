package bpf

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf"
)

// ReadEpoch reads the policy epoch of a fast path of a kind from the folder of its pins.
func ReadEpoch(pins, kind string) (uint32, error) {
	spec, err := source(kind, false)
	if err != nil {
		return 0, err
	}
	data, err := ebpf.LoadPinnedMap(TableFile(pins, dataTable), &ebpf.LoadPinOptions{ReadOnly: true})
	if err != nil {
		return 0, err
	}
	defer data.Close()
	globals, err := data.LookupBytes(uint32(0))
	if err != nil {
		return 0, fmt.Errorf("read the policy epoch: %w", err)
	}
	at := int(spec.Variables["epoch"].Offset)
	if len(globals) < at+4 {
		return 0, fmt.Errorf("read the policy epoch: its table has %d bytes", len(globals))
	}
	return binary.NativeEndian.Uint32(globals[at:]), nil
}
