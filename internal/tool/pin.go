package tool

import (
	"fmt"
	"syscall"
	"unsafe"
)

// pin binds a process to one CPU. The threads and processes that it starts
// afterwards inherit that. (The tools have options for it, but qperf counts
// CPUs from 1 there and its manual from 0.)
func pin(pid, cpu int) error {
	var mask [16]uint64 // 1024 CPUs, as in the C library
	if cpu >= len(mask)*64 {
		return fmt.Errorf("pin to cpu %d: no such cpu", cpu)
	}
	mask[cpu/64] = 1 << (cpu % 64)
	_, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY,
		uintptr(pid), unsafe.Sizeof(mask), uintptr(unsafe.Pointer(&mask)))
	if errno != 0 {
		return fmt.Errorf("pin to cpu %d: %w", cpu, errno)
	}
	return nil
}
