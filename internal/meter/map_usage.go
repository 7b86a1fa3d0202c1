package meter

import (
	"bytes"
	"errors"
	"fmt"
	"math/bits"

	"github.com/cilium/ebpf"
)

// mapUsage tells how many entries a hash table of BPF holds. The kernel does not say,
// and to go through a table of a million places would take longer than a slice; but
// it does say what memory the table takes, which grows by the same for each entry.
type mapUsage struct {
	table           *ebpf.Map
	info            *file
	empty, perEntry int64 // bytes
}

// openMapUsage opens a pinned table whose memory is not set aside beforehand.
func openMapUsage(pin string) (h *mapUsage, err error) {
	h = new(mapUsage)
	if h.table, err = ebpf.LoadPinnedMap(pin, &ebpf.LoadPinOptions{ReadOnly: true}); err != nil {
		return nil, err
	}
	if h.info, err = openMapInfo(h.table); err == nil {
		err = h.calibrate()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("size up table %s: %w", pin, err), h.close())
	}
	return h, nil
}

// calibrate finds out what tables of such entries take: with one place and with two,
// empty and with an entry.
func (h *mapUsage) calibrate() error {
	one, err := h.newSized(1)
	if err != nil {
		return err
	}
	defer one.close()
	two, err := h.newSized(2)
	if err != nil {
		return err
	}
	defer two.close()
	first, err := one.memory()
	if err != nil {
		return err
	}
	second, err := two.memory()
	if err != nil {
		return err
	}
	if err := one.table.Put(make([]byte, h.table.KeySize()), make([]byte, h.table.ValueSize())); err != nil {
		return err
	}
	filled, err := one.memory()
	if err != nil {
		return err
	}
	places := int64(1) << bits.Len32(h.table.MaxEntries()-1)
	h.empty, h.perEntry = first+(places-1)*(second-first), filled-first
	if h.perEntry <= 0 {
		return errors.New("its memory does not grow with its entries")
	}
	return nil
}

// newSized makes an empty table of the same entries, with fewer places.
func (h *mapUsage) newSized(places uint32) (*mapUsage, error) {
	table, err := ebpf.NewMap(&ebpf.MapSpec{Type: h.table.Type(), Flags: h.table.Flags(),
		KeySize: h.table.KeySize(), ValueSize: h.table.ValueSize(), MaxEntries: places})
	if err != nil {
		return nil, err
	}
	info, err := openMapInfo(table)
	if err != nil {
		return nil, errors.Join(err, table.Close())
	}
	return &mapUsage{table: table, info: info}, nil
}

// openMapInfo opens the file in which the kernel tells of a table.
func openMapInfo(m *ebpf.Map) (*file, error) {
	return openFile("/", fmt.Sprintf("proc/self/fdinfo/%d", m.FD()))
}

// memory is what the table takes, bytes.
func (h *mapUsage) memory() (int64, error) {
	b, err := h.info.read()
	if err != nil {
		return 0, err
	}
	_, after, _ := bytes.Cut(b, []byte("\nmemlock:"))
	n, _, ok := number(after)
	if !ok {
		return 0, errors.New("the kernel does not tell what memory a table takes")
	}
	return n, nil
}

// entries is how many there are.
func (h *mapUsage) entries() (int64, error) {
	n, err := h.memory()
	return (n - h.empty) / h.perEntry, err
}

func (h *mapUsage) close() error {
	if h.info == nil {
		return h.table.Close()
	}
	return errors.Join(h.info.close(), h.table.Close())
}
