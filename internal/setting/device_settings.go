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
func DeviceSettings(scope Scope) (settings []Setting, err error) {
	if scope.Device == nil {
		return nil, errors.New("no device is named")
	}
	err = scope.withEntered(func(scope Scope) error {
		settings, err = deviceSettings(scope)
		return err
	})
	for i := range settings {
		settings[i].Scope.entered = nil // they outlive it
	}
	return settings, err
}

func deviceSettings(scope Scope) ([]Setting, error) {
	var candidates []Setting
	add := func(backend string, keys ...string) {
		for _, key := range keys {
			candidates = append(candidates, Setting{Backend: backend, Scope: scope, Key: key})
		}
	}
	add(channels.backendName, "")
	add(rings.backendName, "")
	if flags, err := PrivateFlags(scope); err == nil {
		add("privflag", slices.Sorted(maps.Keys(flags))...)
	}
	features, err := DeviceFeatures(scope)
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
		keys, err := DeviceFiles(scope, pattern)
		if err != nil {
			return nil, err
		}
		add("net", keys...)
	}
	for _, what := range slices.Sorted(maps.Keys(napiNumbers)) { // after those of the device, which are for all
		napis, err := NAPISettings(scope, what)
		if err != nil {
			return nil, err
		}
		candidates = append(candidates, napis...)
	}
	candidates = append(candidates, QdiscSetting(scope))
	irqs, err := irqSettings(scope) // of queues that were made anew, drivers forget the cores
	if err != nil {
		return nil, err
	}
	candidates = append(candidates, irqs...)
	settings := NewSettings(append(deviceBackends(), irqBackend(""))...)
	return slices.DeleteFunc(candidates, func(s Setting) bool {
		if s.Backend == "feature" {
			return false // it was just read
		}
		_, err := settings.Read(s)
		return err != nil
	}), nil
}

// irqSettings lists those of the card behind a device; none, where there is no card.
func irqSettings(scope Scope) (settings []Setting, err error) {
	err = scope.Enter(func(device string) error {
		return scope.sysfs(func(root string) error {
			irqs, err := host.Reader{}.IRQs(root, device)
			for _, irq := range irqs {
				settings = append(settings, IRQSetting(irq))
			}
			if errors.Is(err, os.ErrNotExist) {
				return nil
			}
			return err
		})
	})
	return settings, err
}

// deviceFiles are the files of a device in sysfs that can be set.
var deviceFiles = []string{
	"threaded", "napi_defer_hard_irqs", "gro_flush_timeout",
	"queues/rx-*/rps_cpus", "queues/rx-*/rps_flow_cnt", "queues/tx-*/xps_cpus", "queues/tx-*/xps_rxqs",
}

// otherDeviceSettings lists the other values of a setting's device.
func otherDeviceSettings(s Setting) ([]Setting, error) {
	all, err := DeviceSettings(s.Scope)
	return slices.DeleteFunc(all, func(other Setting) bool { return other.ID() == s.ID() }), err
}
