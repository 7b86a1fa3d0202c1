package machine

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// SinceBoot is how long the kernel has been running, by the clock that
// programs measure with (CLOCK_MONOTONIC).
func SinceBoot() (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0, fmt.Errorf("read the time since boot: %w", err)
	}
	return time.Duration(t.Nano()), nil
}
