package cpu

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/setting"
)

// cpuResumeLatency caps how deep cores sleep. On all cores it is what a number in
// /dev/cpu_dma_latency is: cpuidle's governors heed the lesser of a core's limit and
// that of all (cpuidle_governor_latency_req). It needs no process that holds it.
var cpuResumeLatency = knob.Entry{
	Facts: knob.Facts{
		Name:     "cpu.resume_latency",
		Title:    "The longest wake-up latency (PM QoS), of all cores or single ones",
		Values:   `us, such as 20 for all or "cpu0=20 cpu1=20"; off: no limit; n/a: it does not sleep`,
		Scope:    knob.ScopeMachine,
		Helps:    []knob.Benefit{knob.Latency},
		Risk:     "power; cores that do not sleep leave others less headroom for a high clock",
		Needs:    "bare metal with idle states, idle between packets; the cores that take a card's interrupts matter most",
		Grade:    knob.GradeB,
		Evidence: "round trips of 1.16 to 1.46 ms in an idle network came from idle states (slava.cc, a router at home); recommended for all cores by Intel, Red Hat, Amazon's ENA and tuned",
		Undo:     "the old limit of each core is written back",
	},
	Knob: resumeLatency{cpuFiles{
		name: "cpu.resume_latency", pattern: "cpu[0-9]*/power/pm_qos_resume_latency_us", check: microseconds,
		needs: "it takes a kernel with CONFIG_PM",
	}},
}

// cpuDMALatency was a knob of earlier versions. Their journals are undone all the same.
var cpuDMALatency = knob.Entry{Facts: knob.Facts{
	Name:     "cpu.dma_latency",
	Title:    "One limit for all cores, held by a process that keeps /dev/cpu_dma_latency open",
	Values:   "none: it is not set by Venturi",
	Scope:    knob.ScopeMachine,
	Helps:    []knob.Benefit{knob.Latency},
	Risk:     "the limit ends with the process",
	Needs:    "a version of Venturi that still has it",
	Grade:    knob.GradeB,
	Evidence: "as for cpu.resume_latency: the kernel applies the lower of both limits",
	Undo:     "nothing is changed; `venturi undo` ends the process that an earlier version started",
	Instead:  "use cpu.resume_latency, which limits every core, and needs no process to hold it",
}}

// microseconds checks a limit: the kernel's 0 is none, and its n/a is 0.
func microseconds(value string) error {
	if value == "n/a" {
		return nil
	}
	return knob.Number(0, 1<<30)(value)
}

// resumeLatency calls the kernel's 0 off: it means that there is no limit.
type resumeLatency struct{ cpuFiles }

// Get is of [knob.Knob].
func (k resumeLatency) Get(m knob.Machine, _ knob.Target) (knob.Reading, error) {
	files, err := k.read(m)
	if err != nil {
		return knob.Reading{}, err
	}
	for i := range files {
		files[i].Value = knob.OffFor(files[i].Value, "0")
	}
	return knob.Reading{Value: knob.FormatLists(files)}, nil
}

// Plan is of [knob.Knob].
func (k resumeLatency) Plan(m knob.Machine, t knob.Target, value string) ([]setting.Write, error) {
	parts := strings.Fields(value)
	for i, p := range parts {
		if name, v, named := strings.Cut(p, "="); named && v == "off" {
			parts[i] = name + "=0"
		} else if p == "off" {
			parts[i] = "0"
		} else if p == "0" || v == "0" {
			return nil, knob.BadValue(k.name, value, errors.New("0 means no limit to the kernel: write off, or n/a for no sleep at all"))
		}
	}
	return k.cpuFiles.Plan(m, t, strings.Join(parts, " "))
}

// Range is of [knob.Ranger]: what the shallowest state that is a sleep takes.
func (k resumeLatency) Range(m knob.Machine, t knob.Target) ([]string, error) {
	now, err := k.Get(m, t)
	if err != nil {
		return nil, err
	}
	states, err := coreFiles(m, "cpu0/cpuidle/state[0-9]*/latency")
	if err != nil {
		return nil, err
	}
	for _, s := range states {
		if s.Value != "0" {
			return knob.OtherThan(s.Value)(now.Value), nil
		}
	}
	return nil, nil
}

// cpuIdleDisable forbids single idle states.
var cpuIdleDisable = knob.Entry{
	Facts: knob.Facts{
		Name:     "cpu.idle_disable",
		Title:    "Which idle states the cores may not enter (C-states)",
		Values:   "names, such as C6 or C1E,C6; off: all states are allowed",
		Scope:    knob.ScopeMachine,
		Helps:    []knob.Benefit{knob.Latency},
		Risk:     "power; cores that do not sleep leave others less headroom for a high clock",
		Needs:    "idle states, and a host that is idle between packets",
		Grade:    knob.GradeC,
		Evidence: "Intel's guide for its 700 series recommends it, without a number",
		Undo:     "the old setting of each state of each core is written back",
	},
	Knob: idleDisable{},
}

type idleDisable struct{}

// idleState is a state of one core.
type idleState struct {
	knob.Queue
	called  string // "C6"
	latency int    // us to leave it
}

func (idleDisable) read(m knob.Machine) ([]idleState, error) {
	files, err := coreFiles(m, "cpu[0-9]*/cpuidle/state[0-9]*/disable")
	if err != nil {
		return nil, err
	}
	var states []idleState
	for _, f := range files {
		beside := func(name string) string {
			v, err := m.Settings.Read(setting.Setting{Backend: "kernel", Key: filepath.Join(filepath.Dir(f.Setting.Key), name)})
			if err != nil {
				return ""
			}
			return strings.TrimSpace(v.String())
		}
		s := idleState{Queue: f, called: beside("name")}
		s.latency, _ = strconv.Atoi(beside("latency"))
		states = append(states, s)
	}
	if len(states) == 0 {
		return nil, noFiles(m, "cpu.idle_disable", "it takes a kernel with cpuidle, and a driver of idle states")
	}
	return states, nil
}

// Get is of [knob.Knob]: the states that no core may enter.
func (k idleDisable) Get(m knob.Machine, _ knob.Target) (knob.Reading, error) {
	states, err := k.read(m)
	if err != nil {
		return knob.Reading{}, err
	}
	var off []string
	var r knob.Reading
	for _, name := range namesOf(states) {
		on := slices.ContainsFunc(states, func(s idleState) bool { return s.called == name && s.Value == "0" })
		some := slices.ContainsFunc(states, func(s idleState) bool { return s.called == name && s.Value != "0" })
		switch {
		case !on:
			off = append(off, name)
		case some:
			r.Note = "some cores may not enter " + name
		}
	}
	r.Value = strings.Join(off, ",")
	if r.Value == "" {
		r.Value = "off"
	}
	return r, nil
}

// namesOf lists the states in their order, the shallowest first.
func namesOf(states []idleState) (names []string) {
	for _, s := range states {
		if !slices.Contains(names, s.called) {
			names = append(names, s.called)
		}
	}
	return names
}

// Plan is of [knob.Knob].
func (k idleDisable) Plan(m knob.Machine, _ knob.Target, value string) ([]setting.Write, error) {
	states, err := k.read(m)
	if err != nil {
		return nil, err
	}
	var off []string
	if value != "off" {
		off = strings.Split(value, ",")
	}
	for _, name := range off {
		if !slices.Contains(namesOf(states), name) {
			return nil, knob.BadValue("cpu.idle_disable", value, fmt.Errorf("there is no state %q: there are %s", name, strings.Join(namesOf(states), ", ")))
		}
	}
	var writes []setting.Write
	for _, s := range states {
		digit := "0"
		if slices.Contains(off, s.called) {
			digit = "1"
		}
		writes = append(writes, setting.Write{Setting: s.Setting, Value: setting.Text(digit)})
	}
	return writes, nil
}

// Range is of [knob.Ranger]: the deepest state, if it takes long to leave.
func (k idleDisable) Range(m knob.Machine, t knob.Target) ([]string, error) {
	states, err := k.read(m)
	if err != nil {
		return nil, err
	}
	now, err := k.Get(m, t)
	if err != nil {
		return nil, err
	}
	const long = 20 // us: about a round trip in a rack
	deepest := slices.MaxFunc(states, func(a, b idleState) int { return a.latency - b.latency })
	if deepest.latency < long {
		return nil, nil
	}
	return knob.OtherThan(deepest.called, "off")(now.Value), nil
}
