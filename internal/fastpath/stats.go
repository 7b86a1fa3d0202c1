package fastpath

import (
	"fmt"
	"os"
	"strings"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
)

// Stat counts the packets with one outcome since the fast path was set up.
type Stat struct {
	Count   bpf.Count
	Packets uint64
	Bytes   uint64
	IPv6    bool // of the fast path for IPv6
}

// Key is that of the count. To the fast path for IPv6, what the programs do not know is not IPv6.
func (s Stat) Key() string {
	if s.IPv6 {
		return strings.Replace(s.Count.Key(), "not_ipv4", "not_ipv6", 1)
	}
	return s.Count.Key()
}

// ErrOtherVersion is that the tables of a fast path are those of another version, so this one cannot read them.
var ErrOtherVersion = bpf.ErrOtherVersion

// CheckVersion expects that this version can read the tables of a fast path from the folder of its pins. Before its
// daemon has made them, the error wraps os.ErrNotExist.
func CheckVersion(c *Config, pins string) error { return bpf.CheckLayout(pins, c.Kind) }

// HasTables tells whether the tables of a fast path can be seen in the folder of its pins.
func HasTables(pins string) bool {
	_, err := os.Stat(bpf.TableFile(pins, "flows"))
	return err == nil
}

// ReadStats reads the counters of a fast path from the folder of its pins, one for every
// outcome, in order. The daemon need not run.
func ReadStats(pins string) ([]Stat, error) {
	table, err := openTable(pins, "counts")
	if err != nil {
		return nil, fmt.Errorf("read the counters of a fast path: %w", err)
	}
	defer table.Close()
	stats := make([]Stat, bpf.Counts)
	for c := range bpf.Counts {
		var cores []bpf.Counter
		if err := table.Lookup(uint32(c), &cores); err != nil {
			return nil, fmt.Errorf("read the counters of a fast path: %w", err)
		}
		stats[c].Count = c
		for _, one := range cores {
			stats[c].Packets += one.Packets
			stats[c].Bytes += one.Bytes
		}
	}
	return stats, nil
}

// Table describes the use of a fast path's table of flows.
type Table struct {
	Flows  int    // entries, of flows that are carried or not yet
	Room   int    // maximum number of entries
	Memory uint64 // kernel memory, bytes
}

// ReadTable reads the table of flows from the folder of a fast path's pins, some thousands of
// entries in one system call.
func ReadTable(pins string) (Table, error) {
	t, err := readTable(pins)
	if err != nil {
		return t, fmt.Errorf("read a fast path's table of flows: %w", err)
	}
	return t, nil
}

func readTable(pins string) (Table, error) {
	t, err := readRoom(pins)
	if err != nil {
		return t, err
	}
	err = eachFlow(pins, func(k bpf.FlowKey, _ bpf.Flow) {
		if !k.IsOnWire() { // it has another entry
			t.Flows++
		}
	})
	return t, err
}

// readRoom reads what does not take a look at each flow.
func readRoom(pins string) (Table, error) {
	flows, err := openTable(pins, "flows")
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
	return t, nil
}
