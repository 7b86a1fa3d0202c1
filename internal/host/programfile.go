package host

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// ReleaseProgramFile unmaps the pages of the program's own file from this process, where they count as its
// memory. Those that it needs again come back from the page cache. It is for a process that has long to run
// and needs little of its program from now on.
func ReleaseProgramFile() error {
	name, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	file, err := os.Open("/proc/self/smaps")
	if err != nil {
		return err
	}
	defer file.Close()
	var from, to uintptr // of the mapping that the lines are about; 0: of another file, or of one that is written
	var failed []error
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var start, end uintptr
		var mode string
		line := lines.Text()
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &start, &end, &mode); n == 3 {
			from, to = 0, 0
			if strings.HasSuffix(line, " "+name) && !strings.Contains(mode, "w") {
				from, to = start, end
			}
			continue
		}
		// A page that was written before it was made read-only, as a linker does, is no longer the file's.
		if of, size, _ := strings.Cut(line, ":"); of != "Anonymous" || strings.TrimSpace(size) != "0 kB" || from == 0 {
			continue
		}
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED); errno != 0 {
			failed = append(failed, errno)
		}
	}
	return errors.Join(append(failed, lines.Err())...)
}
