package host

import (
	"os"
	"path/filepath"
	"strconv"
)

// HasMountCompanions tells whether another process has the mount namespace of this one: in a
// container, one that was started in it.
func HasMountCompanions() (bool, error) {
	own, err := fileID("/proc/self/ns/mnt")
	if err != nil {
		return false, err
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if id, err := fileID(filepath.Join("/proc", e.Name(), "ns/mnt")); err == nil && id == own {
			return true, nil
		}
	}
	return false, nil
}
