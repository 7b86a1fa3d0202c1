package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/verr"
)

// measureLock is held by the run that measures, which removes its file.
const measureLock = "measure.lock"

// Holder is who holds the measuring lock, or that on the table of labs.
type Holder struct {
	Pid     int       `json:"pid"`
	Command string    `json:"command"`
	Since   time.Time `json:"since"`
}

func (h Holder) String() string {
	if h.Pid == 0 {
		return "another run"
	}
	return h.process() + ", which has measured since " + h.Since.Format(time.DateTime)
}

func (h Holder) process() string {
	if h.Command == "" {
		return fmt.Sprintf("process %d", h.Pid)
	}
	return fmt.Sprintf("process %d (%s)", h.Pid, h.Command)
}

// LockMeasure makes sure that no other run measures at the same time, for two
// would measure each other. who is the command line to tell others. If another
// run holds the lock, the error is one for a user that says who; with wait,
// say (if not nil) says once who it is, and LockMeasure waits until ctx
// ends. The lock is free again when unlock is called or the process ends.
func LockMeasure(ctx context.Context, wait bool, who string, say func(format string, args ...any)) (unlock func(), err error) {
	if err := needRoot("cannot lock the machine for measuring"); err != nil {
		return nil, err
	}
	f, taken, err := lockInFolder(ctx, measureLock, true)
	if err != nil {
		return nil, err
	}
	if !taken {
		holder := readHolder(filepath.Join(Folder, measureLock))
		if !wait {
			return nil, verr.New(verr.Busy, "cannot measure now", holder.String()+" has the measuring lock",
				"wait until it is done, or add --wait")
		}
		if say != nil {
			say("waiting for %s", holder)
		}
		if f, _, err = lockInFolder(ctx, measureLock, false); err != nil {
			return nil, err
		}
	}
	if err := writeHolder(f, Holder{Pid: os.Getpid(), Command: who, Since: time.Now()}); err != nil {
		unlockInFolder(f)
		return nil, err
	}
	return sync.OnceFunc(func() { unlockInFolder(f) }), nil // a second call must not remove the file of the next run
}

// freeTries is how often the lock of a process that is about to end is tried to be taken.
const freeTries = 20

// removeFreeLock removes the file of the measuring lock that a killed run left. If somebody else
// takes the lock first, the file is theirs.
func removeFreeLock(tries int) error {
	for i := range tries {
		if i > 0 {
			time.Sleep(lockPoll)
		}
		if _, err := os.Stat(filepath.Join(Folder, measureLock)); err != nil {
			return nil // there is none
		}
		f, taken, err := lockInFolder(context.Background(), measureLock, true)
		if err != nil {
			return err
		}
		if taken {
			unlockInFolder(f)
			return nil
		}
	}
	return nil
}

func readHolder(file string) Holder {
	var h Holder
	if host.ReadJSON(file, &h) != nil {
		return Holder{} // it has just been taken, and nothing is written yet
	}
	return h
}

func writeHolder(f *os.File, h Holder) error {
	_, err := f.Seek(0, io.SeekStart)
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		err = json.NewEncoder(f).Encode(h)
	}
	if err != nil {
		return fmt.Errorf("write holder of the lock: %w", err)
	}
	return nil
}
