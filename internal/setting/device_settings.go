package setting

import (
	"errors"
	"maps"
	"os"
	"slices"

	"github.com/venturi-net/venturi/internal/host"
)

// deviceBackends are the kinds of values that devices have, in the order in which
// they are restored: what makes others anew comes first.
func deviceBackends() []Backend {
	return []Backend{
		channels.backend(), rings.backend(), privateFlagBackend(), featureBackend(),
		coalesce.backend(), pause.backend(), flowHashBackend(), rssBackend(), linkBackend(), qdiscBackend(), deviceFileBackend(), napiBackend(),
	}
}

// DeviceSettings lists every value of a device that exists, in the order in which
// they are to be restored.
func DeviceSettings(p Scope) (cells []Setting, err error) {
	if p.Device == nil {
		return nil, errors.New("no device is named")
	}
	err = p.withEntered(func(p Scope) error {
		cells, err = deviceSettings(p)
		return err
	})
	for i := range cells {
		cells[i].Scope.entered = nil // they outlive it
	}
	return cells, err
}

func deviceSettings(p Scope) ([]Setting, error) {
	var candidates []Setting
	add := func(store string, keys ...string) {
		for _, key := range keys {
			candidates = append(candidates, Setting{Backend: store, Scope: p, Key: key})
		}
	}
	add(channels.backendName, "")
	add(rings.backendName, "")
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
	add(coalesce.backendName, "")
	add(pause.backendName, "")
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
		napis, err := NAPISettings(p, what)
		if err != nil {
			return nil, err
		}
		candidates = append(candidates, napis...)
	}
	candidates = append(candidates, QdiscSetting(p))
	irqs, err := irqSettings(p) // of queues that were made anew, drivers forget the cores
	if err != nil {
		return nil, err
	}
	candidates = append(candidates, irqs...)
	cells := NewSettings(append(deviceBackends(), irqBackend(""))...)
	return slices.DeleteFunc(candidates, func(c Setting) bool {
		if c.Backend == "feature" {
			return false // it was just read
		}
		_, err := cells.Read(c)
		return err != nil
	}), nil
}

// irqSettings lists those of the card behind a device; none, where there is no card.
func irqSettings(p Scope) (cells []Setting, err error) {
	err = p.Enter(func(device string) error {
		return p.sysfs(func(root string) error {
			irqs, err := host.Reader{}.IRQs(root, device)
			for _, irq := range irqs {
				cells = append(cells, IRQSetting(irq))
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

// otherDeviceSettings lists the other values of a setting's device.
func otherDeviceSettings(c Setting) ([]Setting, error) {
	all, err := DeviceSettings(c.Scope)
	return slices.DeleteFunc(all, func(other Setting) bool { return other.ID() == c.ID() }), err
}
