package host_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
)

// A process sees the whole machine where all processes are in sight, and the files are those of the
// first one. What it sees otherwise is known again by the number of the installation, or by its name.
func TestSight(t *testing.T) {
	const own, number = "pid:[4026532201]", "0123456789abcdef0123456789abcdef"
	const ownMounts, hostMounts = "27 1 254:0 / / rw - ext4 /dev/vda rw\n22 27 0:21 / /proc rw - proc proc rw\n", "27 1 0:99 / / rw - overlay overlay rw\n"
	seen := func(pid, mounts, first, number, name string) host.Sight {
		root := t.TempDir()
		for file, text := range map[string]string{"etc/machine-id": number, "proc/sys/kernel/hostname": name, "proc/self/mountinfo": mounts, "proc/1/mountinfo": first} {
			testenv.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o755))
			testenv.Must(t, os.WriteFile(filepath.Join(root, file), []byte(text+"\n"), 0o644))
		}
		testenv.Must(t, os.MkdirAll(root+"/proc/self/ns", 0o755))
		testenv.Must(t, os.Symlink(pid, root+"/proc/self/ns/pid"))
		return host.Reader{Root: root}.Sight()
	}
	sight := func(pid string, otherFiles bool, number, name string) host.Sight {
		if otherFiles {
			return seen(pid, ownMounts, hostMounts, number, name)
		}
		return seen(pid, ownMounts, ownMounts, number, name)
	}
	for mounts, same := range map[string]bool{
		ownMounts + "40 27 254:0 /etc /etc ro - ext4 /dev/vda rw\n": true, // a service's own
		ownMounts + "40 27 0:50 / /etc rw - tmpfs tmpfs rw\n":       false,
		"40 27 254:0 /var/rootfs / rw - ext4 /dev/vda rw\n":         false,
		"": false,
	} {
		if s := seen("pid:[4026531836]", mounts, ownMounts, number, "node"); s.Whole != same {
			t.Errorf("with the mounts %q: %+v", mounts, s)
		}
	}
	machine := sight("pid:[4026531836]", false, number, "node")
	if !machine.Whole || machine.Name() != "" || !machine.Covers("") || strings.Contains(machine.ID, number) {
		t.Errorf("on the machine itself: %+v", machine)
	}
	container := sight(own, false, number, "node")
	for name, c := range map[string]struct {
		host.Sight
		same bool // as the container's
	}{
		"a pod with the host's processes":                 {sight("pid:[4026531836]", true, "", "node"), false},
		"a container with its own processes":              {sight(own, false, "", "5d2f"), false},
		"an image whose number is to be made":             {sight(own, false, "uninitialized", "5d2f"), false},
		"the container, started anew":                     {sight(own, false, number, "other"), true},
		"a pod in a node that is a container without one": {sight(own, true, "", "node"), false},
	} {
		if c.Whole || c.Covers("") || c.Name() == "" || !c.Covers(c.Name()) || c.Covers(container.Name()) != c.same {
			t.Errorf("%s: %+v", name, c.Sight)
		}
	}
	if a, b := sight(own, false, "", "node"), sight(own, true, "", "node"); a.Covers(b.Name()) || !a.Covers(sight(own, false, "", "node").Name()) {
		t.Errorf("a node that is a container, and a pod in it: %+v, %+v", a, b)
	}
	if !machine.Covers(container.Name()) || (host.Sight{}).Covers("") {
		t.Error("the machine does not see what a process on its files has changed, or nothing sees all")
	}
}
