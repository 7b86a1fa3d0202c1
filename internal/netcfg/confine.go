package netcfg

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/sanitize"
)

// Confine lets what is started in the namespace from now on run on some cores only. None: on
// all.
func (n *Namespace) Confine(cpus []int) { n.cpus = cpus }

// CPUs are the cores that the namespace is confined to; none: it is not.
func (n *Namespace) CPUs() []int {
	if n == nil {
		return nil
	}
	return n.cpus
}

// launch starts a command on the namespace's cores. The calling thread, which must be locked,
// is on them meanwhile: a new process has the affinity of the thread that forks it.
func (n *Namespace) launch(cmd *exec.Cmd) error {
	if len(n.CPUs()) == 0 {
		return cmd.Start()
	}
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return os.NewSyscallError("read CPU affinity", err)
	}
	if err := setAffinity(0, n.cpus); err != nil {
		return err
	}
	err := cmd.Start()
	return errors.Join(err, os.NewSyscallError("restore CPU affinity", unix.SchedSetaffinity(0, &before)))
}

func setAffinity(tid int, cpus []int) error {
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	return os.NewSyscallError(fmt.Sprintf("confine to cores %v", cpus), unix.SchedSetaffinity(tid, &set))
}

// ConfineVhost moves the kernel's threads that carry packets for virtual machines in the
// namespace to its cores. Where they are threads of the virtual machine's process, they are
// there already.
func (n *Namespace) ConfineVhost() error {
	if len(n.CPUs()) == 0 {
		return nil
	}
	id, err := host.ID(n.path)
	if err != nil {
		return err
	}
	inside, err := host.Reader{}.ProcessesIn(id)
	if err != nil {
		return err
	}
	tasks, err := sanitize.Files("/proc", "[0-9]*/comm")
	if err != nil {
		return err
	}
	var failed error
	for _, file := range tasks {
		name, err := os.ReadFile(file)
		owner, isVhost := strings.CutPrefix(strings.TrimSpace(string(name)), "vhost-")
		if err != nil || !isVhost { // a process may be gone
			continue
		}
		pid, err := strconv.Atoi(owner)
		tid, terr := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && terr == nil && slices.Contains(inside, pid) {
			failed = errors.Join(failed, setAffinity(tid, n.cpus))
		}
	}
	return failed
}
