package setting

import (
	"errors"
	"maps"
	"os"
	"slices"

	"github.com/venturi-net/venturi/internal/host"
)

// deviceStores are the kinds of values that devices have, in the order in which
// they are restored: what makes others anew comes first.
func deviceStores() []Store {
	return []Store{
		channels.made(), rings.made(), privateFlagStore(), featureStore(),
		coalesce.made(), pause.made(), flowHashStore(), rssStore(), linkStore(), qdiscStore(), deviceFileStore(), napiStore(),
	}
}

// DeviceCells lists every value of a device that exists, in the order in which
// they are to be restored.
func DeviceCells(p Place) (cells []Cell, err error) {
	if p.Device == nil {
		return nil, errors.New("no device is named")
	}
	err = p.near(func(p Place) error {
		cells, err = deviceCells(p)
		return err
	})
	for i := range cells {
		cells[i].Place.inside = nil // they outlive it
	}
	return cells, err
}

func deviceCells(p Place) ([]Cell, error) {
	var candidates []Cell
	add := func(store string, keys ...string) {
		for _, key := range keys {
			candidates = append(candidates, Cell{Store: store, Place: p, Key: key})
		}
	}
	add(channels.store, "")
	add(rings.store, "")
	if flags, err := PrivateFlags(p); err == nil {
		add("privflag", slices.Sorted(maps.Keys(flags))...)
	}
	features, err := DeviceFeatures(p)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(features)) {
		if features[name].Settable {
			add("feature", name)
		}
	}
	add(coalesce.store, "")
	add(pause.store, "")
	add("flowhash", slices.Sorted(maps.Keys(flows))...)
	add("rss", "")
	add("link", "mtu", "txqueuelen", "gso_max_size", "gro_max_size", "gso_ipv4_max_size", "gro_ipv4_max_size")
	for _, pattern := range deviceFiles {
		keys, err := DeviceFiles(p, pattern)
		if err != nil {
			return nil, err
		}
		add("net", keys...)
	}
	for _, what := range slices.Sorted(maps.Keys(napiNumbers)) { // after those of the device, which are for all
		napis, err := NAPICells(p, what)
		if err != nil {
			return nil, err
		}
		candidates = append(candidates, napis...)
	}
	candidates = append(candidates, QdiscCell(p))
	irqs, err := irqCells(p) // of queues that were made anew, drivers forget the cores
	if err != nil {
		return nil, err
	}
	candidates = append(candidates, irqs...)
	cells := NewCells(append(deviceStores(), irqStore(""))...)
	return slices.DeleteFunc(candidates, func(c Cell) bool {
		if c.Store == "feature" {
			return false // it was just read
		}
		_, err := cells.Read(c)
		return err != nil
	}), nil
}

// irqCells lists those of the card behind a device; none, where there is no card.
func irqCells(p Place) (cells []Cell, err error) {
	err = p.Enter(func(device string) error {
		return p.sysfs(func(root string) error {
			irqs, err := host.Reader{}.IRQs(root, device)
			for _, irq := range irqs {
				cells = append(cells, IRQCell(irq))
			}
			if errors.Is(err, os.ErrNotExist) {
				return nil
			}
			return err
		})
	})
	return cells, err
}

// deviceFiles are the files of a device in sysfs that can be set.
var deviceFiles = []string{
	"threaded", "napi_defer_hard_irqs", "gro_flush_timeout",
	"queues/rx-*/rps_cpus", "queues/rx-*/rps_flow_cnt", "queues/tx-*/xps_cpus", "queues/tx-*/xps_rxqs",
}

// deviceCellsBut lists the other values of a cell's device.
func deviceCellsBut(c Cell) ([]Cell, error) {
	all, err := DeviceCells(c.Place)
	return slices.DeleteFunc(all, func(other Cell) bool { return other.ID() == c.ID() }), err
}
