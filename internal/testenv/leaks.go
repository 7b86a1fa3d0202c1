package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/goleak"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// hostState is what a package's tests must leave as it was, each thing a line that
// says what it is.
type hostState map[string]bool

// settle is how long things get to vanish: a killed process, a connection in
// the hands of a goroutine that is about to end.
var (
	settle     = host.ScaleTimeout(5 * time.Second)
	settlePoll = 20 * time.Millisecond
)

// leaks lists what is there now and was not before.
func leaks(before hostState) []string {
	left, err := newSince(before)
	for end := time.Now().Add(settle); len(left) > 0 && err == nil && time.Now().Before(end); {
		time.Sleep(settlePoll)
		runtime.GC() // pipes that io.Copy keeps for later are closed when they are collected
		left, err = newSince(before)
	}
	if err != nil {
		left = append(left, err.Error())
	}
	if err := goleak.Find(); err != nil {
		left = append(left, err.Error())
	}
	return left
}

func newSince(before hostState) ([]string, error) {
	now, err := readHostState()
	var left []string
	for thing := range now {
		if !before[thing] {
			left = append(left, thing)
		}
	}
	slices.Sort(left)
	return left, err
}

func readHostState() (hostState, error) {
	s := hostState{}
	for _, find := range []func(hostState) error{namespaces, folders, files, links, descriptors, processes} {
		if err := find(s); err != nil {
			return s, err
		}
	}
	return s, nil
}

// namespaces leaves out those of labs that another living process owns: a
// person may use the machine while tests run.
func namespaces(s hostState) error {
	names, err := netcfg.Namespaces()
	if err != nil {
		return err
	}
	for _, name := range names {
		if of, _ := netcfg.LabOf(name); !othersLab(of) {
			s["namespace "+name] = true
		}
	}
	return nil
}

func folders(s hostState) error {
	entries, err := os.ReadDir(lab.Folder)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for _, e := range entries {
		if e.IsDir() && !othersLab(e.Name()) {
			s["folder "+filepath.Join(lab.Folder, e.Name())] = true
		}
	}
	return nil
}

// homes are where daemons of paths put sockets, pid files, logs and databases
// when nobody tells them not to. Ours are told.
var homes = []string{"/run", "/var/log", "/var/lib", "/etc"}

// households are the names of those folders and files: openvswitch, ovn,
// ovs-vswitchd.123.ctl, bird.ctl.
var households = []string{"openvswitch", "ovs", "ovn", "bird"}

func files(s hostState) error {
	for _, home := range homes {
		for _, household := range households {
			found, err := filepath.Glob(filepath.Join(home, household+"*"))
			if err != nil {
				return err
			}
			inside, err := filepath.Glob(filepath.Join(home, household+"*", "*"))
			if err != nil {
				return err
			}
			for _, file := range append(found, inside...) {
				s["file "+file] = true
			}
		}
	}
	return nil
}

func othersLab(name string) bool {
	owner, ok := lab.Owner(name)
	return ok && owner != os.Getpid()
}

// moduleDevices are those that the kernel makes in each namespace, the machine's own too,
// when it loads a module for tunnels; nobody can delete them.
var moduleDevices = []string{"tunl0", "gre0", "gretap0", "erspan0"}

// links leaves out the kernel's own.
func links(s hostState) error {
	list, err := host.Links()
	if err != nil {
		return err
	}
	for _, l := range list {
		if slices.Contains(moduleDevices, l.Attrs().Name) {
			continue
		}
		s["link "+l.Attrs().Name+" of the machine itself"] = true
	}
	return nil
}

// descriptors leaves out those that the Go runtime opens once and keeps.
func descriptors(s hostState) error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil {
			continue // the one that reads the folder
		}
		if to == "anon_inode:[eventpoll]" || to == "anon_inode:[eventfd]" {
			continue
		}
		s[fmt.Sprintf("descriptor %s (%s)", e.Name(), to)] = true
	}
	return nil
}

// processes finds children of this process, others that run its program, for
// what tests start plays a role of their own binary, and daemons of labs, which
// are told of files in the lab's folder.
func processes(s hostState) error {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		exe, _ := os.Readlink(filepath.Join("/proc", e.Name(), "exe"))
		command := strings.Join(host.Reader{}.Command(pid), " ")
		of, daemon := daemonOf(command)
		if exe == self || parent(pid) == os.Getpid() || daemon && !othersLab(of) && inOurPIDNamespace(e.Name()) {
			s[fmt.Sprintf("process %d (%s)", pid, command)] = true
		}
	}
	return nil
}

// kernelsMount is where scripts/isolate puts the kernels for a moment: its command line is there as
// long as the tests of somebody else are.
const kernelsMount = "kernels"

// daemonOf reads the name of a lab from the command line of one of its daemons.
func daemonOf(command string) (name string, ok bool) {
	_, rest, ok := strings.Cut(command, lab.Folder+"/")
	name, _, _ = strings.Cut(rest, "/")
	return name, ok && !strings.HasPrefix(name, kernelsMount+"\n")
}

// inOurPIDNamespace is false for a process of tests that scripts/isolate runs: the folder of its lab is its own.
func inOurPIDNamespace(pid string) bool {
	theirs, err := os.Readlink(filepath.Join("/proc", pid, "ns/pid"))
	if err != nil {
		return false // it has ended
	}
	ours, err := os.Readlink("/proc/self/ns/pid")
	return err == nil && theirs == ours
}

// parent reads the pid of a process' parent; 0 when it is gone. The name in
// the line may hold anything, so the fields are counted from its end.
func parent(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 2 || slices.Contains([]string{"Z", "X"}, fields[0]) {
		return 0 // dead, and waits only for its parent to notice
	}
	ppid, _ := strconv.Atoi(fields[1])
	return ppid
}
