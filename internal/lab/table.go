package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/host"
)

var (
	tableSoon  = host.ScaleTimeout(2 * time.Second)  // a wait for the table that nobody is told of
	tableLimit = host.ScaleTimeout(60 * time.Second) // after which a lab that is to be taken down stays
)

// sayKey is that of [WithSay]'s function in a context.
type sayKey struct{}

// WithSay lets what takes a context tell of long waits for other processes by say; nil: nobody is told.
func WithSay(ctx context.Context, say func(format string, args ...any)) context.Context {
	return context.WithValue(ctx, sayKey{}, say)
}

func sayOf(ctx context.Context) func(format string, args ...any) {
	say, _ := ctx.Value(sayKey{}).(func(format string, args ...any))
	return say
}

// withTable runs fn while no other process makes or removes a lab. A lab's
// folder is made, locked and removed only here, so nobody ever sees the lock
// of a folder that is about to go.
func withTable(ctx context.Context, fn func() error) error {
	f, err := lockTable(ctx)
	if err != nil {
		return err
	}
	defer unlockInFolder(f)
	return fn()
}

// lockTable takes the lock on the table, for [unlockInFolder] to let go of, and says who has it if that lasts.
func lockTable(ctx context.Context) (*os.File, error) {
	soon, cancel := context.WithTimeout(ctx, tableSoon)
	f, _, err := lockInFolder(soon, tableLock, false)
	cancel()
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		if say := sayOf(ctx); say != nil {
			say("waiting: %s", tableHolder())
		}
		f, _, err = lockInFolder(ctx, tableLock, false)
	}
	if err != nil {
		return nil, err
	}
	// Only for others to read: where /run is full, labs must be taken down all the same.
	_ = writeHolder(f, Holder{
		Pid: os.Getpid(), Command: strings.Join(host.Reader{}.Command(os.Getpid()), " "), Since: time.Now(),
	})
	return f, nil
}

// tableHolder says who has the lock on the table.
func tableHolder() string {
	h := readHolder(filepath.Join(Folder, tableLock))
	if h.Pid == 0 {
		return "another process is raising or removing a lab"
	}
	return fmt.Sprintf("%s is raising or removing a lab, since %s", h.process(), h.Since.Format(time.DateTime))
}
