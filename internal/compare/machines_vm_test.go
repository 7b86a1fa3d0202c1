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

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/kernel"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/remote"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/internal/vm"
	"github.com/venturi-net/venturi/result"
)

// vmMachines are virtual machines with a kernel each, which ssh reaches: nothing is shared
// but the files that they read.
type vmMachines struct {
	wire   *netcfg.Namespace // with the bridge that their cards are on
	guests []*vm.Guest
	ssh    []string
}

// newVMMachines starts one machine for each kernel. They are called va, vb, ... and have the
// addresses 192.0.2.1, 192.0.2.2, ... on eth0.
func newVMMachines(t *testing.T, kernels ...string) *vmMachines {
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
	m := &vmMachines{wire: wire, guests: make([]*vm.Guest, len(kernels))}
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
			Kernel: k, Program: program, Name: host, Accel: vm.TCG, CPUs: 1, Memory: 1 << 10, Root: true, In: wire,
			NICs:       []vm.NIC{{Tap: tap, MAC: fmt.Sprintf("02:00:00:00:01:%02x", i+1), Addr: netip.MustParsePrefix(fmt.Sprintf("192.0.2.%d/24", i+1))}},
			StartLimit: 10 * time.Minute, SilenceLimit: 10 * time.Minute,
		})
		testenv.Must(t, err)
		m.guests[i] = g
		t.Cleanup(func() { testenv.Must(t, g.Close()) })
		m.do(t, i, fmt.Sprintf("mkdir -p /run/sshd; cp %[1]s/host /run/host; cp %[1]s/user.pub /run/keys; chmod 600 /run/host; /usr/sbin/sshd -f %[1]s/sshd", dir))
		t.Logf("%s with %s is up after %v", host, k.Release, time.Since(began).Round(time.Second))
		fmt.Fprintf(&config, "Host %s\n  HostName 192.0.2.%d\n  User root\n  IdentityFile %s/user\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n", host, i+1, dir)
	}
	file := filepath.Join(dir, "config")
	testenv.Must(t, os.WriteFile(file, config.Bytes(), 0o600))
	at := strings.Replace(wire.Path(), "self", fmt.Sprint(os.Getpid()), 1)
	m.ssh = []string{"nsenter", "--net=" + at, "ssh", "-F", file}
	return m
}

// do runs a script in a guest, not by ssh.
func (m *vmMachines) do(t *testing.T, i int, script string) string {
	t.Helper()
	var out bytes.Buffer
	code, err := m.guests[i].Run(t.Context(), vm.Command{Args: []string{"sh", "-ec", script}, Stdout: &out, Stderr: &out,
		Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}})
	if err != nil || code != 0 {
		t.Fatalf("%s: exit code %d, %v: %s", script, code, err, &out)
	}
	return out.String()
}

// request measures little between the first two machines.
func (m *vmMachines) request(t *testing.T) Request {
	t.Helper()
	return Request{
		Paths: []string{"host"}, Loads: []string{"tcp_lat"}, Series: 3, Rounds: 3, Slice: 100 * time.Millisecond, Out: t.TempDir(),
		Remote: Remote{
			Machines: []remote.Machine{{Name: "a", Host: "va"}, {Name: "b", Host: "vb"}},
			Options:  remote.Options{Program: testenv.Program(t)[0], SSH: m.ssh, NoCopy: true, Limit: 10 * time.Minute},
		},
	}
}

// Two machines with kernels, clocks and process tables of their own.
func TestMachinesWithTheirOwnKernels(t *testing.T) {
	testenv.NeedsLong(t)
	m := newVMMachines(t, "6.1", "6.12")
	m.do(t, 1, "date -s '+1 day'")
	m.do(t, 1, fmt.Sprintf("VENTURI_TEST_ROLE=1 %s drift", testenv.Program(t)[0]))
	rec, _, err := Do(t.Context(), resolve(t, m.request(t)), Host{Watch: deaf{}})
	if err != nil {
		t.Fatal(err)
	}
	a, b := rec.Facts[0], rec.Facts[1]
	if !strings.HasPrefix(a.Kernel, "6.1.") || !strings.HasPrefix(b.Kernel, "6.12.") || a.BootID == b.BootID || !a.Emulated {
		t.Errorf("the machines are %+v and %+v", a, b)
	}
	if day := 24 * time.Hour; time.Duration(b.ClockAhead-a.ClockAhead) < day-time.Hour || time.Duration(b.ClockAhead-a.ClockAhead) > day+time.Hour {
		t.Errorf("the clocks are %v and %v ahead", time.Duration(a.ClockAhead), time.Duration(b.ClockAhead))
	}
	checkSlices(t, rec)
}

// playDrift makes the clocks of this machine run 500 ppm too fast, which is all that the kernel
// allows.
func playDrift([]string) int {
	const ppm = 1 << 16 // in the kernel's unit
	if _, err := unix.Adjtimex(&unix.Timex{Modes: unix.ADJ_FREQUENCY, Freq: 500 * ppm}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// checkSlices sees that figures are those of real traffic: a clock that differs shows in none.
func checkSlices(t *testing.T, rec *result.Record) {
	t.Helper()
	replies := 0
	for _, s := range rec.Slices {
		if s.Latency == nil || s.Latency.Replies == 0 {
			continue
		}
		replies++
		if rtt := time.Duration(s.Latency.RTTMedian); rtt <= 0 || rtt > 10*time.Second {
			t.Errorf("a round trip of %s took %v", s.Arm, rtt)
		}
		if at := time.Duration(s.Start); at < -time.Minute || at > time.Hour {
			t.Errorf("a slice is said to have begun %v after the run", at)
		}
	}
	if all := len(rec.Plan.Arms) * 3 * 3; replies < all/2 {
		t.Errorf("%d of %d slices carried something", replies, all)
	}
}

// A machine that is started anew in mid-run is given up, and what was measured is reported.
func TestMachineIsReset(t *testing.T) {
	testenv.NeedsLong(t)
	m := newVMMachines(t, "6.12", "6.1")
	q := m.request(t)
	q.Series = 200
	rec, _, err := Do(t.Context(), resolve(t, q), Host{Watch: &firstSeries{callback: func() { _ = m.guests[1].Close() }}})
	if verr.Code(err) != verr.Partial || rec == nil || len(rec.Slices) == 0 {
		t.Errorf("error %v, record %v", err, rec != nil)
	}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Second) {
		left := m.do(t, 0, "ps -ef | grep '[a]gent --stdio' || true")
		if left == "" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the other machine still runs %s", left)
		}
	}
}
