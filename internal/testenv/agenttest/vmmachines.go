package agenttest

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/kernel"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/vm"
)

// VMMachines are virtual machines with a kernel each, which ssh reaches: nothing is shared
// but the files that they read. /var/lib/venturi is a disk, and all else is new at each start.
type VMMachines struct {
	Guests []*vm.Guest
	SSH    []string // the ssh command that knows how to reach them, by their names

	folder  string // of keys, and of what the machines read
	program []string
	kernels []kernel.Kernel
	memory  int // MiB
	wire    *netcfg.Namespace
}

// vmProgram is where a machine has this program, as [VMMachines.Do] can start it: in its memory,
// because an emulated CPU reads it for seconds from the host, at each start.
const vmProgram = "/run/venturi-test/venturi"

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
	m := &VMMachines{Guests: make([]*vm.Guest, len(kernels)), folder: t.TempDir(), program: testenv.Program(t), memory: memory, wire: wire}
	for _, key := range []string{"user", "host"} {
		text, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(m.folder, key)).CombinedOutput()
		if err != nil {
			t.Fatalf("make a key: %v: %s", err, text)
		}
	}
	// A script is summed up in no time, to tell whether it is the controller's own program.
	testenv.Must(t, os.Mkdir(filepath.Join(m.folder, "bin"), 0o755))
	testenv.Must(t, os.WriteFile(filepath.Join(m.folder, "bin", "venturi"), []byte("#!/bin/sh\nexec "+vmProgram+" \"$@\"\n"), 0o755))
	testenv.Must(t, os.WriteFile(filepath.Join(m.folder, "sshd"), fmt.Appendf(nil,
		"HostKey /run/host\nAuthorizedKeysFile /run/keys\nUsePAM no\nPermitRootLogin yes\nStrictModes no\nPidFile none\nUseDNS no\n"+
			"PasswordAuthentication no\nLoginGraceTime 0\nSetEnv VENTURI_TEST_ROLE=1 PATH=%s/bin:/usr/sbin:/usr/bin:/sbin:/bin\n", m.folder), 0o600))
	var config bytes.Buffer
	for i, name := range kernels {
		k, err := kernel.Find(name)
		if err != nil && !testenv.Required() {
			t.Skip(err)
		}
		testenv.Must(t, err)
		m.kernels = append(m.kernels, k)
		testenv.Must(t, wire.AddTap(netcfg.Tap{Name: m.tap(i), MTU: 1500}))
		testenv.Must(t, wire.Enslave(m.tap(i), "wire", false))
		testenv.Must(t, os.Mkdir(m.disk(i), 0o700))
		m.Start(t, i)
		fmt.Fprintf(&config, "Host %s\n  HostName 192.0.2.%d\n  User root\n  IdentityFile %s/user\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n", vmName(i), i+1, m.folder)
	}
	file := filepath.Join(m.folder, "config")
	testenv.Must(t, os.WriteFile(file, config.Bytes(), 0o600))
	at := strings.Replace(wire.Path(), "self", fmt.Sprint(os.Getpid()), 1)
	m.SSH = []string{"nsenter", "--net=" + at, "ssh", "-F", file}
	return m
}

func vmName(i int) string               { return "v" + string(rune('a'+i)) }
func (m *VMMachines) tap(i int) string  { return fmt.Sprintf("tap%d", i) }
func (m *VMMachines) disk(i int) string { return filepath.Join(m.folder, "disk-"+vmName(i)) }

// Start starts a machine whose guest was closed, as if it had lost its power, once more.
func (m *VMMachines) Start(t *testing.T, i int) {
	t.Helper()
	began := time.Now()
	g, err := vm.Start(t.Context(), vm.Config{
		Kernel: m.kernels[i], Program: m.program, Name: vmName(i), Accel: vm.TCG, CPUs: 1, Memory: m.memory, Root: true, In: m.wire, Writable: []string{m.disk(i)},
		NICs:       []vm.NIC{{Tap: m.tap(i), MAC: fmt.Sprintf("02:00:00:00:01:%02x", i+1), Addr: netip.MustParsePrefix(fmt.Sprintf("192.0.2.%d/24", i+1))}},
		StartLimit: 10 * time.Minute, SilenceLimit: 10 * time.Minute,
	})
	testenv.Must(t, err)
	m.Guests[i] = g
	t.Cleanup(func() { testenv.Must(t, g.Close()) })
	m.Do(t, i, fmt.Sprintf("mkdir -p /run/sshd %[3]s /var/lib/venturi; mount --bind %[2]s /var/lib/venturi; cp %[4]s %[5]s; "+
		"cp %[1]s/host /run/host; cp %[1]s/user.pub /run/keys; chmod 600 /run/host; /usr/sbin/sshd -f %[1]s/sshd",
		m.folder, m.disk(i), filepath.Dir(vmProgram), m.program[0], vmProgram))
	t.Logf("%s with %s is up after %v", vmName(i), m.kernels[i].Release, time.Since(began).Round(time.Second))
}

// Do runs a script in a guest, not by ssh, and gives what it said.
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

// Leftovers is what of ours is on a machine: processes, namespaces, devices and files, but for the journal.
func (m *VMMachines) Leftovers(t *testing.T, i int) string {
	t.Helper()
	return m.Do(t, i, `ps -e -o args= | grep -e "[a]gent --" -e "[s]peaker --" || true
ls /run/netns 2>/dev/null | grep venturi || true
ls -d /run/venturi /run/venturi-copy* /dev/shm/venturi* /tmp/venturi-copy* 2>/dev/null || true
ip -br link | grep wire || true
ip -d link show eth0 | grep -o "promiscuity [1-9]" || true`)
}

// DriftRole is the role of a program that makes the clocks of its machine run faster, by [PlayDrift].
const DriftRole = "drift"

// Drift makes the clocks of a machine run faster, or slower, by so many millionths; a kernel allows 500.
func (m *VMMachines) Drift(t *testing.T, i, ppm int) {
	t.Helper()
	m.Do(t, i, fmt.Sprintf("VENTURI_TEST_ROLE=1 %s %s %d", vmProgram, DriftRole, ppm))
}

// PlayDrift is [DriftRole]: behind it is by how much.
func PlayDrift(args []string) int {
	ppm, err := strconv.ParseInt(args[len(args)-1], 10, 64)
	if err == nil {
		_, err = unix.Adjtimex(&unix.Timex{Modes: unix.ADJ_FREQUENCY, Freq: ppm << 16}) // in the kernel's unit
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
