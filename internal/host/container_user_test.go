package host_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
)

// userNamespace is the network namespace of a process that this user started in a user namespace
// of its own.
func userNamespace(t *testing.T, uid uint32) string {
	t.Helper()
	cmd := exec.Command("unshare", "--user", "--net", "sh", "-c", "echo; exec sleep 1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: uid, Gid: uid}, Pdeathsig: syscall.SIGKILL,
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN}, // some systems let nobody else do that
	}
	out, err := cmd.StdoutPipe()
	testenv.Must(t, err)
	testenv.Must(t, cmd.Start())
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	_, err = io.ReadFull(out, make([]byte, 1))
	testenv.Must(t, err)
	return fmt.Sprintf("/proc/%d/ns/net", cmd.Process.Pid)
}

// What users write about containers is believed only of what is theirs, and cannot hold root up.
func TestContainerOfUser(t *testing.T) {
	testenv.Root(t)
	const uid, other = 1000, 1001
	const home, own = "/proc/self/ns/net", "own"
	theirs := userNamespace(t, uid)
	const folder, state = "/run/user/1000", "/run/user/1000/runc/x/state.json"
	const text = `{"id":"webx","init_process_pid":10}`
	for name, c := range map[string]struct {
		netns string // of process 10
		make  func(root string) error
		pid   int // of the container that is found; 0: none is
	}{
		"own":        {own, nil, 10},
		"the host's": {home, nil, 0},
		"root's data in a user's home": {home, func(root string) error {
			ann := filepath.Join("/home", "ann")
			host.Put(t, root, "/etc/docker/daemon.json", `{"data-root":"`+ann+`/docker"}`)
			host.Put(t, root, "/run/crun/c0ffee/status", `{"pid":10}`)
			host.Put(t, root, ann+"/docker/containers/c0ffee/config.v2.json", `{"ID":"c0ffee","Name":"/webx"}`)
			return os.Lchown(filepath.Join(root, ann), uid, uid)
		}, 10},
		"a home of root's": {own, func(root string) error {
			ann := filepath.Join("/home", "ann")
			host.Put(t, root, state, `{"id":"c0ffee","init_process_pid":10}`)
			host.Put(t, root, ann+"/.local/share/docker/containers/c0ffee/config.v2.json", `{"ID":"c0ffee","Name":"/webx"}`)
			return chown(root, ann+"/.local", uid)
		}, 10},
		"another user's": {own, func(root string) error { return chown(root, folder, other) }, 0},
		"a pipe": {own, func(root string) error {
			file := filepath.Join(root, state)
			if err := os.Remove(file); err != nil {
				return err
			}
			if err := unix.Mkfifo(file, 0o600); err != nil {
				return err
			}
			pipe, err := os.OpenFile(file, os.O_RDWR, 0)
			if err != nil {
				return err
			}
			t.Cleanup(func() { pipe.Close() })
			time.AfterFunc(time.Second, func() { pipe.Close() }) // who waits for its end waits no longer
			_, err = pipe.WriteString(text)
			return err
		}, 0},
		"a link": {own, func(root string) error {
			host.Put(t, root, "file", text)
			file := filepath.Join(root, state)
			if err := os.Remove(file); err != nil {
				return err
			}
			return os.Symlink(filepath.Join(root, "file"), file)
		}, 0},
		"a linked folder": {home, func(root string) error {
			host.Put(t, root, "of-root/status", `{"pid":10}`)
			if err := os.Mkdir(filepath.Join(root, folder, "crun"), 0o700); err != nil {
				return err
			}
			return os.Symlink(filepath.Join(root, "of-root"), filepath.Join(root, folder, "crun/webx"))
		}, 0},
		"too large": {own, func(root string) error {
			host.Put(t, root, state, text+strings.Repeat(" ", host.MostState))
			return nil
		}, 0},
		"another's container": {home, func(root string) error {
			host.Put(t, root, "/run/crun/c0ffee/status", `{"pid":10}`)
			ann := filepath.Join("/home", "ann")
			host.Put(t, root, ann+"/.local/share/docker/containers/c0ffee/config.v2.json", `{"ID":"c0ffee","Name":"/webx"}`)
			return chown(root, ann, uid)
		}, 0},
		"root has one of that name": {own, func(root string) error {
			host.PutProcess(t, root, 11, 1000)
			host.Put(t, root, "/run/crun/webx-of-root/status", `{"pid":11}`)
			return nil
		}, 11},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			host.PutProcess(t, root, 10, 1000)
			if c.netns == own {
				c.netns = theirs
			}
			link := filepath.Join(root, "proc/10/ns/net")
			testenv.Must(t, os.Remove(link))
			testenv.Must(t, os.Symlink(c.netns, link))
			host.Put(t, root, state, text)
			testenv.Must(t, chown(root, folder, uid))
			if c.make != nil {
				testenv.Must(t, c.make(root))
			}
			want := ""
			if c.pid > 0 {
				want = fmt.Sprintf("/proc/%d/ns/net", c.pid)
			}
			if file, err := host.ContainerNamespaceBelow(root, "webx"); file != want || (err == nil) != (c.pid > 0) {
				t.Errorf("%q, %v, want %q", file, err, want)
			}
		})
	}
}

// chown gives a folder of a made-up machine, and all below it, to a user.
func chown(root, folder string, uid int) error {
	return filepath.WalkDir(filepath.Join(root, folder), func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, uid, uid)
	})
}
