package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/kernel"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/vm"
)

// booted is a machine between two starts of it. Its disk is a folder of this one.
type booted struct {
	*vm.Guest
	disk, venturi string
}

// startLimit is how long it may take to start, or be silent: it is emulated, and
// others may want the processors too.
const startLimit = 10 * time.Minute

func start(t *testing.T, disk string) booted {
	t.Helper()
	k, err := kernel.Find(kernel.Default)
	if err != nil && !testenv.Required() {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return startUnder(t, k, disk)
}

// startUnder starts it under a kernel.
func startUnder(t *testing.T, k kernel.Kernel, disk string) booted {
	t.Helper()
	venturi, err := exec.LookPath("venturi")
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	g, err := vm.Start(t.Context(), vm.Config{
		Kernel: k, Program: testenv.Program(t), Root: true, Writable: []string{disk},
		CPUs: 2, Memory: 1 << 10, StartLimit: startLimit, SilenceLimit: startLimit,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	t.Logf("%s started in %v", k.Release, time.Since(began).Round(time.Second/10))
	return booted{g, disk, venturi}
}

// command is one of a shell in the machine's folder, where venturi is found.
func (b booted) command(line string, to io.Writer) vm.Command {
	return vm.Command{
		Args: []string{"sh", "-c", line}, Dir: b.disk, Stdout: to, Stderr: to,
		Env: []string{"PATH=" + filepath.Dir(b.venturi) + ":/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "VENTURI_JOURNAL=" + filepath.Join(b.disk, "journal")},
	}
}

// sh runs a command that must end with an exit code, and say all that is wanted:
// regular expressions, of which one after a ! must not be found.
func (b booted) sh(t *testing.T, code int, line string, want ...string) {
	t.Helper()
	var said bytes.Buffer
	got, err := b.Run(t.Context(), b.command(line, &said))
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	if got != code {
		t.Errorf("%s: exit code %d, want %d", line, got, code)
	}
	for _, w := range want {
		pattern, unwanted := strings.CutPrefix(w, "!")
		if regexp.MustCompile("(?m)"+pattern).Match(said.Bytes()) == unwanted {
			t.Errorf("%s: want %q", line, w)
		}
	}
	if t.Failed() {
		t.Fatalf("%s says:\n%s", line, &said)
	}
}

// files are those of a folder, with their modes and owners.
func files(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name := filepath.Join(folder, e.Name())
		text, err := os.ReadFile(name)
		info, err2 := os.Stat(name)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		is := info.Sys().(*syscall.Stat_t)
		all[e.Name()] = fmt.Sprintf("%v of %d:%d: %s", info.Mode(), is.Uid, is.Gid, text)
	}
	return all
}

// clusterFile is what a machine has on its disk of each of several clusters.
const clusterFile = `apiVersion: v1
kind: ConfigMap
metadata:
  name: cilium-config
  namespace: kube-system
data:
  # written by hand, of %s
  tunnel: disabled
  enable-bpf-masquerade: "true"
  kube-proxy-replacement: "strict"
  enable-host-legacy-routing: "true" # faster
`

// A machine loses its power while trials run. Rebooted, it has the values of
// its start and the files as they were then: the trials are over, what lasts of
// them is undone, and nothing else is touched.
func TestPowerLost(t *testing.T) {
	testenv.Root(t)
	testenv.NeedsLong(t)
	disk := t.TempDir()
	clusters := filepath.Join(disk, "clusters")
	if err := os.Mkdir(clusters, 0o755); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"a", "b", "c", "d"} {
		file := filepath.Join(clusters, name)
		err := os.WriteFile(file, fmt.Appendf(nil, clusterFile, name), 0o600)
		if err := errors.Join(err, os.Chmod(file, 0o640), os.Chown(file, 1000+i, 2000)); err != nil {
			t.Fatal(err)
		}
	}
	before := files(t, clusters)

	b := start(t, disk)
	b.sh(t, 0, "venturi tune --profile cilium --host --manifest clusters/a --apply --trial 1h", `^cil\.hostroute +off -> on`, `keep it with: venturi confirm 1;`)
	b.sh(t, 0, "venturi knob set net.listen 8192 cil.hubble off --manifest clusters/b --trial 1h", `keep it with: venturi confirm 2;`)
	b.sh(t, 0, "venturi knob set tcp.cc reno cil.hubble off --manifest clusters/c --trial 1h && venturi confirm 3", `transaction 3 stays`)
	b.sh(t, 0, "venturi journal", `^1 .* on trial, \d+m`, `^2 .* on trial, \d+m`, `^3 .* open `, `!OVERDUE`, `!nothing undoes it`)
	if now := files(t, clusters); now["a"] == before["a"] || now["b"] == before["b"] || now["c"] == before["c"] {
		t.Fatal("the files are what they were")
	}
	b.losesPower(t, "for n in $(seq 4 99); do venturi knob set cil.hubble off --manifest clusters/d && venturi undo $n || exit; done")

	b = start(t, disk)
	const rebooted = `the machine was rebooted before it was confirmed`
	b.sh(t, 0, "venturi journal", `^1 .* OVERDUE`, `^2 .* OVERDUE`, `^3 .* open `, `transaction 1 is still a trial, and nothing undoes it`, rebooted, `undo it: venturi undo 1`)
	b.sh(t, 0, "echo 5555 >/proc/sys/net/core/somaxconn; cat /proc/sys/net/ipv4/tcp_congestion_control", `!reno`) // somebody else's
	b.sh(t, 0, "venturi undo 1", `^restored +file .*/clusters/a: `, rebooted, `transaction 2 is still a trial`)
	b.sh(t, 0, "venturi knob set net.backlog 3000", `^net\.backlog +1000 -> 3000`, `the lease of transaction 2 ended with a reboot; it is undone now`,
		`^restored +file .*/clusters/b: `, `^gone +sysctl net/core/somaxconn: the machine was rebooted since`, `^gone +sysctl net/ipv4/tcp_max_syn_backlog: `,
		`!conflict`, "!"+rebooted)
	now := files(t, clusters)
	if now["a"] != before["a"] || now["b"] != before["b"] || now["c"] == before["c"] {
		t.Errorf("the trials are undone, and what was confirmed is kept: %v\nat first: %v", now, before)
	}
	b.sh(t, 0, "venturi undo --all", `^restored +file .*/clusters/c: `, `^gone +sysctl net/ipv4/tcp_congestion_control: `, `^restored +kernel /proc/sys/net/core/netdev_max_backlog: 1000`)
	b.sh(t, 0, "cat /proc/sys/net/core/somaxconn; venturi journal --open", `^5555$`, `^nothing is open`, "!nothing undoes it")
	if now := files(t, clusters); !maps.Equal(now, before) {
		t.Errorf("undone, the files are\n%v\nand were\n%v", now, before)
	}
}

// losesPower begins a command, and lets the machine lose its power in the middle of
// it: once some values were restored.
func (b booted) losesPower(t *testing.T, line string) {
	t.Helper()
	hear, say := io.Pipe()
	go func() {
		_, err := b.Run(t.Context(), b.command(line, say))
		say.CloseWithError(err)
	}()
	said := bufio.NewScanner(hear)
	for restored := 0; restored < 2; {
		if !said.Scan() {
			t.Fatalf("%s ended: %v", line, said.Err())
		}
		if strings.HasPrefix(said.Text(), "restored ") {
			restored++
		}
	}
	go io.Copy(io.Discard, hear)
	pause := time.Duration(rand.N(time.Second)) // what must hold, holds at any time
	time.Sleep(pause)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("it lost its power %v into it", pause)
}
