package thread

import (
	"fmt"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// PinAs is Pin, and names the thread, for whoever looks at what uses the CPU.
func PinAs(name string, cpu int) error {
	if err := Pin(cpu); err != nil {
		return err
	}
	b, err := unix.BytePtrFromString(name) // the kernel cuts it to 15 bytes
	if err != nil {
		return err
	}
	return os.NewSyscallError("name thread", unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(b)), 0, 0, 0))
}

// Pin locks the goroutine to its thread and the thread to cpu. The goroutine
// must end without unlocking: the thread then dies with it.
//
// The scheduler sends SIGURG to a thread that seems to run for 10 ms, as a hot
// one does while it blocks. The call would fail with EINTR and start again
// with its whole timeout, time after time, so that a lost datagram was waited
// for without end. The signal is only a request to be preempted; blocked, it
// waits for the end of the thread.
func Pin(cpu int) error {
	runtime.LockOSThread()
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, urgent(), nil); err != nil {
		return os.NewSyscallError("block SIGURG", err)
	}
	// The runtime's monitor may have started the thread, and its timers are slow.
	if err := setTimerSlack(DefaultTimerSlack); err != nil {
		return err
	}
	if cpu < 0 {
		return nil
	}
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return os.NewSyscallError(fmt.Sprintf("pin thread to cpu %d", cpu), err)
	}
	return nil
}

// urgent is the set of signals that holds SIGURG alone.
func urgent() *unix.Sigset_t {
	var set unix.Sigset_t
	bit := uint(unix.SIGURG) - 1
	set.Val[bit/64] = 1 << (bit % 64)
	return &set
}

// DefaultTimerSlack is the kernel's, of a thread that has asked for nothing.
const DefaultTimerSlack = 50 * time.Microsecond

// exactTimers lets the timers of the calling thread, which must be locked, expire when they
// are due: by default the kernel delays them by up to 50 us to merge them.
func exactTimers() error { return setTimerSlack(time.Nanosecond) }

// setTimerSlack sets how late the timers of the calling thread may expire.
func setTimerSlack(d time.Duration) error {
	return os.NewSyscallError("set timer slack", unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(d.Nanoseconds()), 0, 0, 0))
}
