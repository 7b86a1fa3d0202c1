package knob_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/knob/table"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/tune"
	"github.com/venturi-net/venturi/internal/verr"
)

// bench is a machine, real or a fixture, with a journal beside it.
type bench struct {
	t       *testing.T
	m       knob.Machine
	options journal.Options
}

// fixture is a machine of files.
func fixture(t *testing.T, files map[string]string) bench {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return benchOn(t, root)
}

// benchOn is this machine, or the fixture below a folder.
func benchOn(t *testing.T, root string) bench {
	t.Helper()
	b := bench{t: t}
	b.m.Root, b.m.Settings = root, setting.NewSettings(tune.Backends(root)...)
	b.options = journal.Options{Folder: t.TempDir(), Settings: b.m.Settings, User: "a test"}
	return b
}

func entry(t *testing.T, name string) knob.Entry {
	t.Helper()
	e, err := table.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (b bench) get(name string, on knob.Target) string {
	b.t.Helper()
	r, err := entry(b.t, name).Get(b.m, on)
	if err != nil {
		b.t.Fatalf("get %s: %v", name, err)
	}
	return r.Value
}

// set turns a knob through the journal.
func (b bench) set(name string, on knob.Target, value string) error {
	b.t.Helper()
	j, err := journal.Open(b.options)
	if err != nil {
		b.t.Fatal(err)
	}
	defer j.Close()
	tx, err := j.Begin(0)
	if err != nil {
		b.t.Fatal(err)
	}
	_, err = tune.Set(tx, b.m, tune.Assignment{Knob: entry(b.t, name), Target: on, Value: value})
	return err
}

// undo undoes all, as another process does.
func (b bench) undo() {
	b.t.Helper()
	j, err := journal.Open(b.options)
	if err != nil {
		b.t.Fatal(err)
	}
	defer j.Close()
	outcomes, err := j.Undo(nil, journal.UndoOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, o := range outcomes {
		if o.Err != nil {
			b.t.Errorf("undo %s: %v", o.Entry.Setting, o.Err)
		}
	}
}

// settings reads the settings that a knob's plan for a value names.
func (b bench) settings(name string, on knob.Target, value string) (held []string) {
	b.t.Helper()
	writes, err := entry(b.t, name).Plan(b.m, on, value)
	if err != nil {
		b.t.Fatalf("plan %s=%s: %v", name, value, err)
	}
	for _, w := range writes {
		v, err := b.m.Settings.Read(w.Setting)
		if err != nil {
			b.t.Fatal(err)
		}
		held = append(held, w.Setting.Key+": "+v.String())
	}
	return held
}

// turns sets a value, sees what is shown, undoes it, and sees that every byte
// is what it was.
func (b bench) turns(name string, on knob.Target, value, shows string) {
	b.t.Helper()
	before, was := b.settings(name, on, value), b.get(name, on)
	if err := b.set(name, on, value); err != nil {
		b.t.Errorf("set %s to %s: %v", name, value, err)
		return
	}
	if got := b.get(name, on); got != shows {
		b.t.Errorf("%s was set to %s, and shows %s, want %s", name, value, got, shows)
	}
	if was != shows && slices.Equal(b.settings(name, on, value), before) {
		b.t.Errorf("%s was set to %s, and nothing was written", name, value)
	}
	b.undo()
	if after := b.settings(name, on, value); !slices.Equal(after, before) {
		b.t.Errorf("%s undone: %q, want %q", name, after, before)
	}
}

// refused is the code with which values are refused; nothing is written.
func (b bench) refused(name string, on knob.Target, code int, values ...string) {
	b.t.Helper()
	for _, v := range values {
		if _, err := entry(b.t, name).Plan(b.m, on, v); verr.Code(err) != code || err == nil {
			b.t.Errorf("%s=%s: error %v, want one of code %d", name, v, err, code)
		}
	}
}

// machineFiles are what the machine's own knobs of this section read.
var machineFiles = map[string]string{
	"/proc/sys/net/core/busy_read":                  "0\n",
	"/proc/sys/net/core/busy_poll":                  "0\n",
	"/proc/sys/net/core/netdev_budget":              "300\n",
	"/proc/sys/net/core/netdev_budget_usecs":        "2000\n",
	"/proc/sys/net/core/dev_weight":                 "64\n",
	"/proc/sys/net/core/netdev_max_backlog":         "1000\n",
	"/proc/sys/net/core/flow_limit_cpu_bitmap":      "0\n",
	"/proc/sys/net/core/rmem_max":                   "212992\n",
	"/proc/sys/net/core/wmem_max":                   "212992\n",
	"/proc/sys/net/core/rmem_default":               "212992\n",
	"/proc/sys/net/core/wmem_default":               "212992\n",
	"/proc/sys/net/core/bpf_jit_enable":             "1\n",
	"/proc/sys/net/core/bpf_jit_harden":             "1\n",
	"/proc/sys/net/ipv4/udp_mem":                    "90\t120\t180\n",
	"/proc/sys/net/netfilter/nf_conntrack_max":      "65536\n",
	"/proc/sys/net/netfilter/nf_conntrack_buckets":  "65536\n",
	"/proc/sys/kernel/numa_balancing":               "1\n",
	"/proc/sys/kernel/timer_migration":              "1\n",
	"/proc/sys/vm/stat_interval":                    "1\n",
	"/sys/devices/system/cpu/online":                "0-3\n",
	"/proc/sys/kernel/venturi_is_not_interested_in": "1\n",
}

func TestKernelKnobsOfMachine(t *testing.T) {
	b := fixture(t, machineFiles)
	for _, c := range []struct{ knob, value, shows string }{
		{"net.busy_poll", "50", "read=50,poll=50"},
		{"net.busy_poll", "poll=70", "read=0,poll=70"},
		{"net.budget", "600", "packets=600,usecs=2000,weight=64"},
		{"net.budget", "usecs=20000, packets=1200", "packets=1200,usecs=20000,weight=64"},
		{"net.backlog", "4000", "4000"},
		{"net.flow_limit", "0,2-3", "0,2-3"},
		{"net.flow_limit", "40,1", "1,40"},
		{"sock.mem", "rmem_max=16777216,wmem_max=16777216", "rmem_max=16777216,wmem_max=16777216,rmem_default=212992,wmem_default=212992"},
		{"udp.mem", "400", "400"},
		{"bpf.jit", "harden=0", "enable=1,harden=0"},
		{"ct.size", "262144", "max=262144,buckets=65536"},
		{"ct.size", "buckets=100000", "max=65536,buckets=100352"},
		{"kernel.jitter", "numa_balancing=0,stat_interval=10", "numa_balancing=0,timer_migration=1,stat_interval=10"},
	} {
		b.turns(c.knob, knob.Target{}, c.value, c.shows)
	}
	b.refused("net.budget", knob.Target{}, verr.Usage, "usecs=20001", "packets=", "packet=5", "packets=1,packets=2", "many", "0", "packets=1,")
	b.refused("net.flow_limit", knob.Target{}, verr.Usage, "3-1", "a", "0-9000", "", "-1")
	b.refused("udp.mem", knob.Target{}, verr.Usage, "119")
	b.refused("kernel.jitter", knob.Target{}, verr.Missing, "nmi_watchdog=0") // this machine has none
	if _, err := entry(t, "net.busy_poll").Get(fixture(t, nil).m, knob.Target{}); verr.Code(err) != verr.Missing {
		t.Errorf("a kernel without it: %v", err)
	}
}

// What is worth a trial can be set, and is not what there is.
func TestKernelRanges(t *testing.T) {
	b := fixture(t, machineFiles)
	for name, want := range map[string]string{
		"net.busy_poll":  "read=50,poll=50 read=70,poll=70",
		"net.budget":     "packets=600,usecs=4000 packets=600,usecs=8000 packets=1200,usecs=16000",
		"net.backlog":    "2000 4000 8000",
		"net.flow_limit": "0-3",
		"sock.mem":       "rmem_max=16777216,wmem_max=16777216 rmem_default=1048576,wmem_default=1048576",
		"udp.mem":        "360",
		"ct.size":        "max=262144 max=1048576",
		"kernel.jitter":  "numa_balancing=0,timer_migration=0,stat_interval=10",
	} {
		got, err := entry(t, name).Knob.(knob.Ranger).Range(b.m, knob.Target{})
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: worth a trial are %q, %v; want %q", name, got, err, want)
		}
	}
}

// netns is a namespace that goes away with the test.
func netns(t *testing.T) knob.Target {
	t.Helper()
	w, err := netcfg.Owned(testenv.Claim(t))
	if err != nil {
		t.Fatal(err)
	}
	n, err := w.Create(w.Name("pod"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return knob.Target{Netns: n.Path()}
}

func TestKernelKnobsOfNetns(t *testing.T) {
	testenv.Root(t)
	b, pod := benchOn(t, ""), netns(t)
	choices, err := entry(t, "tcp.cc").Knob.(knob.Ranger).Range(b.m, pod)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range choices {
		b.turns("tcp.cc", pod, c, c)
	}
	memory := b.get("tcp.mem", pod)
	for _, c := range []struct{ knob, value, shows string }{
		{"tcp.mem", "67108864", "rmem=67108864,wmem=67108864"},
		{"tcp.mem", memory, memory},
		{"tcp.notsent", "131072", "131072"},
		{"tcp.ssai", "off", "off"},
		{"tcp.fastopen", "3", "3"},
		{"net.listen", "16384", "accept=16384,syn=16384"},
		{"net.listen", "syn=512", "accept=4096,syn=512"},
	} {
		b.turns(c.knob, pod, c.value, c.shows)
	}
	b.refused("tcp.cc", pod, verr.Missing, "nosuchone")
	b.refused("tcp.mem", pod, verr.Usage, "4096", "rmem=100") // 4096: below what every socket begins with
	b.refused("tcp.ssai", pod, verr.Usage, "maybe")
	if _, err := entry(t, "net.bridge_nf").Get(b.m, pod); err == nil {
		b.turns("net.bridge_nf", pod, "ip6tables=off", "iptables=on,ip6tables=off,arptables=on")
		b.turns("net.bridge_nf", pod, "off", "iptables=off,ip6tables=off,arptables=off")
	} else if verr.Code(err) != verr.Missing {
		t.Error(err)
	}
	if _, err := entry(t, "tcp.ssai").Get(b.m, knob.Target{Netns: "/nosuch"}); verr.Code(err) != verr.Usage {
		t.Errorf("a namespace that there is not: %v", err)
	}
}
