package accel

import (
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/venturi-net/venturi/internal/bpf"
)

// Stat is what became of packets for one reason, since the fast path was laid.
type Stat struct {
	What    bpf.Count
	Packets uint64
	Bytes   uint64
}

// ReadStats reads what a fast path has counted, from the folder of its pins, whether
// its daemon lives or not: every reason, in their order.
func ReadStats(pins string) ([]Stat, error) {
	table, err := ebpf.LoadPinnedMap(bpf.TableFile(pins, "counts"), &ebpf.LoadPinOptions{ReadOnly: true})
	if err != nil {
		return nil, fmt.Errorf("read what a fast path has counted: %w", err)
	}
	defer table.Close()
	stats := make([]Stat, bpf.Counts)
	for c := range bpf.Counts {
		var cores []bpf.Counter
		if err := table.Lookup(uint32(c), &cores); err != nil {
			return nil, fmt.Errorf("read what a fast path has counted: %w", err)
		}
		stats[c].What = c
		for _, one := range cores {
			stats[c].Packets += one.Packets
			stats[c].Bytes += one.Bytes
		}
	}
	return stats, nil
}
