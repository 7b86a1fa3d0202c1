package testenv

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// SSHMachine is a machine that is reached by OpenSSH: network, processes, mounts and
// host name are its own, and so are /run, /tmp, /var/tmp, /dev/shm and /var/lib.
type SSHMachine struct {
	Name string
	Pid  int      // of a process in it that lives as long as the test
	SSH  []string // the ssh command that knows how to reach it, by its name

	namespaces []string       // nsenter's flags for those that are its own
	config     string         // of ssh
	users      int            // that were made
	wired      bool           // it has eth0
	residents  map[int]string // processes that are there for as long as the machine
}

// SSHCommand is the ssh command that knows how to reach several machines.
func SSHCommand(t testing.TB, machines ...*SSHMachine) []string {
	t.Helper()
	var all string
	for _, m := range machines {
		all += m.config
	}
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte(all), 0o600); err != nil {
		t.Fatalf("write ssh's configuration: %v", err)
	}
	return []string{"ssh", "-F", file}
}

// Root is its file system, seen from here.
func (m *SSHMachine) Root() string { return fmt.Sprintf("/proc/%d/root", m.Pid) }

// Netns is the file of its network namespace, seen from here.
func (m *SSHMachine) Netns() string { return fmt.Sprintf("/proc/%d/ns/net", m.Pid) }

// sshd insists on being started by an absolute path.
const sshd = "/usr/sbin/sshd"

// NewSSHMachine makes a machine; it is gone after the test. Programs that are started in it
// play roles of the test binary, as [Main] says.
func NewSSHMachine(t testing.TB, name string) *SSHMachine {
	t.Helper()
	return NewSSHMachineAhead(t, name, 0)
}

// NewSSHMachineAhead makes a machine whose monotonic clocks are ahead of those of others, as if it had
// been started so long before them.
func NewSSHMachineAhead(t testing.TB, name string, ahead time.Duration) *SSHMachine {
	t.Helper()
	Root(t)
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("ssh machine %s: %s: %v", name, what, err)
		}
	}
	// What root's shell does here at a login is not the machine's: it may wait for a lock that a shell held
	// which ended with another machine.
	setup := `set -e; hostname "$0"
for d in /run /tmp /var/tmp /dev/shm /var/lib; do mount -t tmpfs -o mode=1777 none $d; done
[ ! -e ~root/.bashrc ] || mount --bind /dev/null ~root/.bashrc
mkdir -p /run/sshd /run/ssh; ip link set lo up; echo ready; exec sleep infinity`
	namespaces := []string{"--mount", "--pid", "--net", "--uts", "--ipc"}
	var offsets []string
	if ahead > 0 {
		if _, err := os.Stat("/proc/self/ns/time"); err != nil {
			t.Skip("this kernel has no namespaces of clocks (CONFIG_TIME_NS)")
		}
		namespaces = append(namespaces, "--time")
		seconds := fmt.Sprint(int64(ahead.Seconds()))
		offsets = []string{"--monotonic", seconds, "--boottime", seconds}
	}
	cmd := exec.Command("unshare", slices.Concat(namespaces, offsets,
		[]string{"--fork", "--kill-child", "--mount-proc", "--propagation", "private", "sh", "-c", setup, name})...)
	out, err := cmd.StdoutPipe()
	must("start", err)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must("start", cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	ready := make([]byte, 6)
	_, err = out.Read(ready)
	must("set up", err)
	m := &SSHMachine{Name: name, Pid: childOf(t, cmd.Process.Pid), namespaces: namespaces}

	dir := t.TempDir()
	for _, key := range []string{"user", "host"} {
		text, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, key)).CombinedOutput()
		must("make a key: "+string(text), err)
	}
	put := func(file string, text []byte) {
		must("write "+file, os.WriteFile(m.Root()+"/run/ssh/"+file, text, 0o600))
	}
	for from, to := range map[string]string{"host": "host", "user.pub": "keys"} {
		text, err := os.ReadFile(filepath.Join(dir, from))
		must("read a key", err)
		put(to, text)
	}
	put("config", fmt.Appendf(nil, "HostKey /run/ssh/host\nAuthorizedKeysFile /run/ssh/keys\nUsePAM no\nPermitRootLogin yes\n"+
		"StrictModes no\nPidFile none\nPasswordAuthentication no\nSetEnv %s=1\n", roleEnv))
	must("open the keys to users", os.Chmod(m.Root()+"/run/ssh/keys", 0o644))
	hostKey, err := os.ReadFile(filepath.Join(dir, "host.pub"))
	must("read a key", err)
	must("write", os.WriteFile(filepath.Join(dir, "known"), fmt.Appendf(nil, "%s %s", name, hostKey), 0o600))
	// Keys of the usual kind take longer to exchange than what most commands do.
	config := fmt.Sprintf("Host %s\n  User root\n  IdentityFile %s/user\n  UserKnownHostsFile %s/known\n  HostKeyAlias %s\n  KexAlgorithms curve25519-sha256\n"+
		"%s%s %s -i -f /run/ssh/config\n", name, dir, dir, name, proxyCommand, strings.Join(m.enter(), " "), sshd)
	m.config = config
	m.SSH = SSHCommand(t, m)
	return m
}

// ReachThrough has ssh reach the machine by its address, through another one (ProxyJump).
func (m *SSHMachine) ReachThrough(t testing.TB, other *SSHMachine, addr string) {
	t.Helper()
	before, _, ok := strings.Cut(m.config, proxyCommand)
	if !ok {
		t.Fatalf("ssh machine %s has no ProxyCommand", m.Name)
	}
	m.config = before + fmt.Sprintf("  HostName %s\n  ProxyJump %s\n", addr, other.Name)
	m.SSH = SSHCommand(t, other, m)
	m.Do(t, "sh", "-c", sshd+" -f /run/ssh/config -o ListenAddress="+addr)
	m.residents = m.Processes()
}

// proxyCommand begins the line of ssh's configuration that says how a machine is reached.
const proxyCommand = "  ProxyCommand "

// childOf waits for the one child of a process.
func childOf(t testing.TB, pid int) int {
	t.Helper()
	for range 200 {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
		var child int
		if n, _ := fmt.Sscan(strings.TrimSpace(string(text)), &child); n == 1 {
			return child
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("process %d has no child after 2 s", pid)
	return 0
}

// enter begins a command that runs in the machine.
func (m *SSHMachine) enter() []string {
	return append([]string{"nsenter", "--target", fmt.Sprint(m.Pid)}, m.namespaces...)
}

// Command is one that runs in the machine.
func (m *SSHMachine) Command(command ...string) *exec.Cmd {
	all := append(m.enter(), command...)
	return exec.Command(all[0], all[1:]...)
}

// Do runs a command in the machine, and fails the test with what it said.
func (m *SSHMachine) Do(t testing.TB, command ...string) {
	t.Helper()
	m.output(t, command...)
}

// Processes lists the commands that run in the machine, but for its own, by the numbers that they
// have here.
func (m *SSHMachine) Processes() map[int]string {
	own, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", m.Pid))
	if err != nil {
		return nil // the machine has ended
	}
	found := map[int]string{}
	files, _ := filepath.Glob("/proc/[0-9]*/ns/pid")
	for _, file := range files {
		var pid int
		if is, _ := os.Readlink(file); is != own {
			continue
		}
		if n, _ := fmt.Sscanf(file, "/proc/%d/", &pid); n != 1 || pid == m.Pid {
			continue
		}
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if command := strings.ReplaceAll(string(text), "\x00", " "); command != "" && m.residents[pid] == "" {
			found[pid] = command
		}
	}
	return found
}

// Install puts a program on the machine's PATH, as venturi.
func (m *SSHMachine) Install(t testing.TB, program string) {
	t.Helper()
	sum := checksum(t, program)
	m.Do(t, "mount", "-t", "tmpfs", "none", "/usr/local/bin")
	from, err := os.Open(program)
	Must(t, err)
	defer from.Close()
	to, err := os.OpenFile(m.Root()+"/usr/local/bin/venturi", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	Must(t, err)
	_, err = io.Copy(to, from) // by the kernel
	Must(t, errors.Join(err, to.Close()))
	// Else both files may be of the same tick of the clock, and neither newer.
	Must(t, os.Chtimes(to.Name(), time.Time{}, time.Now().Add(-time.Hour)))
	Must(t, os.WriteFile(m.Root()+InstalledSum, fmt.Appendf(nil, installedSum, sum), 0o755))
}

// checksums are those of programs that were installed, by their files: nothing changes one while tests run.
var checksums sync.Map

func checksum(t testing.TB, program string) string {
	t.Helper()
	if sum, ok := checksums.Load(program); ok {
		return sum.(string)
	}
	file, err := os.Open(program)
	Must(t, err)
	defer file.Close()
	h := sha256.New()
	_, err = io.Copy(h, file)
	Must(t, err)
	sum := fmt.Sprintf("%x", h.Sum(nil))
	checksums.Store(program, sum)
	return sum
}

// InstalledSum is a program on the machine's PATH that knows the checksum of the installed one: to read all
// of that takes a quarter of a second, for each command that comes by ssh.
const InstalledSum = "/usr/local/bin/sha256sum"

const installedSum = `#!/bin/sh
if [ "$1" = /usr/local/bin/venturi ] && [ "$0" -nt "$1" ]; then
	echo "%s  $1"
else
	exec /usr/bin/sha256sum "$@"
fi
`

// Remount mounts folders of the machine again, with an option.
func (m *SSHMachine) Remount(t testing.TB, option string, folders ...string) {
	t.Helper()
	for _, folder := range folders {
		m.Do(t, "mount", "-o", "remount,"+option, folder)
	}
}

// Join wires two machines by a veth pair, each with the device eth0, and gives them the
// addresses 192.0.2.1 and 192.0.2.2, by which ssh knows them, too.
func Join(t testing.TB, a, b *SSHMachine) {
	t.Helper()
	join(t, "eth0", "192.0.2", a, b)
	for i, m := range []*SSHMachine{a, b} {
		m.wired = true
		m.config = strings.Replace(m.config, "Host "+m.Name+"\n", fmt.Sprintf("Host %s 192.0.2.%d\n", m.Name, i+1), 1)
		m.SSH = SSHCommand(t, m)
	}
}

// JoinSpare wires them once more, by devices eth1 with the addresses 198.51.100.1 and .2.
func JoinSpare(t testing.TB, a, b *SSHMachine) {
	t.Helper()
	join(t, "eth1", "198.51.100", a, b)
}

func join(t testing.TB, device, network string, a, b *SSHMachine) {
	t.Helper()
	// Of the machines only the network is entered: the processes' numbers are ours.
	text, err := exec.Command("nsenter", "--target", fmt.Sprint(a.Pid), "--net", "ip", "link", "add", device, "type", "veth",
		"peer", "name", device, "netns", fmt.Sprint(b.Pid)).CombinedOutput()
	if err != nil {
		t.Fatalf("join ssh machines: %v: %s", err, text)
	}
	for i, m := range []*SSHMachine{a, b} {
		m.Do(t, "ip", "address", "add", fmt.Sprintf("%s.%d/24", network, i+1), "dev", device)
		m.Do(t, "ip", "link", "set", device, "up")
	}
}

// JoinBySwitch wires machines to one switch, each by a device of that name, which is up.
func JoinBySwitch(t testing.TB, device string, machines ...*SSHMachine) {
	t.Helper()
	n := Netns(t)
	Shell(t, n.Path(), "ip link add br0 type bridge; ip link set br0 up")
	for i, m := range machines {
		Shell(t, n.Path(), fmt.Sprintf("ip link add p%d type veth peer name %s netns %d; ip link set p%[1]d master br0 up", i, device, m.Pid))
		m.Do(t, "ip", "link", "set", device, "up")
	}
}

// firstUser is the number of the first user that is made; the next ones follow.
const firstUser = 4711

// AddUser makes a user that may log in. It may become root if sudo is true, and as it is
// installed here.
func (m *SSHMachine) AddUser(t testing.TB, name string, sudo bool) {
	t.Helper()
	uid := firstUser + m.users
	m.users++
	files := map[string]string{"/etc/passwd": fmt.Sprintf("%s:x:%d:%[2]d::/tmp:/bin/sh\n", name, uid), "/etc/shadow": name + ":*:19000:0:99999:7:::\n"}
	if sudo {
		if _, err := exec.LookPath("sudo"); err != nil {
			t.Skip("sudo is not installed")
		}
		// Without its environment the program would not know the role that it plays.
		files["/etc/sudoers"] = "Defaults !env_reset\n" + name + " ALL=(ALL) NOPASSWD: ALL\n"
	}
	for file, more := range files {
		text, err := os.ReadFile(m.Root() + file) // with those that were made before
		if err != nil && sudo {
			t.Fatalf("ssh machine %s: %v", m.Name, err)
		}
		over := "/run/ssh/" + filepath.Base(file)
		if err := os.WriteFile(m.Root()+over, append(text, more...), 0o644); err != nil {
			t.Fatalf("ssh machine %s: %v", m.Name, err)
		}
		m.Do(t, "mount", "--bind", over, file)
	}
}

// Stop halts every process of the machine, as if it were paused, until the test is over.
func (m *SSHMachine) Stop(t testing.TB) {
	t.Helper()
	m.signal(syscall.SIGSTOP)
	t.Cleanup(func() { m.signal(syscall.SIGCONT) })
}

// Continue ends that.
func (m *SSHMachine) Continue() { m.signal(syscall.SIGCONT) }

// Output runs a command in the machine and gives what it printed.
func (m *SSHMachine) Output(t testing.TB, command ...string) string {
	t.Helper()
	args := append(m.enter(), command...)
	text, err := exec.Command(args[0], args[1:]...).Output()
	if err != nil {
		t.Fatalf("ssh machine %s: %s: %v", m.Name, strings.Join(command, " "), err)
	}
	return string(text)
}

// signal reaches all processes in the machine's PID namespace.
func (m *SSHMachine) signal(signal syscall.Signal) {
	for pid := range m.Processes() {
		_ = syscall.Kill(pid, signal)
	}
	_ = syscall.Kill(m.Pid, signal)
}

// Devices lists the network devices of the machine, but for those that are named.
func (m *SSHMachine) Devices(t testing.TB, but ...string) (names []string) {
	t.Helper()
	for _, line := range strings.Split(strings.TrimSpace(m.output(t, "ip", "-br", "link")), "\n") {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, _, _ = strings.Cut(name, "@")
		if !slices.Contains(but, name) {
			names = append(names, name)
		}
	}
	return names
}

// Flags is what the machine says of a device.
func (m *SSHMachine) Flags(t testing.TB, device string) string {
	t.Helper()
	return m.output(t, "ip", "link", "show", "dev", device)
}

// output is what a command in the machine says.
func (m *SSHMachine) output(t testing.TB, command ...string) string {
	t.Helper()
	args := append(m.enter(), command...)
	text, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("ssh machine %s: %s: %v: %s", m.Name, strings.Join(command, " "), err, text)
	}
	return string(text)
}
