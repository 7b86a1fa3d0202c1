package host

import (
	"debug/elf"
	"errors"
	"os"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// ReleaseProgramFile unmaps the pages of the program's own file from this process, which count as its memory.
// What is needed of them again comes back from the page cache. It is for a process that has a long time
// before it, of which it needs little of its program.
func ReleaseProgramFile() error {
	const self = "/proc/self/exe"
	file, err := elf.Open(self)
	if err != nil {
		return err
	}
	defer file.Close()
	if file.Type != elf.ET_EXEC {
		return nil // pages that are read only now may have been relocated before, and would lose that
	}
	name, err := os.Readlink(self)
	if err != nil {
		return err
	}
	process, err := procfs.Self()
	if err != nil {
		return err
	}
	maps, err := process.ProcMaps()
	if err != nil {
		return err
	}
	var failed []error
	for _, m := range maps {
		if m.Pathname == name && !m.Perms.Write {
			_, _, errno := unix.Syscall(unix.SYS_MADVISE, m.StartAddr, m.EndAddr-m.StartAddr, unix.MADV_DONTNEED)
			if errno != 0 {
				failed = append(failed, errno)
			}
		}
	}
	return errors.Join(failed...)
}
