package thread

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// EarlyWake is how long before something is due its thread stops to sleep and spins: a timer wakes
// it some ten microseconds late.
const EarlyWake = 60 * time.Microsecond

// TimerLateness returns how late a thread is that only waits for so many moments a second, at the
// 99th percentile. On a machine that is not let run when it should be, no sender can be better.
func TimerLateness(rate float64, moments int) (time.Duration, error) {
	late := make([]time.Duration, moments)
	w := New("timer", "", 0, true)
	w.Join()
	defer w.Leave()
	w.Start(func() error {
		start := time.Now()
		for i := range late {
			due := start.Add(time.Duration(float64(i+1) / rate * float64(time.Second)))
			for left := time.Until(due); left > 0; left = time.Until(due) {
				if left <= EarlyWake {
					continue
				}
				sleep := unix.NsecToTimespec((left - EarlyWake).Nanoseconds())
				if _, err := unix.Ppoll(nil, &sleep, nil); err != nil && err != unix.EINTR {
					return err
				}
			}
			late[i] = time.Since(due)
		}
		return nil
	})
	if err := w.Finish(); err != nil {
		return 0, err
	}
	slices.Sort(late)
	return late[len(late)*99/100], nil
}
