package engine

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestHotWaitEnds: a hot thread waits no longer than its timeout, also where that is as long as the scheduler takes to
// send it many signals.
func TestHotWaitEnds(t *testing.T) {
	const timeout = 500 * time.Millisecond
	reserveProcessors(3)
	for name, c := range map[string]struct {
		kind int
		wait func(s socket) error
	}{
		"for a message": {unix.SOCK_DGRAM, func(s socket) error {
			_, err := s.recv(make([]byte, 1))
			return err
		}},
		"for a connection": {unix.SOCK_STREAM, func(s socket) error {
			_, err := s.accept()
			return err
		}},
		"for any of many": {unix.SOCK_DGRAM, func(s socket) error {
			group, err := newEpollGroup(1)
			if err != nil {
				return err
			}
			defer group.close()
			group.hot = true
			err = group.add(s, 0)
			if events, failed := group.wait(timeout); failed == nil && len(events) == 0 {
				return errors.Join(err, unix.EAGAIN)
			}
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fd, err := unix.Socket(unix.AF_INET, c.kind|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			s := socket{fd: fd}
			defer s.close()
			err = errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), s.heat(true, timeout))
			if c.kind == unix.SOCK_STREAM {
				err = errors.Join(err, unix.Listen(fd, 1))
			}
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				ended <- c.wait(s)
			}()
			select {
			case err := <-ended:
				if !errors.Is(err, unix.EAGAIN) {
					t.Errorf("it ended with %v", err)
				}
			case <-time.After(20 * time.Second):
				t.Errorf("a wait of %v goes on", timeout)
				s.shutdown()
				<-ended
			}
		})
	}
}
