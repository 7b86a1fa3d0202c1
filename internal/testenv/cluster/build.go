package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/sanitize"
)

// workPrefix begins the names of folders in the cache that hold what is not finished.
const workPrefix = "work-"

// lockCache waits until nobody else fetches programs, and removes what was left by somebody
// who was killed at it.
func lockCache(ctx context.Context, say func(string)) (unlock func(), err error) {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	for said := false; ; said = true {
		unlock, err = lockFile(filepath.Join(cache, "lock"))
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, err
		}
		if !said {
			say("waiting: another process builds or downloads programs")
		}
		if host.Sleep(ctx, 200*time.Millisecond) != nil {
			return nil, ctx.Err()
		}
	}
	left, err := sanitize.Files(cache, workPrefix+"*")
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// keep makes a file or folder of the cache unless it is there: build works in a folder of its
// own, and names what it has made.
func keep(ctx context.Context, kept string, say func(string), build func(work string) (made string, err error)) error {
	if _, err := os.Stat(kept); err == nil {
		return nil
	}
	unlock, err := lockCache(ctx, say)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(kept); err == nil {
		return nil // while we waited
	}
	work, err := os.MkdirTemp(cache, workPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	made, err := build(work)
	if err != nil {
		return err
	}
	return os.Rename(made, kept)
}

// progressInterval is how often a build says how far it is.
const progressInterval = 30 * time.Second

// compile builds the program of a module, and says how far it is.
func compile(ctx context.Context, source, binary string, say func(string)) error {
	packages, err := listPackages(ctx, source, say)
	if err != nil {
		return err
	}
	all, began := strings.Count(packages, "\n"), time.Now()
	var built atomic.Int64
	state := func() {
		say(fmt.Sprintf("%d of %d packages built in %s", built.Load(), all, time.Since(began).Round(time.Second)))
	}
	state()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		tick := time.NewTicker(progressInterval)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
				state()
			}
		}
	}()
	args := append([]string{"env", "CGO_ENABLED=0", "go", "build", "-v", "-o", binary}, buildFlags...)
	_, err = commandLines(ctx, source, func(string) { built.Add(1) }, append(args, ".")...)
	if err == nil {
		state()
	}
	return err
}

// listPackages lists what a module's program is built from, which downloads it. Go asks a registry
// once; one that does not answer for a minute is asked again here.
func listPackages(ctx context.Context, source string, say func(string)) (string, error) {
	pauses := []time.Duration{15 * time.Second, 30 * time.Second, time.Minute}
	for {
		packages, err := command(ctx, source, "go", "list", "-deps", ".")
		if err == nil || ctx.Err() != nil || len(pauses) == 0 {
			return packages, err
		}
		say(fmt.Sprintf("not all modules could be downloaded, trying again in %s: %v", pauses[0], err))
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(pauses[0]):
		}
		pauses = pauses[1:]
	}
}

// command runs a program to its end and gives what it printed; an error says that too.
func command(ctx context.Context, dir string, args ...string) (string, error) {
	return commandLines(ctx, dir, func(string) {}, args...)
}

// mostSaid is how many of a program's last lines an error repeats.
const mostSaid = 20

// commandLines is [command] with each line of the program's standard error. The program ends
// with this process, however that ends.
func commandLines(ctx context.Context, dir string, each func(line string), args ...string) (string, error) {
	runtime.LockOSThread() // a program dies with the thread that started it
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGINT}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	take, give := io.Pipe()
	cmd.Stderr = give
	var said []string
	read := make(chan struct{})
	go func() {
		defer close(read)
		lines := bufio.NewScanner(take)
		for lines.Scan() {
			each(lines.Text())
			said = append(said, lines.Text())
			said = said[max(0, len(said)-mostSaid):]
		}
		if lines.Err() != nil { // a line too long
			io.Copy(io.Discard, take)
		}
	}()
	out, err := cmd.Output()
	give.Close()
	<-read
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, strings.Join(said, "\n"))
	}
	return string(out), nil
}
