package tune

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/knob/table"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/testenv"
)

// testbed is what sequences change: two namespaces with devices, and a fixture of
// what belongs to a whole host. It is handed to child processes as JSON.
type testbed struct {
	Root    string // of the fixture
	Journal string // its folder
	Netns   []string
	Files   []string // manifests
	Menu    []knobCase

	folder string
}

// knobCase is a knob on a target, with values worth a trial.
type knobCase struct {
	Knob   string
	Target knob.Target
	Values []string
}

// newTestbed makes namespaces with devices of several kinds, some of them set up
// unlike the kernel does.
func newTestbed(t testing.TB) *testbed {
	t.Helper()
	folder, err := os.MkdirTemp("/dev/shm", "venturi-test-") // processes are killed, no machine: nothing needs to come to a disk
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	w := &testbed{folder: folder, Root: filepath.Join(folder, "root"), Journal: filepath.Join(folder, "journal")}
	owner, err := netcfg.Owned(testenv.Claim(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		n, err := owner.Create(owner.Name(name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(n.Close)
		w.Netns = append(w.Netns, n.Path())
	}
	testenv.InNetns(t, w.Netns[0], func() error {
		return setSysctls("net/ipv6/conf/default/accept_dad=0", "net/ipv4/tcp_notsent_lowat=65535")
	})
	testenv.InNetns(t, w.Netns[1], func() error { return setSysctls("net/ipv6/conf/default/accept_dad=0") })
	other := filepath.Base(w.Netns[1])
	run(t, "ip", w.Netns[0], `link add veth0 numtxqueues 4 numrxqueues 4 txqueuelen 1234 type veth peer name veth0 netns `+other+` numtxqueues 4 numrxqueues 4
link add port0 numtxqueues 2 numrxqueues 2 type veth peer name port1
link add br0 type bridge
link add mac0 link veth0 type macvlan
link add vxlan0 mtu 1400 type vxlan id 7 dstport 4789 dev veth0 remote 10.99.0.2
link set port0 master br0
link set veth0 up
link set port0 up
link set port1 up mtu 1490
link set br0 up
link set mac0 up
link set vxlan0 up gso_max_size 60000
addr add 10.99.0.1/24 dev veth0
route add 10.98.0.0/16 via 10.99.0.2 mtu lock 1300
rule add from 10.97.0.0/16 lookup 77
`)
	run(t, "ip", w.Netns[1], "link set lo up\nlink set veth0 up\naddr add 10.99.0.2/24 dev veth0\n")
	run(t, "tc", w.Netns[0], "qdisc add dev port1 root handle 7: pfifo limit 321\nqdisc add dev vxlan0 root handle 8: htb default 1\n")
	w.fixture(t)
	return w
}

// devices are those of one of the namespaces.
func (w *testbed) devices(netns string) []string {
	if netns == w.Netns[0] {
		return []string{"lo", "veth0", "port0", "port1", "br0", "mac0", "vxlan0"}
	}
	return []string{"lo", "veth0"}
}

func setSysctls(settings ...string) error {
	for _, s := range settings {
		file, value, _ := strings.Cut(s, "=")
		if err := os.WriteFile(filepath.Join("/proc/sys", file), []byte(value), 0); err != nil {
			return err
		}
	}
	return nil
}

// fixture makes the files of a machine with two cores and a card, and manifests.
func (w *testbed) fixture(t testing.TB) {
	t.Helper()
	put := func(name, text string) {
		name = filepath.Join(w.Root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range machineFiles {
		put(name, text)
	}
	manifests, err := filepath.Glob("../knob/k8s/testdata/manifests/*")
	if err != nil || len(manifests) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	for _, m := range manifests {
		text, err := os.ReadFile(m)
		if err != nil {
			t.Fatal(err)
		}
		name := "/manifests/" + filepath.Base(m)
		put(name, string(text))
		w.Files = append(w.Files, name)
	}
}

// machine is the testbed as knobs see it, by backends that may be wrapped.
func (w *testbed) machine(wrap func(setting.Backend) setting.Backend) knob.Machine {
	backends := Backends(w.Root)
	for i := range backends {
		if backends[i].Name == "sysctl" {
			backends[i] = w.sysctls(backends[i])
		}
		backends[i] = wrap(backends[i])
	}
	return knob.Machine{Reader: host.Reader{Root: w.Root}, Settings: setting.NewSettings(backends...)}
}

// sysctls takes those of the whole host from the fixture: a namespace of
// its own does not have them.
func (w *testbed) sysctls(real setting.Backend) setting.Backend {
	fixture := map[string]setting.Backend{}
	for _, b := range setting.Backends(w.Root) {
		fixture[b.Name] = b
	}
	file := func(s setting.Setting) (setting.Setting, bool) {
		name := "/proc/sys/" + s.Key
		_, of := machineFiles[name]
		return setting.Setting{Backend: "kernel", Key: name}, of
	}
	read, write := real.Read, real.Write
	real.Read = func(s setting.Setting) (setting.Value, error) {
		if k, of := file(s); of {
			return fixture["kernel"].Read(k)
		}
		return read(s)
	}
	real.Write = func(s setting.Setting, v setting.Value) error {
		if k, of := file(s); of {
			return fixture["kernel"].Write(k, v)
		}
		return write(s, v)
	}
	return real
}

// targets lists what a knob can be turned on here.
func (w *testbed) targets(scope knob.ScopeKind) (all []knob.Target) {
	switch scope {
	case knob.ScopeMachine:
		return []knob.Target{{Netns: w.Netns[0]}}
	case knob.ScopeNetns:
		for _, n := range w.Netns {
			all = append(all, knob.Target{Netns: n})
		}
	case knob.ScopeDevice:
		for _, n := range w.Netns {
			for _, d := range w.devices(n) {
				all = append(all, knob.Target{Netns: n, Device: d})
			}
		}
	case knob.ScopeManifest:
		for _, f := range w.Files {
			all = append(all, knob.Target{File: f})
		}
	}
	return all
}

// prepare finds which knobs can be turned on what, and to which values.
func (w *testbed) prepare(t testing.TB) {
	t.Helper()
	m := w.machine(func(b setting.Backend) setting.Backend { return b })
	for _, e := range table.All() {
		if e.Knob == nil {
			continue
		}
		for _, target := range w.targets(e.Scope) {
			now, err := e.Get(m, target)
			if err != nil {
				continue // it has no such thing
			}
			var values []string
			if r, ok := e.Knob.(knob.Ranger); ok {
				if values, err = r.Range(m, target); err != nil {
					continue
				}
			}
			values = append(values, samples[e.Name]...)
			if len(values) > 0 {
				w.Menu = append(w.Menu, knobCase{e.Name, target, append(values, now.Value)})
			}
		}
	}
}

// save writes the testbed down for child processes.
func (w *testbed) save(t testing.TB) (file string) {
	t.Helper()
	text, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(w.folder, "place.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func loadTestbed(file string) (*testbed, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	w := &testbed{folder: filepath.Dir(file)}
	if err := json.Unmarshal(text, w); err != nil {
		return nil, fmt.Errorf("read the testbed: %w", err)
	}
	return w, nil
}

// machineFiles are those of a machine with two cores and a card with two queues.
var machineFiles = map[string]string{
	"/proc/cpuinfo":                                                                    "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Test\nflags\t\t: fpu\n\nprocessor\t: 1\nvendor_id\t: GenuineIntel\nmodel name\t: Test\nflags\t\t: fpu\n",
	"/proc/sys/kernel/random/boot_id":                                                  "11111111-2222-3333-4444-555555555555\n",
	"/proc/sys/net/core/netdev_max_backlog":                                            "1000\n",
	"/proc/sys/net/core/netdev_budget":                                                 "300\n",
	"/proc/sys/net/core/netdev_budget_usecs":                                           "8000\n",
	"/proc/sys/net/core/dev_weight":                                                    "64\n",
	"/proc/sys/net/core/busy_read":                                                     "0\n",
	"/proc/sys/net/core/busy_poll":                                                     "0\n",
	"/proc/sys/net/core/flow_limit_cpu_bitmap":                                         "00\n",
	"/proc/sys/net/core/flow_limit_table_len":                                          "4096\n",
	"/proc/sys/net/core/rps_sock_flow_entries":                                         "32768\n",
	"/proc/sys/net/core/rmem_max":                                                      "212992\n",
	"/proc/sys/net/core/wmem_max":                                                      "212992\n",
	"/proc/sys/net/core/rmem_default":                                                  "212992\n",
	"/proc/sys/net/core/wmem_default":                                                  "212992\n",
	"/proc/sys/net/core/bpf_jit_enable":                                                "1\n",
	"/proc/sys/net/core/bpf_jit_harden":                                                "0\n",
	"/proc/sys/net/ipv4/udp_mem":                                                       "190000\t250000\t380000\n",
	"/proc/sys/net/netfilter/nf_conntrack_max":                                         "262144\n",
	"/proc/sys/net/netfilter/nf_conntrack_buckets":                                     "65536\n",
	"/proc/sys/kernel/numa_balancing":                                                  "1\n",
	"/proc/sys/kernel/timer_migration":                                                 "1\n",
	"/proc/sys/kernel/nmi_watchdog":                                                    "1\n",
	"/sys/devices/system/cpu/cpu0/power/energy_perf_bias":                              "6\n",
	"/sys/devices/system/cpu/cpu1/power/energy_perf_bias":                              "8\n",
	"/proc/sys/vm/stat_interval":                                                       "1\n",
	"/proc/interrupts":                                                                 "            CPU0       CPU1\n  40:          1          2   PCI-MSIX-0000:00:03.0   0-edge      eth0-rx-0\n  41:          1          2   PCI-MSIX-0000:00:03.0   1-edge      eth0-rx-1\n",
	"/proc/irq/40/smp_affinity":                                                        "3\n",
	"/proc/irq/40/smp_affinity_list":                                                   "0-1\n",
	"/proc/irq/40/effective_affinity_list":                                             "0\n",
	"/proc/irq/41/smp_affinity":                                                        "3\n",
	"/proc/irq/41/smp_affinity_list":                                                   "0-1\n",
	"/proc/irq/41/effective_affinity_list":                                             "1\n",
	"/sys/class/net/eth0/device/msi_irqs/40":                                           "msix\n",
	"/sys/class/net/eth0/device/msi_irqs/41":                                           "msix\n",
	"/sys/class/net/eth0/device/local_cpulist":                                         "0-1\n",
	"/sys/class/net/eth0/device/numa_node":                                             "0\n",
	"/sys/devices/system/cpu/online":                                                   "0-1\n",
	"/sys/devices/system/cpu/possible":                                                 "0-1\n",
	"/sys/devices/system/cpu/present":                                                  "0-1\n",
	"/sys/devices/system/cpu/cpufreq/policy0/scaling_governor":                         "powersave\n",
	"/sys/devices/system/cpu/cpufreq/policy0/scaling_available_governors":              "performance powersave\n",
	"/sys/devices/system/cpu/cpufreq/policy0/scaling_driver":                           "intel_pstate\n",
	"/sys/devices/system/cpu/cpufreq/policy0/affected_cpus":                            "0\n",
	"/sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference":            "balance_performance\n",
	"/sys/devices/system/cpu/cpufreq/policy0/energy_performance_available_preferences": "default performance balance_performance balance_power power\n",
	"/sys/devices/system/cpu/cpufreq/policy1/scaling_governor":                         "schedutil\n",
	"/sys/devices/system/cpu/cpufreq/policy1/scaling_available_governors":              "performance powersave schedutil\n",
	"/sys/devices/system/cpu/cpufreq/policy1/scaling_driver":                           "intel_pstate\n",
	"/sys/devices/system/cpu/cpufreq/policy1/affected_cpus":                            "1\n",
	"/sys/devices/system/cpu/cpufreq/policy1/energy_performance_preference":            "power\n",
	"/sys/devices/system/cpu/cpufreq/policy1/energy_performance_available_preferences": "default performance balance_performance balance_power power\n",
	"/sys/devices/system/cpu/cpufreq/boost":                                            "1\n",
	"/sys/devices/system/cpu/intel_pstate/min_perf_pct":                                "20\n",
	"/sys/devices/system/cpu/intel_pstate/no_turbo":                                    "0\n",
	"/sys/devices/system/cpu/intel_pstate/status":                                      "active\n",
	"/sys/devices/system/cpu/smt/active":                                               "0\n",
	"/sys/devices/system/cpu/smt/control":                                              "notsupported\n",
	"/sys/devices/system/cpu/cpuidle/current_driver":                                   "intel_idle\n",
	"/sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us":                      "0\n",
	"/sys/devices/system/cpu/cpu0/cpuidle/state0/name":                                 "POLL\n",
	"/sys/devices/system/cpu/cpu0/cpuidle/state0/latency":                              "0\n",
	"/sys/devices/system/cpu/cpu0/cpuidle/state0/disable":                              "0\n",
	"/sys/devices/system/cpu/cpu0/cpuidle/state1/name":                                 "C1\n",
	"/sys/devices/system/cpu/cpu0/cpuidle/state1/latency":                              "2\n",
	"/sys/devices/system/cpu/cpu0/cpuidle/state1/disable":                              "0\n",
	"/sys/devices/system/cpu/cpu0/cpuidle/state2/name":                                 "C6\n",
	"/sys/devices/system/cpu/cpu0/cpuidle/state2/latency":                              "133\n",
	"/sys/devices/system/cpu/cpu0/cpuidle/state2/disable":                              "0\n",
	"/sys/devices/system/cpu/cpu1/power/pm_qos_resume_latency_us":                      "n/a\n",
	"/sys/devices/system/cpu/cpu1/cpuidle/state0/name":                                 "POLL\n",
	"/sys/devices/system/cpu/cpu1/cpuidle/state0/latency":                              "0\n",
	"/sys/devices/system/cpu/cpu1/cpuidle/state0/disable":                              "0\n",
	"/sys/devices/system/cpu/cpu1/cpuidle/state1/name":                                 "C1\n",
	"/sys/devices/system/cpu/cpu1/cpuidle/state1/latency":                              "2\n",
	"/sys/devices/system/cpu/cpu1/cpuidle/state1/disable":                              "1\n",
	"/sys/devices/system/cpu/cpu1/cpuidle/state2/name":                                 "C6\n",
	"/sys/devices/system/cpu/cpu1/cpuidle/state2/latency":                              "133\n",
	"/sys/devices/system/cpu/cpu1/cpuidle/state2/disable":                              "0\n",
	"/sys/kernel/mm/transparent_hugepage/enabled":                                      "madvise\n",
	"/etc/default/irqbalance":                                                          "# Configuration for the irqbalance daemon\n#IRQBALANCE_ONESHOT=\n",
}
