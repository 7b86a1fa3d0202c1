package vm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/internal/vm"
)

func asError(err error, e **verr.Error) bool { return errors.As(err, e) }

func settings(name, value string) []netcfg.Sysctl {
	return []netcfg.Sysctl{{Name: name, Value: value}}
}

// runner is a guest, local or behind a socket.
type runner interface {
	Run(context.Context, vm.Command) (int, error)
}

// sh runs a script in a guest and returns its output.
func sh(t *testing.T, g runner, script string) string {
	t.Helper()
	var out bytes.Buffer
	exit, err := g.Run(t.Context(), vm.Command{Args: []string{"sh", "-ec", script}, Stdout: &out, Stderr: &out})
	if err != nil || exit != 0 {
		t.Errorf("%s: exit %d, %v: %s", script, exit, err, &out)
	}
	return strings.TrimSpace(out.String())
}

func ended(t *testing.T, g *vm.Guest) error {
	t.Helper()
	select {
	case <-g.Done():
	case <-time.After(2 * time.Minute):
		t.Fatal("the machine is still there")
	}
	return g.Ended()
}

func start(t *testing.T, c vm.Config) *vm.Guest {
	t.Helper()
	begin := time.Now()
	g, err := vm.Start(t.Context(), c)
	testenv.Must(t, err)
	t.Logf("started after %v", time.Since(begin).Round(100*time.Millisecond))
	t.Cleanup(func() { testenv.Must(t, g.Close()) })
	return g
}

// A guest with this host's files: what it sees, what it may write, and the error after a kernel
// panic. One boot for all of it.
func TestMachineOnThisMachinesFiles(t *testing.T) {
	c := config(t)
	// A folder whose name qemu and the kernel could misread.
	writable := filepath.Join(t.TempDir(), "a,b c=d:e")
	beside := t.TempDir()
	testenv.Must(t, os.Mkdir(writable, 0o755))
	c.Name, c.Root, c.Writable, c.Modules, c.Memory = "inside", true, []string{writable}, []string{"dummy"}, 2048
	c.Settings, c.Console = settings("net.ipv4.ip_forward", "1"), filepath.Join(t.TempDir(), "console")
	g := start(t, c)

	for _, q := range []struct{ script, want string }{
		{"uname -r", c.Kernel.Release},
		{"hostname", "inside"},
		{"grep -c . /etc/passwd", lines(t, "/etc/passwd")},
		{"cat /proc/sys/net/ipv4/ip_forward", "1"},
		{"ls -d /sys/module/dummy", "/sys/module/dummy"},
		{"ip -br link show lo | grep -o LOWER_UP", "LOWER_UP"},
		{"cat /sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc"},
		{"test -c /dev/net/tun && test -d /dev/pts && test -d /dev/shm && echo x > /dev/stdout", "x"},
		{"ulimit -n; ulimit -l", "1024\nunlimited"},
		{"stat -fc %T / /run /sys/fs/cgroup /sys/fs/bpf", "overlayfs\ntmpfs\ncgroup2fs\nbpf_fs"},
		// The kernel loads modules on demand, and modprobe works.
		{"ip link add g0 type geneve id 7 remote 127.0.0.1 && modprobe vxlan && ip -br link show g0 | wc -l", "1"},
		{"unshare -n true && mkdir -p /run/netns && ip netns add some && ip netns list", "some"},
	} {
		if got := sh(t, g, q.script); got != q.want {
			t.Errorf("%s: %q, want %q", q.script, got, q.want)
		}
	}
	var seconds int64
	_, err := fmt.Sscan(sh(t, g, "date +%s"), &seconds)
	if off := time.Since(time.Unix(seconds, 0)); err != nil || off.Abs() > 10*time.Minute { // an emulated clock drifts on a busy host; a wrong time zone is worse
		t.Errorf("the clock is off by %v, %v", off, err)
	}

	// Orphans are reaped.
	sh(t, g, "(sleep 0.2 &) ; sleep 1; ! ps -e -o stat= | grep -q Z")

	// Only the writable folder changes, at once, and keeps owners.
	sh(t, g, fmt.Sprintf("echo kept > '%s/file'; chown 1234:2345 '%[1]s/file'; chmod 640 '%[1]s/file'; echo gone > '%s/file'", writable, beside))
	content, err := os.ReadFile(filepath.Join(writable, "file"))
	info, statErr := os.Stat(filepath.Join(writable, "file"))
	testenv.Must(t, errors.Join(err, statErr))
	owner := info.Sys().(*syscall.Stat_t)
	if string(content) != "kept\n" || owner.Uid != 1234 || owner.Gid != 2345 || info.Mode().Perm() != 0o640 {
		t.Errorf("wrote %q, owner %d:%d, mode %v", content, owner.Uid, owner.Gid, info.Mode())
	}
	if _, err := os.Stat(filepath.Join(beside, "file")); err == nil {
		t.Error("a folder that is not writable was written to")
	}

	_, err = g.Run(t.Context(), vm.Command{Args: []string{"no-such-program"}})
	refused(t, err, verr.Missing, "no-such-program")

	_, err = g.Run(t.Context(), vm.Command{Args: []string{"sh", "-c", "echo c > /proc/sysrq-trigger; sleep 60"}})
	refused(t, err, verr.Failed, "panicked", "sysrq triggered crash")
	refused(t, ended(t, g), verr.Failed, c.Kernel.Release, "panicked", "sysrq triggered crash", "its console ends with")
	_, err = g.Run(t.Context(), vm.Command{Args: []string{"true"}})
	refused(t, err, verr.Failed, "panicked")
	if text, err := os.ReadFile(c.Console); err != nil || !bytes.Contains(text, []byte("Kernel panic")) {
		t.Errorf("the console's file, of %d bytes, does not tell of the panic: %v", len(text), err)
	}
}

func lines(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	testenv.Must(t, err)
	return fmt.Sprint(bytes.Count(text, []byte("\n")))
}

// pidOf finds the qemu of a machine by its name.
func pidOf(t *testing.T, name string) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	testenv.Must(t, err)
	for _, f := range files {
		text, _ := os.ReadFile(f) // it may have ended
		if strings.Contains(string(text), "\x00-name\x00venturi-"+name+"\x00") {
			var pid int
			_, err := fmt.Sscanf(f, "/proc/%d/", &pid)
			testenv.Must(t, err)
			return pid
		}
	}
	return 0
}

func unique(t *testing.T) string {
	return fmt.Sprintf("%s-%d", strings.ToLower(t.Name()), os.Getpid())
}

func TestMachineThatHangs(t *testing.T) {
	c := config(t)
	c.Name, c.SilenceLimit = unique(t), 10*time.Second
	g := start(t, c)
	testenv.Must(t, syscall.Kill(pidOf(t, c.Name), syscall.SIGSTOP))
	_, err := g.Run(t.Context(), vm.Command{Args: []string{"/init"}})
	refused(t, err, verr.Failed, "hangs", "10s")
	refused(t, ended(t, g), verr.Failed, "hangs", "10s")
}

// Another process holds the machine. The machine ends with that process, and with qemu.
func TestMachineHeldByAnother(t *testing.T) {
	c := config(t)
	c.Name, c.Root = unique(t), true
	folder := t.TempDir()
	testenv.Must(t, os.Chmod(folder, 0o700))
	file, socket := filepath.Join(folder, "config"), filepath.Join(folder, "socket")
	testenv.Must(t, c.Write(file))
	var said bytes.Buffer
	holder := exec.Command(c.Program[0], "hold", file, socket)
	holder.Stderr = &said
	lifeline, err := holder.StdinPipe()
	testenv.Must(t, err)
	defer lifeline.Close()
	testenv.Must(t, holder.Start())
	done := make(chan error, 1)
	go func() { done <- holder.Wait() }()
	for end := time.Now().Add(vm.LongestStart); ; time.Sleep(20 * time.Millisecond) {
		// A socket has its name a moment before anybody listens on it.
		if c, err := net.Dial("unix", socket); err == nil {
			c.Close()
			break
		}
		select {
		case err := <-done:
			t.Fatalf("the holder ended: %v: %s", err, &said)
		default:
		}
		if time.Now().After(end) {
			t.Fatal("the machine does not come up")
		}
	}
	g := vm.RemoteGuest{Socket: socket}
	if got := sh(t, g, "uname -r"); got != c.Kernel.Release {
		t.Errorf("runs %s", got)
	}
	pid := pidOf(t, c.Name)
	testenv.Must(t, holder.Process.Kill())
	<-done
	for end := time.Now().Add(time.Minute); syscall.Kill(pid, 0) == nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("qemu outlives the process that started it")
		}
	}
	_, err = g.Run(t.Context(), vm.Command{Args: []string{"true"}})
	refused(t, err, verr.Failed, "cannot reach", socket)
}

func TestMachineWhoseQemuIsKilled(t *testing.T) {
	c := config(t)
	c.Name = unique(t)
	g := start(t, c)
	began, ready := io.Pipe()
	go func() {
		began.Read(make([]byte, 9))
		syscall.Kill(pidOf(t, c.Name), syscall.SIGKILL)
		io.Copy(io.Discard, began)
	}()
	_, err := g.Run(t.Context(), vm.Command{Args: []string{"/init", "wait"}, Env: []string{"VENTURI_TEST_ROLE=1"}, Stdout: ready})
	ready.Close()
	refused(t, err, verr.Failed, "killed")
	refused(t, ended(t, g), verr.Failed, "qemu ended: signal: killed")
}
