package setting

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/venturi-net/venturi/internal/host"
)

// coreFolder begins the name of a file of one core. While it is offline the kernel hides some,
// and keeps what was set: the hint to the hardware (energy_perf_bias).
var coreFolder = regexp.MustCompile(`^/sys/devices/system/cpu/cpu[0-9]+/`)

// kernelFileBackend is what the kernel shows of the whole host below /proc
// and /sys. A key is the whole file name.
func kernelFileBackend(root string) Backend {
	return Backend{
		Name: "kernel",
		Read: func(s Setting) (Value, error) {
			v, err := readText(filepath.Join(root, s.Key))
			if core := coreFolder.FindString(s.Key); core != "" && errors.Is(err, os.ErrNotExist) {
				if online, _ := os.ReadFile(filepath.Join(root, core, "online")); strings.TrimSpace(string(online)) == "0" {
					return v, &host.InactiveError{Why: filepath.Base(core) + " is offline"}
				}
			}
			return v, err
		},
		Write:      func(s Setting, v Value) error { return writeText(filepath.Join(root, s.Key), v) },
		Matches:    equivalentText,
		Equivalent: equivalentText,
		// Governor performance has a preference of its own.
		SideEffects: func(s Setting) ([]Setting, error) {
			policy, ok := strings.CutSuffix(s.Key, "/scaling_governor")
			if !ok {
				return nil, nil
			}
			return []Setting{{Backend: s.Backend, Key: policy + "/energy_performance_preference"}}, nil
		},
	}
}
