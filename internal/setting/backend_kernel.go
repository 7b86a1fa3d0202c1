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
		Read:       func(c Setting) (Value, error) { return readText(filepath.Join(root, c.Key)) },
		Write:      func(c Setting, v Value) error { return writeText(filepath.Join(root, c.Key), v) },
		Matches:    equivalentText,
		Equivalent: equivalentText,
		// Governor performance has a preference of its own.
		SideEffects: func(c Setting) ([]Setting, error) {
			policy, ok := strings.CutSuffix(c.Key, "/scaling_governor")
			if !ok {
				return nil, nil
			}
			return []Setting{{Backend: c.Backend, Key: policy + "/energy_performance_preference"}}, nil
		},
	}
}
