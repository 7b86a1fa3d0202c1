package fastpath

import "path/filepath"

// StateFile is where a fast path tells its state that keeps its tables in a folder:
// beside that.
func StateFile(pins string) string { return filepath.Join(filepath.Dir(pins), "fast.state") }
