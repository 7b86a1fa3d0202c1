package cpu

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// cpuGovernor is who chooses the clock of the cores.
var cpuGovernor = knob.Entry{
	Facts: knob.Facts{
		Name:     "cpu.governor",
		Title:    "Which governor chooses the cores' clock (cpufreq)",
		Values:   `performance, powersave, schedutil or another that is available, for all; or for each group of cores "policy0=performance policy1=powersave"`,
		Scope:    knob.ScopeMachine,
		Helps:    []knob.Benefit{knob.Latency, knob.Throughput},
		Risk:     "power and heat, and less headroom for the highest clock",
		Needs:    "bare metal with a cpufreq driver",
		Grade:    knob.GradeC,
		Evidence: "recommended by Kube-OVN, Cilium, and ESnet as the most important; nobody gives a number for it alone",
		Undo:     "the old governor of each group is written back, then its old preference",
	},
	Knob: cpuFiles{
		name: "cpu.governor", pattern: "cpufreq/policy*/scaling_governor", choices: "scaling_available_governors",
		trials: []string{"performance", "schedutil"}, needs: noCpufreq,
		note: func(m knob.Machine, q knob.Queue) string {
			v, err := m.Settings.Read(setting.Setting{Backend: "kernel", Key: filepath.Join(filepath.Dir(q.Setting.Key), "scaling_driver")})
			if err != nil {
				return ""
			}
			return "by driver " + strings.TrimSpace(v.String())
		},
	},
}

const noCpufreq = "the firmware may keep it to itself: look for a setting such as OS control of power"

// powerHint is a knob that weighs speed against power, as the profiles of tuned do.
func powerHint(f knob.Facts, k cpuFiles) knob.Entry {
	f.Scope, f.Helps, f.Grade = knob.ScopeMachine, []knob.Benefit{knob.Latency}, knob.GradeC
	f.Evidence = "set by the profiles of tuned, without a number"
	k.name = f.Name
	return knob.Entry{Facts: f, Knob: k}
}

// cpuEPP is what the hardware is told to prefer.
var cpuEPP = powerHint(knob.Facts{
	Name:   "cpu.epp",
	Title:  "Whether the hardware prefers speed or power when it chooses the clock itself (EPP)",
	Values: "performance, balance_performance, balance_power, power, default; or a number to 255",
	Risk:   "power",
	Needs:  "intel_pstate or amd_pstate in active mode, and a governor other than performance, which has its own preference",
	Undo:   "the old preference of each group is written back",
}, cpuFiles{
	pattern: "cpufreq/policy*/" + eppFile, choices: "energy_performance_available_preferences",
	trials: []string{"performance", "balance_performance"}, needs: "it takes a driver that lets the hardware choose: intel_pstate or amd_pstate",
	refuse: func(m knob.Machine, q knob.Queue, text string) error {
		if text == "performance" || text == "0" {
			return nil // what the governor of that name has itself
		}
		v, err := m.Settings.Read(setting.Setting{Backend: "kernel", Key: filepath.Join(filepath.Dir(q.Setting.Key), "scaling_governor")})
		if errors.Is(err, os.ErrNotExist) || err == nil && strings.TrimSpace(v.String()) != "performance" {
			return nil
		}
		if err != nil {
			return err
		}
		return verr.New(verr.Missing, "cannot set cpu.epp", "governor performance of "+q.Name+" has its own, and the kernel takes no other", "leave it, or set cpu.governor to powersave first")
	},
})

const eppFile = "energy_performance_preference"

// cpuEPB is the older hint of the same kind.
var cpuEPB = powerHint(knob.Facts{
	Name:   "cpu.epb",
	Title:  "The hint to the hardware between speed and power (EPB)",
	Values: `0 (speed) to 15 (power), for all; or "cpu0=0 cpu1=6"`,
	Risk:   "power",
	Needs:  "an Intel processor that has it",
	Undo:   "the old hint of each core is written back",
}, cpuFiles{
	pattern: "cpu[0-9]*/power/energy_perf_bias", check: knob.Number(0, 15),
	trials: []string{"0"}, needs: "it takes an Intel processor that has it",
})

// cpuMinPerf keeps the clock from going far down.
var cpuMinPerf = powerHint(knob.Facts{
	Name:   "cpu.min_perf_pct",
	Title:  "The lowest clock of the cores, in percent of the highest",
	Values: "percent, such as 100",
	Risk:   "power and heat",
	Needs:  "driver intel_pstate in active mode",
	Undo:   "the old percentage is written back",
}, cpuFiles{
	pattern: "intel_pstate/min_perf_pct", check: knob.Number(0, 100),
	trials: []string{"100"}, needs: "it takes the driver intel_pstate",
})

// cpuBoost lets cores go beyond their base clock.
var cpuBoost = knob.Entry{
	Facts: knob.Facts{
		Name:     "cpu.boost",
		Title:    "Whether cores may exceed their base clock (turbo)",
		Values:   "on, off",
		Scope:    knob.ScopeMachine,
		Helps:    []knob.Benefit{knob.Latency, knob.Throughput},
		Risk:     "on: the clock varies with heat and with the load of other cores; off: everything is slower",
		Needs:    "bare metal",
		Grade:    knob.GradeC,
		Evidence: "recommended both ways: on for speed, off for less jitter; without a number",
		Undo:     "the old setting is written back",
	},
	Knob: boost{},
}

type boost struct{}

// boostFiles are where it is said, and how.
var boostFiles = []struct {
	pattern string
	texts   knob.OnOff
}{
	{"cpufreq/boost", knob.Bit},
	{"intel_pstate/no_turbo", knob.OnOff{On: "0", Off: "1"}},
}

// read gives the file, and what is on and off in it.
func (boost) read(m knob.Machine) (file knob.Queue, texts knob.OnOff, err error) {
	for _, f := range boostFiles {
		found, err := coreFiles(m, f.pattern)
		if err != nil {
			return knob.Queue{}, texts, err
		}
		if len(found) > 0 {
			return found[0], f.texts, nil
		}
	}
	return knob.Queue{}, texts, noFiles(m, "cpu.boost", noCpufreq)
}

// Get is of [knob.Knob].
func (k boost) Get(m knob.Machine, _ knob.Target) (knob.Reading, error) {
	file, texts, err := k.read(m)
	if err != nil {
		return knob.Reading{}, err
	}
	return knob.Reading{Value: texts.Parse(file.Value)}, nil
}

// Plan is of [knob.Knob].
func (k boost) Plan(m knob.Machine, _ knob.Target, value string) ([]setting.Write, error) {
	file, texts, err := k.read(m)
	if err != nil {
		return nil, err
	}
	digit, ok := texts.Text(value)
	if !ok {
		return nil, knob.BadValue("cpu.boost", value, errors.New("want on or off"))
	}
	return []setting.Write{{Setting: file.Setting, Value: setting.Text(digit)}}, nil
}

// Range is of [knob.Ranger].
func (k boost) Range(m knob.Machine, t knob.Target) ([]string, error) {
	now, err := k.Get(m, t)
	if err != nil {
		return nil, err
	}
	return knob.OtherThan("on", "off")(now.Value), nil
}
