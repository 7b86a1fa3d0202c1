package host

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Limit is how much of something a process may still have, and what says so.
type Limit struct {
	Room   int
	Source string
}

// ThreadRoom tells how many more threads can be started from here: the least of
// what the control groups of this process (Docker's --pids-limit, systemd's
// TasksMax) and the kernel leave. The rlimit on processes is none for root.
func (r Reader) ThreadRoom() Limit {
	least := Limit{Room: math.MaxInt}
	bound := func(by string, most, used int) {
		if room := max(most-used, 0); most > 0 && room < least.Room {
			least = Limit{room, fmt.Sprintf("%s is %d, of which %d are used", by, most, used)}
		}
	}
	for _, folder := range r.pidsGroups() {
		most, _ := strconv.Atoi(r.line(folder, "pids.max")) // "max" is none
		used, _ := strconv.Atoi(r.line(folder, "pids.current"))
		bound("pids.max of /"+folder, most, used)
	}
	used := r.threads()
	for _, name := range []string{"threads-max", "pid_max"} {
		most, _ := strconv.Atoi(r.line("proc/sys/kernel", name))
		bound("kernel."+name, most, used)
	}
	return least
}

// threads counts those of the machine, by /proc/loadavg ("... 2/345 6789").
func (r Reader) threads() int {
	for _, field := range strings.Fields(r.line("proc/loadavg")) {
		if _, all, ok := strings.Cut(field, "/"); ok {
			n, _ := strconv.Atoi(all)
			return n
		}
	}
	return 0
}

// pidsGroups lists the folders of the control groups that bound the processes
// of this one: its own and those above it.
func (r Reader) pidsGroups() (folders []string) {
	for line := range strings.Lines(r.line("proc/self/cgroup")) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		top := "sys/fs/cgroup"
		switch {
		case slices.Contains(strings.Split(parts[1], ","), "pids"):
			top += "/pids"
		case parts[0] != "0":
			continue
		}
		for at := filepath.Join(top, parts[2]); len(at) >= len(top); at = filepath.Dir(at) {
			folders = append(folders, at)
		}
	}
	return folders
}

// FileRoom tells how many files a process of ours may have open. A Go program
// raises its limit as far as it may.
func FileRoom() (Limit, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return Limit{}, fmt.Errorf("read RLIMIT_NOFILE: %w", err)
	}
	most := int(min(limit.Max, math.MaxInt32))
	return Limit{most, fmt.Sprintf("the limit on open files (ulimit -Hn) is %d", most)}, nil
}
