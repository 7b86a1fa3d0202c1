package tune

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/safchain/ethtool"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
)

// snapshot writes down all of a testbed: what ip, tc and ioctls of ethtool say,
// every file of sysfs' queues and of /proc/sys/net, and every file of a fixture.
// It shares no code with the backends, so that it sees what they overlook.
func (w *testbed) snapshot(t testing.TB) string {
	t.Helper()
	var b strings.Builder
	for _, netns := range w.Netns {
		fmt.Fprintf(&b, "# %s\n", filepath.Base(netns))
		for _, family := range []string{"-4", "-6"} {
			fmt.Fprint(&b, run(t, "ip", netns, "link show\naddr show\nroute show table all\nrule show\nneigh show nud permanent\n", family))
		}
		fmt.Fprint(&b, run(t, "tc", netns, tcCommands(w.devices(netns))))
		testenv.InNetns(t, netns, func() error {
			fmt.Fprintf(&b, "%s\n", testenv.Ruleset(t))
			return host.Sysfs(func(root string) error { return snapshotNetns(&b, root) })
		})
	}
	if err := snapshotFiles(&b, w.Root); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// timers run by themselves, and packets are counted.
var timers = regexp.MustCompile(`\w*timer +[0-9.]+|direct_packets_stat \d+`)

// run gives a program of iproute2 commands to carry out in a namespace.
func run(t testing.TB, program, netns, commands string, flags ...string) string {
	t.Helper()
	cmd := exec.Command(program, append(flags, "-n", filepath.Base(netns), "-d", "-batch", "-")...)
	cmd.Stdin = strings.NewReader(commands)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s\n%s", program, err, out, commands)
	}
	return timers.ReplaceAllString(string(out), "")
}

func tcCommands(devices []string) string {
	commands := "qdisc show\n"
	for _, d := range devices {
		commands += "class show dev " + d + "\nfilter show dev " + d + "\n"
	}
	return commands
}

// settings are files of a device's folder in sysfs; what else is there are
// facts and statistics.
var settings = []string{"mtu", "tx_queue_len", "threaded", "napi_defer_hard_irqs", "gro_flush_timeout", "flags", "queues/*/*", "queues/*/byte_queue_limits/limit_m*"}

func snapshotNetns(b *strings.Builder, sysfs string) error {
	devices, err := filepath.Glob(filepath.Join(sysfs, "class/net/*"))
	if err != nil {
		return err
	}
	tool, err := ethtool.NewEthtool()
	if err != nil {
		return err
	}
	defer tool.Close()
	for _, folder := range devices {
		device := filepath.Base(folder)
		for _, pattern := range settings {
			files, err := filepath.Glob(filepath.Join(folder, pattern))
			if err != nil {
				return err
			}
			for _, file := range files {
				if text, err := os.ReadFile(file); err == nil {
					fmt.Fprintf(b, "%s %s %q\n", device, strings.TrimPrefix(file, folder), text)
				}
			}
		}
		features, err := host.AskEthtool(tool.FeaturesWithState, device)
		if err != nil {
			return fmt.Errorf("features of %s: %w", device, err)
		}
		for _, name := range slices.Sorted(maps.Keys(features)) {
			fmt.Fprintf(b, "%s %s %+v\n", device, name, features[name])
		}
		show := func(what string, value any, err error) { fmt.Fprintf(b, "%s %s %+v %v\n", device, what, value, err) }
		rings, err := host.AskEthtool(tool.GetRing, device)
		show("rings", rings, err)
		channels, err := host.AskEthtool(tool.GetChannels, device)
		show("channels", channels, err)
		coalesce, err := host.AskEthtool(tool.GetCoalesce, device)
		show("coalesce", coalesce, err)
		pause, err := host.AskEthtool(tool.GetPause, device)
		show("pause", pause, err)
		table, err := host.AskEthtool(tool.GetIndir, device)
		show("rss", table, err)
		flags, err := host.AskEthtool(tool.PrivFlags, device)
		show("private flags", flags, err)
	}
	return snapshotSysctls(b)
}

// restless are files below /proc/sys/net that change by themselves.
var restless = regexp.MustCompile(`nf_conntrack_count|fastopen_key|/(base_)?reachable_time|retrans_time`)

// snapshotSysctls reads some thousand files with no more calls than it takes: it is most of the
// time of these tests.
func snapshotSysctls(b *strings.Builder) error {
	text := make([]byte, 64<<10) // a sysctl comes in one piece
	return filepath.WalkDir("/proc/sys/net", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || restless.MatchString(file) {
			return err
		}
		fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil { // it can only be written
			return nil
		}
		defer unix.Close(fd)
		n, err := unix.Read(fd, text)
		fmt.Fprintf(b, "%s %q %v\n", file, text[:max(n, 0)], err)
		return nil
	})
}

func snapshotFiles(b *strings.Builder, root string) error {
	return filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || restless.MatchString(file) {
			return err
		}
		info, err := d.Info()
		if err != nil || info.Mode().Perm()&0o444 == 0 {
			return err
		}
		text, err := os.ReadFile(file)
		fmt.Fprintf(b, "%s %v %q %v\n", file, info.Mode(), text, err)
		return nil
	})
}

// differences are the lines that only one of two snapshots has.
func differences(before, after string) string {
	if before == after {
		return ""
	}
	count := map[string]int{}
	for line := range strings.Lines(before) {
		count[line]--
	}
	for line := range strings.Lines(after) {
		count[line]++
	}
	var out []string
	for line, n := range count {
		if n != 0 {
			out = append(out, fmt.Sprintf("%+d %s", n, line))
		}
	}
	slices.SortFunc(out, func(a, b string) int { return strings.Compare(a[3:], b[3:]) })
	if len(out) == 0 {
		return "the same lines in another order"
	}
	return strings.Join(out, "")
}
