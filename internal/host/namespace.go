package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/sanitize"
)

// NamespaceFolder is where named network namespaces live: the place that the
// ip command uses too, so a person can look into ours with it.
const NamespaceFolder = "/run/netns"

// threadNS is the network namespace of the calling thread. /proc/self would be
// that of the process' first thread.
const threadNS = "/proc/thread-self/ns/net"

// NamespacePath gives the file of a named network namespace.
func NamespacePath(name string) string { return filepath.Join(NamespaceFolder, name) }

// NamedFile gives the file in [NamespaceFolder] of the namespace whose file is
// path: the number of a process says little to a person, and ends with it. Without
// one, it is path itself.
func NamedFile(path string) string {
	id, err := ID(path)
	if err != nil || filepath.Dir(path) == NamespaceFolder {
		return path
	}
	named, _ := sanitize.Files(NamespaceFolder, "*") // the pattern is a good one
	for _, file := range named {
		if other, err := ID(file); err == nil && other == id {
			return file
		}
	}
	return path
}

// OwnNetwork is how a user names the network that this program runs in.
const OwnNetwork = "self"

// maxPid is the greatest that the kernel gives.
const maxPid = 1 << 22

// CheckNamespaceName refuses what [NamespaceFile] cannot read, wherever it is.
func CheckNamespaceName(text string) error {
	if name, ok := strings.CutPrefix(text, containerPrefix); ok && name != "" {
		return nil
	}
	_, err := NamespaceFile(text)
	return err
}

// containerPrefix begins a container's name, and that of its pod.
const containerPrefix = "container:"

// NamespaceFile gives the file of a network namespace that a user names: by
// ns:NAME, ns:/PATH/OF/FILE, pid:NUMBER of a process in it, container:NAME (see
// [ContainerNamespace]), pod:UID of a Kubernetes pod, or [OwnNetwork]. Whether it is there is
// looked at only for containers and pods.
func NamespaceFile(text string) (string, error) {
	if name, ok := strings.CutPrefix(text, containerPrefix); ok && name != "" {
		return ContainerNamespace(name)
	}
	if uid, ok := strings.CutPrefix(text, podPrefix); ok && podUID.MatchString(uid) {
		return podNamespace("/", uid)
	}
	kind, name, _ := strings.Cut(text, ":")
	switch {
	case text == OwnNetwork:
		return fmt.Sprintf("/proc/%d/ns/net", os.Getpid()), nil
	case kind == "ns" && filepath.IsAbs(name):
		return name, nil
	case kind == "ns" && name != "" && name != "." && name != ".." && !strings.Contains(name, "/"):
		return NamespacePath(name), nil
	case kind == "pid":
		if n, err := strconv.Atoi(name); err == nil && n >= 1 && n <= maxPid {
			return fmt.Sprintf("/proc/%d/ns/net", n), nil
		}
	}
	return "", errors.New("want ns:NAME, ns:/PATH/OF/FILE, pid:NUMBER, container:NAME or " + OwnNetwork)
}

// NamespaceID identifies a network namespace on this kernel.
type NamespaceID struct{ Dev, Ino uint64 }

// ID reads which network namespace the file at path stands for. It is an
// error if the file is not a namespace, as half-made ones are not.
func ID(path string) (NamespaceID, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return NamespaceID{}, fmt.Errorf("stat namespace %s: %w", path, err)
	}
	if fs.Type != unix.NSFS_MAGIC {
		return NamespaceID{}, fmt.Errorf("stat namespace %s: not a namespace", path)
	}
	return fileID(path)
}

func fileID(path string) (NamespaceID, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return NamespaceID{}, fmt.Errorf("stat namespace %s: %w", path, err)
	}
	return NamespaceID{Dev: st.Dev, Ino: st.Ino}, nil
}

// Do runs fn inside the network namespace whose file is path and waits for it;
// an empty path means the namespace of the process. fn runs on a goroutine of
// its own with a locked thread: what it starts with the go statement is not in
// the namespace.
func Do(path string, fn func() error) error {
	if path == "" {
		return fn()
	}
	target, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open namespace: %w", err)
	}
	defer target.Close()
	if isHere(target) {
		return fn()
	}
	return InThread(func() error {
		err := unix.Setns(int(target.Fd()), unix.CLONE_NEWNET)
		if err != nil && !isHere(target) { // to stay where one is takes no privileges
			return fmt.Errorf("enter namespace %s: %w", path, err)
		}
		return fn()
	})
}

// isHere tells whether a file is of the calling thread's namespace.
func isHere(f *os.File) bool {
	here, err := os.Stat(threadNS)
	if err != nil {
		return false
	}
	it, err := f.Stat()
	return err == nil && os.SameFile(here, it)
}

// InThread runs fn on a thread of its own, which fn may move to other network
// namespaces. Afterwards the thread goes back to where it came from; one that
// cannot is never used again: its goroutine ends with the thread still locked,
// and the runtime then ends the thread.
func InThread(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// By its first thread a process is judged, by itself (/proc/self) and
			// by others (who is in this namespace?): keep it from being chosen.
			done <- InThread(fn)
			runtime.UnlockOSThread()
			return
		}
		home, err := os.Open(threadNS)
		if err != nil {
			runtime.UnlockOSThread()
			done <- fmt.Errorf("open own namespace: %w", err)
			return
		}
		defer home.Close()
		finished := false
		defer func() {
			// A panic or Goexit in fn must not leave the caller waiting.
			if !finished {
				done <- errors.New("run in namespace: the function did not return")
			}
		}()
		err = fn()
		finished = true
		if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}

// firstPIDNamespace is the one that the kernel begins with, as it is called below /proc:
// PROC_PID_INIT_INO of its proc_ns.h.
const firstPIDNamespace = "pid:[4026531836]"

// SeesAllProcesses tells whether /proc shows all processes of the machine: it shows those of
// the own PID namespace, and of the ones below it.
func (r Reader) SeesAllProcesses() bool {
	name, err := os.Readlink(r.path("proc/self/ns/pid"))
	return err == nil && name == firstPIDNamespace
}

// ProcessesIn lists the processes whose network namespace is one of ids, in
// ascending order of pid. Processes that end meanwhile, or that may not be
// looked at, are left out. Threads that are elsewhere than their process do
// not count.
func (r Reader) ProcessesIn(ids ...NamespaceID) ([]int, error) {
	pids, err := r.pids()
	return slices.DeleteFunc(pids, func(pid int) bool {
		id, err := fileID(r.path("proc", strconv.Itoa(pid), "ns/net"))
		return err != nil || !slices.Contains(ids, id)
	}), err
}

// Command reads the command line of a process; nil when it is gone.
func (r Reader) Command(pid int) []string {
	text := r.line("proc", strconv.Itoa(pid), "cmdline")
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimRight(text, "\x00"), "\x00")
}

// RealUID reads which user started a process, whatever its program may do as
// another one; false when it is gone.
func (r Reader) RealUID(pid int) (uid uint32, ok bool) {
	text, err := os.ReadFile(r.path("proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if ids, found := strings.CutPrefix(line, "Uid:"); found {
			_, err := fmt.Sscan(ids, &uid)
			return uid, err == nil
		}
	}
	return 0, false
}
