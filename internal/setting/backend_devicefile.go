package setting

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/sanitize"
)

// deviceFileBackend is the folder of a device in sysfs. A key is a file below it:
// "queues/rx-0/rps_cpus".
func deviceFileBackend() Backend {
	return Backend{
		Name:        "net",
		Read:        readLocated(atDeviceFile),
		Write:       writeLocated(atDeviceFile),
		Matches:     matchesText,
		Equivalent:  equivalentText,
		SideEffects: deviceFileSideEffects,
	}
}

func atDeviceFile(s Setting, fn func(file string) error) error {
	return onDevice(s.Scope, func(device string) error {
		return s.Scope.sysfs(func(root string) error { return fn(filepath.Join(root, "class/net", device, s.Key)) })
	})
}

// DeviceFiles lists files of a device in sysfs that match a pattern, as keys of
// the backend "net", in the order of the numbers in their names:
// "queues/rx-*/rps_cpus".
func DeviceFiles(scope Scope, pattern string) (keys []string, err error) {
	if scope.Device == nil {
		return nil, errors.New("no device is named")
	}
	err = scope.Enter(func(device string) error {
		return scope.sysfs(func(root string) error {
			folder := filepath.Join(root, "class/net", device)
			files, err := sanitize.Files(folder, pattern)
			for _, file := range files {
				keys = append(keys, strings.TrimPrefix(file, folder+"/"))
			}
			return err
		})
	})
	slices.SortFunc(keys, compareNumbers)
	return keys, err
}

// compareNumbers compares names so that rx-10 comes after rx-9.
func compareNumbers(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// deviceFileSideEffects lists what writing a file of a device in sysfs moves: what
// is said of the device is said of all its NAPIs.
func deviceFileSideEffects(s Setting) ([]Setting, error) {
	switch s.Key {
	case "threaded", flushTimeout:
		return NAPISettings(s.Scope, s.Key)
	case "napi_defer_hard_irqs":
		return NAPISettings(s.Scope, "defer_hard_irqs")
	}
	return nil, nil
}
