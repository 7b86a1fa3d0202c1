package setting

import (
	"path/filepath"
	"strings"
)

// kernelFileBackend is what the kernel shows of the whole host below /proc
// and /sys. A key is the whole file name.
func kernelFileBackend(root string) Backend {
	return Backend{
		Name:       "kernel",
		Read:       func(s Setting) (Value, error) { return readText(filepath.Join(root, s.Key)) },
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
