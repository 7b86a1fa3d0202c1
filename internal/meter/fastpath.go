package meter

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
)

// fastPaths reads what the programs of an arm's fast path have counted: packets,
// by what became of them; and how many flows its table holds. The wire shows the
// programs packets of other arms too, so counts hold only from the start to the end
// of a slice.
type fastPaths struct {
	arms   []*fastPath // nil: it has no fast path here
	keys   []string
	ids    []uint32 // of the counts; the kernel writes them, the same each time
	cores  int      // that a count is kept for
	counts []bpf.Counter
}

// fastPath is that of one arm.
type fastPath struct {
	counts *ebpf.Map
	flows  *mapUsage
}

// flowsKey is the last key: a level and no sum.
const flowsKey = "accel/flows"

func openFastPath(s Setup) (Sampler, error) {
	cores, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, err
	}
	m := &fastPaths{cores: cores, ids: make([]uint32, bpf.Counts), counts: make([]bpf.Counter, cores*int(bpf.Counts))}
	for c := range bpf.Counts {
		m.keys = append(m.keys, "accel/"+c.Key())
	}
	m.keys = append(m.keys, flowsKey)
	for _, arm := range s.Arms {
		path, err := openTables(arm.Pins)
		m.arms = append(m.arms, path)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open the tables of the fast path of %s: %w", arm.Name, err), m.Close())
		}
	}
	return m, nil
}

// openTables opens the tables that are pinned in a folder; nil: there are none.
// That a fast path has gone is told by others, and must not end the run.
func openTables(pins string) (p *fastPath, err error) {
	if pins == "" {
		return nil, nil
	}
	p = new(fastPath)
	p.counts, err = ebpf.LoadPinnedMap(bpf.TableFile(pins, "counts"), &ebpf.LoadPinOptions{ReadOnly: true})
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p.flows, err = openMapUsage(bpf.TableFile(pins, "flows"))
	return p, err
}

func (m *fastPaths) Keys() []string { return m.keys }

// Has tells which arms have a fast path.
func (m *fastPaths) Has(arm int) bool { return m.arms[arm] != nil }

// Level tells that flows are a level.
func (m *fastPaths) Level(key int) bool { return m.keys[key] == flowsKey }

func (m *fastPaths) Resolution() string {
	return "packets that the fast path's programs saw at the pods' devices and on the wire, large ones before they are cut"
}

func (m *fastPaths) Sample(arm int, dst []int64) (err error) {
	clear(dst)
	if !m.Has(arm) {
		return nil
	}
	var at ebpf.MapBatchCursor
	n, err := m.arms[arm].counts.BatchLookup(&at, m.ids, m.counts, nil)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) { // which says that these were the last
		return fmt.Errorf("read counts of a fast path: %w", err)
	}
	if n != len(m.ids) {
		return fmt.Errorf("read counts of a fast path: it has %d, not %d", n, len(m.ids))
	}
	for i, id := range m.ids {
		for _, core := range m.counts[i*m.cores : (i+1)*m.cores] {
			dst[id] += int64(core.Packets)
		}
	}
	dst[len(dst)-1], err = m.arms[arm].flows.entries()
	return err
}

func (m *fastPaths) Close() error {
	var errs []error
	for _, p := range m.arms {
		if p == nil {
			continue
		}
		errs = append(errs, p.counts.Close())
		if p.flows != nil {
			errs = append(errs, p.flows.close())
		}
	}
	return errors.Join(errs...)
}
