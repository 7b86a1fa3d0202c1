package host

import (
	"debug/elf"
	"errors"
	"os"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// ReleaseProgramFile releases the pages of the program's own file that count as memory of this process. Those
// that are needed again come back from the page cache. It is for processes that run for long and need little
// of their program.
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
