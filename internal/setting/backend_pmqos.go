package setting

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
)

// pmqosBackend undoes what earlier versions wrote to /dev/cpu_dma_latency. The
// kernel honours a number in that file while some process keeps it open, so those
// versions started a holder: their own program with the arguments of
// [holderArgs]. This version starts none: the knob cpu.resume_latency does the same
// by files that keep their value. A key is the file; the value is the number that
// a holder holds, and absent without one. On disk the backend is called "held".
func pmqosBackend(root string) Backend {
	return Backend{
		Name: "held",
		Read: func(s Setting) (Value, error) {
			file := filepath.Join(root, s.Key)
			if _, err := os.Stat(file); err != nil {
				return Value{}, pathErrno(err)
			}
			holders, err := pmqosHolders(file)
			if err != nil || len(holders) == 0 {
				return Value{}, err
			}
			least := slices.MinFunc(holders, func(a, b pmqosHolder) int { return a.number - b.number })
			return Text(strconv.Itoa(least.number)), nil
		},
		Write: func(s Setting, v Value) error {
			if v.Present {
				return fmt.Errorf("this version holds no number in %s: use cpu.resume_latency: %w", s.Key, errors.ErrUnsupported)
			}
			file := filepath.Join(root, s.Key)
			holders, err := pmqosHolders(file)
			for _, h := range holders {
				if err == nil {
					err = h.end(file)
				}
			}
			return err
		},
	}
}

// holderFD is the descriptor by which a holder keeps its file open.
const holderFD = 3

// holderArgs are the arguments of a process that holds a number in a file.
func holderArgs(file string, number int) []string {
	return []string{"hold", "--file", file, "--number", strconv.Itoa(number)}
}

// pmqosHolder is a process that holds a number.
type pmqosHolder struct{ pid, number int }

// pmqosHolders lists the holders of a file that this user's processes are.
func pmqosHolders(file string) ([]pmqosHolder, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, pathErrno(err)
	}
	var found []pmqosHolder
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		args := host.Reader{}.Command(pid)
		if len(args) != 6 || args[1] != "hold" || args[3] != file {
			continue
		}
		number, err := strconv.Atoi(args[5])
		if h := (pmqosHolder{pid, number}); err == nil && h.holds(file) {
			found = append(found, h)
		}
	}
	return found, nil
}

// holds reports whether the process is still that holder, and has the file open.
func (h pmqosHolder) holds(file string) bool {
	args := host.Reader{}.Command(h.pid)
	open, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", h.pid, holderFD))
	return err == nil && open == file && len(args) > 0 && slices.Equal(args[1:], holderArgs(file, h.number)) && h.isOurs()
}

// isOurs reports whether the process is this user's: anybody can start one with such
// arguments. Its program does not matter: it may be another version's, installed
// elsewhere.
func (h pmqosHolder) isOurs() bool {
	var st unix.Stat_t
	err := unix.Stat(fmt.Sprintf("/proc/%d", h.pid), &st)
	return err == nil && st.Uid == uint32(os.Geteuid())
}

// end kills the process and waits until it is gone. It opens a descriptor of the
// process before it checks once more, so that a pid that was reused meanwhile is safe.
func (h pmqosHolder) end(file string) error {
	fd, err := unix.PidfdOpen(h.pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open process %d: %w", h.pid, err)
	}
	defer unix.Close(fd)
	if !h.holds(file) {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("end process %d: %w", h.pid, err)
	}
	for start := time.Now(); h.holds(file); time.Sleep(holderPoll) {
		if time.Since(start) > holderTimeout {
			return fmt.Errorf("end process %d: still there after %v", h.pid, holderTimeout)
		}
	}
	return nil
}

// holderTimeout is how long a holder may take to end.
var holderTimeout = host.ScaleTimeout(5 * time.Second)

// holderPoll is how often is checked whether a holder has ended.
const holderPoll = 5 * time.Millisecond
