package agent

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/venturi-net/venturi/internal/verr"
)

// presenceFile is the file whose lock says that somebody is in a container: this program,
// which every process of the container runs. A container has it for itself, and it can be
// locked where nothing can be written.
const presenceFile = "/proc/self/exe"

// Occupy makes the process that lingers in this container wait for the end of this one.
func Occupy() error {
	_, err := lockPresence(presenceFile, syscall.LOCK_SH) // it stays open: the lock ends with the process
	return verr.Wrap(verr.Failed, "cannot keep the container running", err, "run the command again")
}

// Linger is the first process of a container whose agents are started in it by others. It
// returns when none has been there for so long. It looks for others only while none is there; the
// kernel tells it of the last one's end, so that it does not disturb what they measure.
func Linger(ctx context.Context, idle time.Duration) error {
	ended := make(chan error, 1) // room for one that nobody waits for any more
	go func() { ended <- linger(presenceFile, idle) }()
	select {
	case <-ctx.Done():
		return nil
	case err := <-ended:
		return verr.Wrap(verr.Failed, "cannot wait for the container's processes", err, "run the command again")
	}
}

// idleLooks is how often it looks for others while none is there: one that comes and goes between
// two looks is not seen.
const idleLooks = 60

func linger(file string, idle time.Duration) error {
	for alone := time.Now(); ; {
		fd, err := lockPresence(file, syscall.LOCK_EX|syscall.LOCK_NB)
		there := errors.Is(err, syscall.EWOULDBLOCK)
		if there {
			fd, err = lockPresence(file, syscall.LOCK_EX)
		}
		if err != nil {
			return err
		}
		if err := syscall.Close(fd); err != nil {
			return fmt.Errorf("unlock %s: %w", file, err)
		}
		if there {
			alone = time.Now()
		}
		if time.Since(alone) >= idle {
			return nil
		}
		time.Sleep(idle / idleLooks)
	}
}

// lockPresence locks a file until the descriptor that it returns is closed.
func lockPresence(file string, how int) (fd int, err error) {
	if fd, err = syscall.Open(file, syscall.O_RDONLY|syscall.O_CLOEXEC, 0); err != nil {
		return -1, fmt.Errorf("open %s: %w", file, err)
	}
	for err = error(syscall.EINTR); errors.Is(err, syscall.EINTR); {
		err = syscall.Flock(fd, how)
	}
	if err != nil {
		_ = syscall.Close(fd)
		return -1, fmt.Errorf("lock %s: %w", file, err)
	}
	return fd, nil
}
