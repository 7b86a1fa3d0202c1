package node

import (
	"os"
	"path/filepath"
)

// HolderOf is the process that the files in a folder name, if it has the folder open.
func HolderOf(folder string) *os.Process {
	return files{folder: folder, process: filepath.Join(folder, "process")}.holder()
}
