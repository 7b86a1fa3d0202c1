package testenv

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
)

// However a test binary, the script around it, or who runs the tests comes to its
// end: what the binary started, in sessions of their own too, ends with it.
func TestIsolateLeavesNothing(t *testing.T) {
	Root(t)
	for _, c := range []struct {
		name, then string
		end        func(script *exec.Cmd, lock *os.File)
		code       int
	}{
		{"it ends", "exit 3", func(*exec.Cmd, *os.File) {}, 3},
		{"the script is killed", "sleep 600", func(script *exec.Cmd, _ *os.File) { script.Process.Kill() }, -1},
		{"the script is ended", "sleep 600", func(script *exec.Cmd, _ *os.File) { script.Process.Signal(syscall.SIGTERM) }, -1},
		{"the lock is free", "sleep 600", func(_ *exec.Cmd, lock *os.File) { lock.Close() }, 137},
	} {
		t.Run(c.name, func(t *testing.T) {
			lock, err := os.Create(filepath.Join(t.TempDir(), "lock"))
			if err != nil {
				t.Fatal(err)
			}
			defer lock.Close()
			if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
				t.Fatal(err)
			}
			mark := fmt.Sprintf("600.%d%d", os.Getpid(), time.Now().UnixNano())
			begun := fmt.Sprintf(`setsid sleep %[1]s &
				until pgrep -f '^sleep %[1]s' >/dev/null; do
					[ $(date +%%s) -lt %[2]d ] || { echo "after %[3]v it has not begun: $(ps -e -o args | tr '\n' ';')"; exit 9; }
					sleep 0.01
				done
				echo ready; `, mark, time.Now().Add(Timeout).Unix(), Timeout)
			script := exec.Command("../../scripts/isolate", "sh", "-c", begun+c.then)
			script.Env = append(os.Environ(), "VENTURI_TEST_LOCK="+lock.Name())
			out, err := script.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := script.Start(); err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
				t.Errorf("what it starts: %q, %v", line, err)
			}
			c.end(script, lock)
			awaitExit(t, mark)
			err = script.Wait()
			if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != c.code {
				t.Errorf("it ended with %v, want exit code %d", err, c.code)
			}
		})
	}
}

// A program that would be started after whoever runs the tests has ended is not: go test ends later.
func TestIsolateNeedsLock(t *testing.T) {
	script := exec.Command("../../scripts/isolate", "true")
	script.Env = append(os.Environ(), "VENTURI_TEST_LOCK="+filepath.Join(t.TempDir(), "gone"))
	out, err := script.CombinedOutput()
	if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), "has ended") {
		t.Errorf("it ended with %v and says %q", err, out)
	}
}

// awaitExit waits until no process has mark on its command line.
func awaitExit(t *testing.T, mark string) {
	t.Helper()
	for end := time.Now().Add(host.ScaleTimeout(20 * time.Second)); ; time.Sleep(10 * time.Millisecond) {
		var left []string
		processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, file := range processes {
			if text, _ := os.ReadFile(file); strings.Contains(string(text), mark) {
				left = append(left, file+": "+strings.ReplaceAll(string(text), "\x00", " "))
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("left after 20 s: %q", left)
		}
	}
}
