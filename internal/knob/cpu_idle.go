package knob

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/setting"
)

// cpuResumeLatency caps how deep single cores sleep.
var cpuResumeLatency = Entry{
	Facts: Facts{
		Name:     "cpu.resume_latency",
		Title:    "The longest time that a core may take to wake up, for single cores",
		Values:   `us, such as "cpu0=20 cpu1=20", or one for all; off: however long; n/a: it does not sleep`,
		Scope:    ScopeMachine,
		Helps:    []Effect{Latency},
		Risk:     "power, less than for all cores (cpu.dma_latency)",
		Needs:    "idle states; worth it for the cores that take a card's interrupts",
		Grade:    GradeC,
		Evidence: "an option of tuned's, without a number",
		Undo:     "the old limit of each core is written back",
	},
	Knob: resumeLatency{cpuFiles{
		name: "cpu.resume_latency", pattern: "cpu[0-9]*/power/pm_qos_resume_latency_us", check: microseconds,
		trials: []string{"20"}, needs: "it takes a kernel with CONFIG_PM",
	}},
}

// microseconds checks a limit: the kernel's 0 is none, and its n/a is 0.
func microseconds(value string) error {
	if value == "n/a" {
		return nil
	}
	return number(0, 1<<30)(value)
}

// resumeLatency calls the kernel's 0 off: it means that there is no limit.
type resumeLatency struct{ cpuFiles }

// Get is of [Knob].
func (k resumeLatency) Get(m Machine, _ Target) (Reading, error) {
	files, err := k.read(m)
	if err != nil {
		return Reading{}, err
	}
	for i := range files {
		files[i].now = offFor(files[i].now, "0")
	}
	return Reading{Value: eachQueue(files)}, nil
}

// Plan is of [Knob].
func (k resumeLatency) Plan(m Machine, t Target, value string) ([]setting.Write, error) {
	parts := strings.Fields(value)
	for i, p := range parts {
		if name, v, named := strings.Cut(p, "="); named && v == "off" {
			parts[i] = name + "=0"
		} else if p == "off" {
			parts[i] = "0"
		} else if p == "0" || v == "0" {
			return nil, noSense(k.name, value, errors.New("0 means no limit to the kernel: write off, or n/a for no sleep at all"))
		}
	}
	return k.cpuFiles.Plan(m, t, strings.Join(parts, " "))
}

// Range is of [Ranger].
func (k resumeLatency) Range(m Machine, t Target) ([]string, error) {
	now, err := k.Get(m, t)
	if err != nil {
		return nil, err
	}
	return otherThan(k.trials...)(now.Value), nil
}

// cpuIdleDisable forbids single idle states.
var cpuIdleDisable = Entry{
	Facts: Facts{
		Name:     "cpu.idle_disable",
		Title:    "Which idle states the cores may not enter (C-states)",
		Values:   "names, such as C6 or C1E,C6; off: they may enter all",
		Scope:    ScopeMachine,
		Helps:    []Effect{Latency},
		Risk:     "power; cores that do not sleep leave others less room for a high clock",
		Needs:    "idle states, and a machine that is idle between packets",
		Grade:    GradeC,
		Evidence: "Intel's guide for its 700 series recommends it, without a number",
		Undo:     "what each state of each core was is written back",
	},
	Knob: idleDisable{},
}

type idleDisable struct{}

// idleState is a state of one core.
type idleState struct {
	queue
	called  string // "C6"
	latency int    // us to leave it
}

func (idleDisable) read(m Machine) ([]idleState, error) {
	files, err := coreFiles(m, "cpu[0-9]*/cpuidle/state[0-9]*/disable")
	if err != nil {
		return nil, err
	}
	var states []idleState
	for _, f := range files {
		beside := func(name string) string {
			v, err := m.Settings.Read(setting.Setting{Backend: "kernel", Key: filepath.Join(filepath.Dir(f.cell.Key), name)})
			if err != nil {
				return ""
			}
			return strings.TrimSpace(v.String())
		}
		s := idleState{queue: f, called: beside("name")}
		s.latency, _ = strconv.Atoi(beside("latency"))
		states = append(states, s)
	}
	if len(states) == 0 {
		return nil, noFiles(m, "cpu.idle_disable", "it takes a kernel with cpuidle, and a driver of idle states")
	}
	return states, nil
}

// Get is of [Knob]: the states that no core may enter.
func (k idleDisable) Get(m Machine, _ Target) (Reading, error) {
	states, err := k.read(m)
	if err != nil {
		return Reading{}, err
	}
	var off []string
	var r Reading
	for _, name := range namesOf(states) {
		on := slices.ContainsFunc(states, func(s idleState) bool { return s.called == name && s.now == "0" })
		some := slices.ContainsFunc(states, func(s idleState) bool { return s.called == name && s.now != "0" })
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

// Plan is of [Knob].
func (k idleDisable) Plan(m Machine, _ Target, value string) ([]setting.Write, error) {
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
			return nil, noSense("cpu.idle_disable", value, fmt.Errorf("there is no state %q: there are %s", name, strings.Join(namesOf(states), ", ")))
		}
	}
	var writes []setting.Write
	for _, s := range states {
		digit := "0"
		if slices.Contains(off, s.called) {
			digit = "1"
		}
		writes = append(writes, setting.Write{Setting: s.cell, Value: setting.Text(digit)})
	}
	return writes, nil
}

// Range is of [Ranger]: the deepest state, if it takes long to leave.
func (k idleDisable) Range(m Machine, t Target) ([]string, error) {
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
	return otherThan(deepest.called, "off")(now.Value), nil
}
