package knob_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/tune"
	"github.com/venturi-net/venturi/internal/verr"
)

// bareMetal is a machine of two cores with intel_pstate and three idle states.
func bareMetal() map[string]string {
	files := map[string]string{
		"/proc/cmdline":                                     "BOOT_IMAGE=/vmlinuz root=/dev/sda1 iommu=pt quiet skew_tick=1\n",
		"/proc/cpuinfo":                                     "processor\t: 0\nflags\t\t: fpu\n",
		"/sys/devices/system/cpu/online":                    "0-1\n",
		"/sys/devices/system/cpu/smt/control":               "on\n",
		"/sys/devices/system/cpu/intel_pstate/no_turbo":     "0\n",
		"/sys/devices/system/cpu/intel_pstate/min_perf_pct": "20\n",
		"/sys/kernel/mm/transparent_hugepage/enabled":       "always [madvise] never\n",
		"/sys/devices/system/node/node0/cpulist":            "0\n",
		"/sys/devices/system/node/node1/cpulist":            "1\n",
		"/sys/class/net/eth0/device/numa_node":              "1\n",
	}
	for cpu := range 2 {
		policy := fmt.Sprintf("/sys/devices/system/cpu/cpufreq/policy%d/", cpu)
		files[policy+"scaling_governor"] = "powersave\n"
		files[policy+"scaling_available_governors"] = "performance powersave\n"
		files[policy+"scaling_driver"] = "intel_pstate\n"
		files[policy+"energy_performance_preference"] = "balance_power\n"
		files[policy+"energy_performance_available_preferences"] = "default performance balance_performance balance_power power \n"
		core := fmt.Sprintf("/sys/devices/system/cpu/cpu%d/", cpu)
		files[core+"power/energy_perf_bias"] = "6\n"
		files[core+"power/pm_qos_resume_latency_us"] = "0\n"
		for i, state := range []struct{ name, latency string }{{"POLL", "0"}, {"C1", "2"}, {"C6", "133"}} {
			idle := fmt.Sprintf("%scpuidle/state%d/", core, i)
			files[idle+"name"], files[idle+"latency"], files[idle+"disable"] = state.name+"\n", state.latency+"\n", "0\n"
		}
	}
	return files
}

func TestProcessorKnobs(t *testing.T) {
	b := fixture(t, bareMetal())
	for _, c := range []struct{ knob, value, shows string }{
		{"cpu.governor", "performance", "performance"},
		{"cpu.governor", "policy1=performance", "policy0=powersave policy1=performance"},
		{"cpu.epp", "performance", "performance"},
		{"cpu.epb", "0", "0"},
		{"cpu.epb", "cpu1=15", "cpu0=6 cpu1=15"},
		{"cpu.min_perf_pct", "100", "100"},
		{"cpu.boost", "off", "off"},
		{"cpu.resume_latency", "20", "20"},
		{"cpu.resume_latency", "cpu0=n/a", "cpu0=n/a cpu1=off"},
		{"cpu.idle_disable", "C6", "C6"},
		{"cpu.idle_disable", "C1,C6", "C1,C6"},
		{"vm.thp", "never", "never"},
	} {
		b.turns(c.knob, knob.Target{}, c.value, c.shows)
	}
	for name, text := range bareMetal() {
		if now, err := os.ReadFile(filepath.Join(b.m.Root, name)); name != "/sys/kernel/mm/transparent_hugepage/enabled" && (err != nil || string(now) != text) {
			t.Errorf("%s holds %q in the end (%v), want %q", name, now, err, text)
		}
	}
	b.refused("cpu.governor", knob.Target{}, verr.Usage, "ondemand", "", "policy7=performance")
	b.refused("cpu.epp", knob.Target{}, verr.Usage, "fast")
	b.refused("cpu.epb", knob.Target{}, verr.Usage, "16", "x")
	b.refused("cpu.resume_latency", knob.Target{}, verr.Usage, "0", "x", "cpu0=0")
	b.refused("cpu.idle_disable", knob.Target{}, verr.Usage, "C7", "")
	b.refused("cpu.boost", knob.Target{}, verr.Usage, "1")
	b.refused("vm.thp", knob.Target{}, verr.Usage, "sometimes")
	for _, read := range []struct{ knob, shows string }{
		{"cpu.smt", "on"}, {"boot.cmdline", "iommu=pt skew_tick=1"}, {"numa.place", "eth0=1"},
	} {
		if got := b.get(read.knob, knob.Target{}); got != read.shows {
			t.Errorf("%s is %q, want %q", read.knob, got, read.shows)
		}
		b.refused(read.knob, knob.Target{}, verr.Missing, "off")
		if entry(t, read.knob).ManualOnly == "" {
			t.Errorf("%s might be used automatically", read.knob)
		}
	}
}

// Governor performance takes the preference with it. Undone, both are as they
// were, the governor first: the kernel takes no preference before that.
func TestGovernorBeforePreference(t *testing.T) {
	b := fixture(t, bareMetal())
	folder := filepath.Join(b.m.Root, "sys/devices/system/cpu/cpufreq/policy0")
	j, err := journal.Open(b.options)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := j.Begin(0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tune.Set(tx, b.m, tune.Assignment{Knob: entry(t, "cpu.epp"), Value: "power"}); err != nil {
		t.Fatal(err)
	}
	if _, err := tune.Set(tx, b.m, tune.Assignment{Knob: entry(t, "cpu.governor"), Value: "performance"}); err != nil {
		t.Fatal(err)
	}
	j.Close()
	b.refused("cpu.epp", knob.Target{}, verr.Missing, "balance_performance")
	b.undo()
	for name, want := range map[string]string{"scaling_governor": "powersave\n", "energy_performance_preference": "balance_power\n"} {
		if text, err := os.ReadFile(filepath.Join(folder, name)); err != nil || string(text) != want {
			t.Errorf("%s holds %q (%v), want %q", name, text, err, want)
		}
	}
}

// The preference that governor performance has itself may follow it, as in profiles: a plan
// does not know that it has come by itself.
func TestPreferenceAfterGovernor(t *testing.T) {
	b := fixture(t, bareMetal())
	governor := tune.Assignment{Knob: entry(t, "cpu.governor"), Value: "performance"}
	preference := tune.Assignment{Knob: entry(t, "cpu.epp"), Value: "performance"}
	if planned, err := tune.DryRun(b.m, []tune.Assignment{governor, preference}); err != nil || len(tune.Total(planned)) != 4 {
		t.Errorf("both are planned as %v (%v)", planned, err)
	}
	preference.Value = "balance_performance"
	if _, err := tune.DryRun(b.m, []tune.Assignment{governor, preference}); verr.Code(err) != verr.Missing {
		t.Errorf("another preference: %v", err)
	}
}

// A virtual machine says that it is one.
func TestProcessorKnobsNeedTheMachine(t *testing.T) {
	b := fixture(t, map[string]string{"/proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu hypervisor\n", "/sys/class/dmi/id/sys_vendor": "QEMU\n"})
	for _, name := range []string{"cpu.governor", "cpu.epp", "cpu.epb", "cpu.min_perf_pct", "cpu.boost", "cpu.resume_latency", "cpu.idle_disable", "cpu.smt"} {
		_, err := entry(t, name).Get(b.m, knob.Target{})
		if verr.Code(err) != verr.Missing {
			t.Errorf("%s: %v, want an error of code %d", name, err, verr.Missing)
		}
		b.refused(name, knob.Target{}, verr.Missing, "performance")
	}
}
