package setting

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
)

// heldFD is the descriptor by which a holder holds its file.
const heldFD = 3

// heldBackend is numbers that the kernel heeds for as long as somebody holds the
// file open into which they were written, as with /dev/cpu_dma_latency. A key is
// the file. A value is the number that a process of ours holds; without one it
// is absent.
//
// The process is this program once more, with [HoldArgs]. It is found by them and
// by the file that it has open, so that it needs no record of its own: there may
// be none when a process was killed that had just started it.
func heldBackend(root string) Backend {
	return Backend{
		Name: "held",
		Read: func(c Setting) (Value, error) {
			file := filepath.Join(root, c.Key)
			if _, err := os.Stat(file); err != nil {
				return Value{}, pathErrno(err)
			}
			holders, err := holdersOf(file)
			if err != nil || len(holders) == 0 {
				return Value{}, err
			}
			least := slices.MinFunc(holders, func(a, b holder) int { return a.number - b.number })
			return Text(strconv.Itoa(least.number)), nil
		},
		Write: func(c Setting, v Value) error {
			file := filepath.Join(root, c.Key)
			before, err := holdersOf(file)
			if err != nil {
				return err
			}
			if v.Present {
				number, err := strconv.ParseInt(v.String(), 10, 32)
				if err != nil {
					return fmt.Errorf("%q is not a number of 32 bits", v)
				}
				if err := startHolder(file, int32(number)); err != nil {
					return err
				}
			}
			for _, h := range before { // after the new one: there is no gap
				if err := h.end(file); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// HoldArgs are the arguments of a process that holds a number in a file.
func HoldArgs(file string, number int) []string {
	return []string{"hold", "--file", file, "--number", strconv.Itoa(number)}
}

// HoldDone is nil if this process was started to hold the file.
func HoldDone(file string) error {
	at, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", heldFD))
	if err != nil || at != file {
		return fmt.Errorf("%s is not open as descriptor %d", file, heldFD)
	}
	return nil
}

// HeldNumber is the number that the kernel makes of all that hold a file of this
// kind.
func HeldNumber(file string) (int, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, pathErrno(err)
	}
	if len(text) != 4 {
		return 0, fmt.Errorf("read %s: it gave %d bytes, want 4", file, len(text))
	}
	return int(int32(binary.NativeEndian.Uint32(text))), nil
}

// startHolder writes the number and starts a process that keeps the file open.
// From the moment that there is one, the number is held, whatever becomes of this
// process.
func startHolder(file string, number int32) error {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return pathErrno(err)
	}
	defer f.Close()
	if err := binary.Write(f, binary.NativeEndian, number); err != nil {
		return pathErrno(err)
	}
	cmd := exec.Command("/proc/self/exe", HoldArgs(file, int(number))...)
	cmd.Dir, cmd.ExtraFiles = "/", []*os.File{f}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start who holds it: %w", err)
	}
	go func() { _ = cmd.Wait() }() // so that it does not stay in the list of processes while this one lives
	for start := time.Now(); time.Since(start) < endLimit; time.Sleep(holderPoll) {
		if (holder{cmd.Process.Pid, int(number)}).holds(file) {
			return nil
		}
	}
	return errors.New("who should hold it ended")
}

// holder is a process that holds a number.
type holder struct{ pid, number int }

// holdersOf lists the processes of ours that hold a file.
func holdersOf(file string) ([]holder, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, pathErrno(err)
	}
	var found []holder
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
		if h := (holder{pid, number}); err == nil && h.holds(file) {
			found = append(found, h)
		}
	}
	return found, nil
}

// holds tells whether the process is still that holder, and has the file open.
func (h holder) holds(file string) bool {
	args := host.Reader{}.Command(h.pid)
	at, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", h.pid, heldFD))
	return err == nil && at == file && len(args) > 0 && slices.Equal(args[1:], HoldArgs(file, h.number)) && h.isOurs()
}

// isOurs tells whether the process is of our user: anybody can start one with such
// arguments. Which file it runs does not matter: it may be of another version, that is
// installed elsewhere.
func (h holder) isOurs() bool {
	var st unix.Stat_t
	err := unix.Stat(fmt.Sprintf("/proc/%d", h.pid), &st)
	return err == nil && st.Uid == uint32(os.Geteuid())
}

// endLimit is how long a holder may take to end.
var endLimit = host.ScaleTimeout(5 * time.Second)

// end ends the process, and waits until it is gone. A descriptor of it is opened
// before it is looked at once more, so that a number that was given to another
// process meanwhile does no harm.
func (h holder) end(file string) error {
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
		if time.Since(start) > endLimit {
			return fmt.Errorf("end process %d: still there after %v", h.pid, endLimit)
		}
	}
	return nil
}

// holderPoll is how often is looked whether a holder has ended.
const holderPoll = 5 * time.Millisecond
