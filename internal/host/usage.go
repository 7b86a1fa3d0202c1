package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// CPUTime is for how long the threads of a process have had a core. What those had that have ended is
// not in it.
func (r Reader) CPUTime(pid int) (total time.Duration, err error) {
	tasks := r.path("proc", strconv.Itoa(pid), "task")
	threads, err := os.ReadDir(tasks)
	if err != nil {
		return 0, fmt.Errorf("list the threads of process %d: %w", pid, err)
	}
	for _, thread := range threads {
		text, err := os.ReadFile(filepath.Join(tasks, thread.Name(), "schedstat"))
		if errors.Is(err, os.ErrNotExist) {
			continue // it has ended
		}
		if err != nil {
			return 0, fmt.Errorf("read the CPU time of process %d: %w", pid, err)
		}
		first, _, _ := strings.Cut(string(text), " ")
		ns, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read the CPU time of process %d: %w", pid, err)
		}
		total += time.Duration(ns)
	}
	return total, nil
}

// ResidentMemory is how much memory a process has, bytes, and what of it is its own: the rest are pages of its
// program's file, which all processes of that program share.
func (r Reader) ResidentMemory(pid int) (all, own int64, err error) {
	text, err := os.ReadFile(r.path("proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	sizes := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); name == "VmRSS" || name == "RssFile" {
			kB, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			if err != nil {
				return 0, 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
			}
			sizes[name] = kB << 10
		}
	}
	if len(sizes) < 2 {
		return 0, 0, fmt.Errorf("read the memory of process %d: its status does not say it", pid)
	}
	return sizes["VmRSS"], sizes["VmRSS"] - sizes["RssFile"], nil
}
