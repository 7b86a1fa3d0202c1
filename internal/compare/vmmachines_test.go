package compare

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/kernel"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/vm"
)

// VMMachines are virtual machines with a kernel each, which ssh reaches: nothing is shared
// but the files that they read.
type VMMachines struct {
	Guests []*vm.Guest
	SSH    []string // the ssh command that knows how to reach them, by their names
}

// NewVMMachines starts one machine with so many MiB for each kernel. They are called va, vb, ... and have the
// addresses 192.0.2.1, 192.0.2.2, ... on eth0.
func NewVMMachines(t *testing.T, memory int, kernels ...string) *VMMachines {
	t.Helper()
	testenv.Root(t)
	for _, n := range vm.Needs() {
		if _, err := n.Ask(); err != nil && !testenv.Required() {
			t.Skip(err)
		}
	}
	wire, err := netcfg.NewAnonymous()
	testenv.Must(t, err)
	t.Cleanup(func() { wire.Close() })
	testenv.Must(t, wire.AddBridge("wire", nil, 1500))
	testenv.Must(t, wire.AddAddr("wire", netip.MustParsePrefix("192.0.2.254/24")))
	m := &VMMachines{Guests: make([]*vm.Guest, len(kernels))}
	dir := t.TempDir()
	for _, key := range []string{"user", "host"} {
		text, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, key)).CombinedOutput()
		if err != nil {
			t.Fatalf("make a key: %v: %s", err, text)
		}
	}
	program := testenv.Program(t)
	testenv.Must(t, os.Symlink(program[0], filepath.Join(dir, "venturi")))
	testenv.Must(t, os.WriteFile(filepath.Join(dir, "sshd"), fmt.Appendf(nil,
		"HostKey /run/host\nAuthorizedKeysFile /run/keys\nUsePAM no\nPermitRootLogin yes\nStrictModes no\nPidFile none\nUseDNS no\n"+
			"PasswordAuthentication no\nLoginGraceTime 0\nSetEnv VENTURI_TEST_ROLE=1 PATH=%s:/usr/sbin:/usr/bin:/sbin:/bin\n", dir), 0o600))
	var config bytes.Buffer
	for i, name := range kernels {
		k, err := kernel.Find(name)
		if err != nil && !testenv.Required() {
			t.Skip(err)
		}
		testenv.Must(t, err)
		host, tap := "v"+string(rune('a'+i)), fmt.Sprintf("tap%d", i)
		testenv.Must(t, wire.AddTap(netcfg.Tap{Name: tap, MTU: 1500}))
		testenv.Must(t, wire.Enslave(tap, "wire", false))
		began := time.Now()
		g, err := vm.Start(t.Context(), vm.Config{
			Kernel: k, Program: program, Name: host, Accel: vm.TCG, CPUs: 1, Memory: memory, Root: true, In: wire,
			NICs:       []vm.NIC{{Tap: tap, MAC: fmt.Sprintf("02:00:00:00:01:%02x", i+1), Addr: netip.MustParsePrefix(fmt.Sprintf("192.0.2.%d/24", i+1))}},
			StartLimit: 10 * time.Minute, SilenceLimit: 10 * time.Minute,
		})
		testenv.Must(t, err)
		m.Guests[i] = g
		t.Cleanup(func() { testenv.Must(t, g.Close()) })
		m.Do(t, i, fmt.Sprintf("mkdir -p /run/sshd; cp %[1]s/host /run/host; cp %[1]s/user.pub /run/keys; chmod 600 /run/host; /usr/sbin/sshd -f %[1]s/sshd", dir))
		t.Logf("%s with %s is up after %v", host, k.Release, time.Since(began).Round(time.Second))
		fmt.Fprintf(&config, "Host %s\n  HostName 192.0.2.%d\n  User root\n  IdentityFile %s/user\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n", host, i+1, dir)
	}
	file := filepath.Join(dir, "config")
	testenv.Must(t, os.WriteFile(file, config.Bytes(), 0o600))
	at := strings.Replace(wire.Path(), "self", fmt.Sprint(os.Getpid()), 1)
	m.SSH = []string{"nsenter", "--net=" + at, "ssh", "-F", file}
	return m
}

// Do runs a script in a guest, not by ssh.
func (m *VMMachines) Do(t *testing.T, i int, script string) string {
	t.Helper()
	var out bytes.Buffer
	code, err := m.Guests[i].Run(t.Context(), vm.Command{Args: []string{"sh", "-ec", script}, Stdout: &out, Stderr: &out,
		Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}})
	if err != nil || code != 0 {
		t.Fatalf("%s: exit code %d, %v: %s", script, code, err, &out)
	}
	return out.String()
}
