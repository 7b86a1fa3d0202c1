package lab_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

// sh runs a script, and tells what it wrote when it fails.
func sh(script string) error {
	out, err := exec.Command("sh", "-ec", script).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", script, err, out)
	}
	return nil
}

// otherTools are what other programs do to the folder of namespaces while a lab is up
// that is the first to use it since the machine was started, and what they do when
// it is down again.
var otherTools = []struct{ name, up, down string }{
	{"ip", "ip netns add first", "ip netns del first"},
	{"ip, many at once", "for i in 1 2 3 4 5 6 7 8; do ip netns add x$i & done; wait", "for i in 1 2 3 4 5 6 7 8; do ip netns del x$i; done"},
	{"the folder bound over itself", "mount --rbind /run/netns /run/netns", "umount -l /run/netns"},
	{"the same twice, and shared", "for i in 1 2; do mount --rbind /run/netns /run/netns; mount --make-rshared /run/netns; done", "umount -l /run/netns"},
	{"the folder bound over itself without its mounts", "mount --bind /run/netns /run/netns", "umount -l /run/netns"},
	{"/run bound over itself", "mount --rbind /run /run", "umount -l /run"},
	{"/run bound elsewhere", "mkdir -p /run/x; mount --rbind /run /run/x", "umount -l /run/x"},
	{"a program with mounts of its own", "unshare -m --propagation unchanged sleep 300 >/dev/null 2>&1 & echo $! >/run/pid", "kill $(cat /run/pid)"},
}

// Whatever others do to the folder of namespaces while a lab is up, it is taken down
// whole, and another one can have its name.
func TestFolderOfNamespacesChanges(t *testing.T) {
	testenv.Root(t)
	for i, o := range otherTools {
		if out, err := testenv.RunIsolated(t, "/run", "beside", fmt.Sprint(i), testenv.LabName()); err != nil {
			t.Errorf("%s: %v: %s", o.name, err, out)
		}
	}
}

// changeNetnsFolder plays what args[1] says with the lab args[2].
func changeNetnsFolder(args []string) int {
	var err error
	switch args[1] {
	case "reach":
		err = outOfReach(args[2], args[3])
	case "runc":
		err = amongContainers(args[2], args[3])
	default:
		err = amongOthers(args[2], args[1])
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// amongOthers raises a lab, lets others do something, and takes it down.
func amongOthers(name, which string) error {
	var i int
	if _, err := fmt.Sscan(which, &i); err != nil {
		return err
	}
	for _, keep := range []bool{true, false} {
		err := upAndDown(name, keep, func() error { return sh(otherTools[i].up) })
		if err := errors.Join(err, sh(otherTools[i].down)); err != nil {
			return err
		}
	}
	return nil
}

// upAndDown raises a lab, takes it down as its owner, or when it is kept, as the
// next process does, and looks for what is left.
func upAndDown(name string, keep bool, during func() error) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	ctx := context.Background()
	l, err := lab.Up(ctx, lab.Options{Name: name, Paths: []string{"host", "routed"}, Keep: keep, AgentCommand: []string{exe, "agent"}})
	if err != nil {
		return err
	}
	down := l.Down
	if keep {
		down = func() error { return lab.Remove(ctx, name) }
	}
	if err := errors.Join(during(), down()); err != nil {
		return err
	}
	return nothingOf(name)
}

// nothingOf tells what is left of a lab.
func nothingOf(name string) error {
	mark := netcfg.Mark + name + "."
	names, err := netcfg.Namespaces()
	if i := slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, mark) }); i >= 0 {
		err = errors.Join(err, fmt.Errorf("%s is there", names[i]))
	}
	if _, stat := os.Stat(folder(name)); stat == nil {
		err = errors.Join(err, fmt.Errorf("%s is there", folder(name)))
	}
	tables, globErr := filepath.Glob("/proc/[0-9]*/mountinfo")
	for _, file := range tables {
		text, _ := os.ReadFile(file) // the process may be gone
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, mark) {
				err = errors.Join(err, fmt.Errorf("%s: %s", file, line))
			}
		}
	}
	return errors.Join(err, globErr)
}

// A name that nobody can reach is told of, with where something is mounted on it;
// the rest of the lab goes, and another one can have its name.
func TestNameOutOfReach(t *testing.T) {
	testenv.Root(t)
	if out, err := testenv.RunIsolated(t, "/run", "beside", "reach", testenv.LabName(), t.TempDir()); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func outOfReach(name, elsewhere string) error {
	var told error
	err := upAndDown(name, true, func() error {
		return sh(fmt.Sprintf("mount --rbind /run %[1]s; mount --make-rprivate %[1]s; mount -t tmpfs t %[1]s", elsewhere))
	})
	if err == nil || !strings.Contains(err.Error(), elsewhere+"/netns/"+netcfg.Mark+name+".m1") {
		told = fmt.Errorf("taken down: %v, want an error that says where m1 is mounted", err)
	}
	if _, err := os.Stat(folder(name)); err == nil {
		told = errors.Join(told, errors.New("its folder is there"))
	}
	again := upAndDown(name, false, func() error { return sh(fmt.Sprintf("umount -l %[1]s; umount -l %[1]s", elsewhere)) })
	return errors.Join(told, again)
}

// Containers come and go beside a lab, whatever of the folder of namespaces they
// have: nothing of the lab stays in their mounts, and it is taken down.
func TestContainersComeAndGo(t *testing.T) {
	testenv.Root(t)
	if _, err := exec.LookPath("runc"); err != nil && !testenv.Required() {
		t.Skip("needs runc: apt-get install runc")
	}
	for _, propagation := range []string{"private", "rslave", "rshared"} {
		if out, err := testenv.RunIsolated(t, "/run", "beside", "runc", testenv.LabName(), bundle(t, propagation)); err != nil {
			t.Errorf("%s: %v: %s", propagation, err, out)
		}
	}
}

// bundle makes what runc starts a container from, which has the machine's programs
// and folder of namespaces.
func bundle(t *testing.T, propagation string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	type mount struct {
		Destination string   `json:"destination"`
		Type        string   `json:"type"`
		Source      string   `json:"source"`
		Options     []string `json:"options,omitempty"`
	}
	mounts := []mount{{"/proc", "proc", "proc", nil}, {host.NamespaceFolder, "bind", host.NamespaceFolder, []string{"rbind", propagation}}}
	for _, programs := range []string{"/bin", "/lib", "/lib64", "/usr"} {
		if _, err := os.Stat(programs); err == nil {
			mounts = append(mounts, mount{programs, "bind", programs, []string{"rbind", "ro"}})
		}
	}
	text, err := json.Marshal(map[string]any{
		"ociVersion": "1.0.0",
		"root":       map[string]any{"path": "rootfs"},
		"process":    map[string]any{"args": []string{"sleep", "0.1"}, "cwd": "/", "env": []string{"PATH=/bin:/usr/bin"}},
		"mounts":     mounts,
		"linux":      map[string]any{"namespaces": []any{map[string]string{"type": "mount"}, map[string]string{"type": "pid"}, map[string]string{"type": "network"}}},
	})
	testenv.Must(t, err)
	testenv.Must(t, os.Mkdir(filepath.Join(folder, "rootfs"), 0o755))
	testenv.Must(t, os.WriteFile(filepath.Join(folder, "config.json"), text, 0o600))
	return folder
}

// amongContainers raises and takes down labs while containers of a bundle come and go.
func amongContainers(name, bundle string) error {
	ended, done := make(chan struct{}), make(chan error, 1)
	ran := 0
	run := func() (err error) {
		for ; err == nil; ran++ {
			select {
			case <-ended:
				return nil
			default:
			}
			err = sh(fmt.Sprintf("mkdir -p /run/netns; timeout 60 runc --root /run/runc run --bundle %s c%d </dev/null", bundle, ran))
		}
		return err
	}
	go func() { done <- run() }()
	var failed error
	for i := 0; i < 6 && failed == nil; i++ {
		failed = upAndDown(name, i%2 == 0, func() error { return sh("sleep 0.1") })
	}
	close(ended)
	failed = errors.Join(failed, <-done)
	if ran == 0 {
		failed = errors.Join(failed, errors.New("no container ran"))
	}
	return failed
}
