package fastpath

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
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

// Table is how full a fast path's table of flows is.
type Table struct {
	Flows  int    // that have an entry, carried or not yet
	Room   int    // for so many
	Memory uint64 // of the kernel, bytes
}

// ReadTable looks through the table of flows, of the folder of a fast path's pins,
// with one call for some thousands of them.
func ReadTable(pins string) (Table, error) {
	t, err := readTable(pins)
	if err != nil {
		return t, fmt.Errorf("read a fast path's table of flows: %w", err)
	}
	return t, nil
}

func readTable(pins string) (Table, error) {
	flows, err := ebpf.LoadPinnedMap(bpf.TableFile(pins, "flows"), &ebpf.LoadPinOptions{ReadOnly: true})
	if err != nil {
		return Table{}, err
	}
	defer flows.Close()
	t := Table{Room: int(flows.MaxEntries())}
	info, err := flows.Info()
	if err != nil {
		return t, err
	}
	t.Memory, _ = info.Memlock()
	var cursor ebpf.MapBatchCursor
	keys, values := make([]bpf.FlowKey, sweepTurn), make([]bpf.Flow, sweepTurn)
	for {
		n, err := flows.BatchLookup(&cursor, keys, values, nil)
		t.Flows += n
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return t, nil
		}
		if err != nil {
			return t, err
		}
	}
}
