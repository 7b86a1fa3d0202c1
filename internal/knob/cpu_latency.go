package knob

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"github.com/venturi-net/venturi/internal/setting"
)

// cpuLatency caps how deep all cores sleep.
var cpuLatency = Entry{
	Facts: Facts{
		Name:     "cpu.dma_latency",
		Title:    "The longest time that any core may take to wake up (PM QoS)",
		Values:   "us, such as 10, 0 for no sleep at all; off",
		Scope:    ScopeMachine,
		Helps:    []Effect{Latency},
		Risk:     "power; cores that do not sleep leave others less room for a high clock",
		Needs:    "a machine with idle states, not a virtual one, that is idle between packets; a process of venturi stays to hold it, as the kernel wants it",
		Grade:    GradeB,
		Evidence: "round trips of 1.16 to 1.46 ms in an idle network came from idle states (slava.cc, a router at home); recommended by Intel, Red Hat, Amazon's ENA and tuned",
		Undo:     "the process that holds it ends, and with it the limit",
	},
	Knob: latency{},
}

type latency struct{}

const latencyFile = "/dev/cpu_dma_latency"

var latencyCell = setting.Setting{Backend: "held", Key: latencyFile}

func (latency) read(m Machine) (setting.Value, error) {
	idle, err := coreFiles(m, "cpu[0-9]*/cpuidle/state[0-9]*/latency")
	if err != nil {
		return setting.Value{}, err
	}
	v, err := m.Settings.Read(latencyCell)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(idle) == 0 {
		return setting.Value{}, noFiles(m, "cpu.dma_latency", "it takes a kernel with cpuidle, and a driver of idle states")
	}
	return v, err
}

// Get is of [Knob]. In effect is the least of all limits that anybody holds.
func (k latency) Get(m Machine, _ Target) (Reading, error) {
	v, err := k.read(m)
	if err != nil {
		return Reading{}, err
	}
	least, err := setting.HeldNumber(filepath.Join("/", m.Root, latencyFile))
	if err != nil {
		return Reading{}, err
	}
	now := strconv.Itoa(least)
	if !v.Present {
		r := Reading{Value: "off"}
		if least < unlimited {
			r.Note = "somebody else holds it at " + now + " us"
		}
		return r, nil
	}
	return Reading{Value: v.String(), Effective: now}, nil
}

// unlimited is what the kernel shows where nobody holds a limit.
const unlimited = 2_000_000_000

// Plan is of [Knob].
func (k latency) Plan(m Machine, _ Target, value string) ([]setting.Write, error) {
	if _, err := k.read(m); err != nil {
		return nil, err
	}
	if value == "off" {
		return []setting.Write{{Setting: latencyCell}}, nil
	}
	if err := number(0, unlimited-1)(value); err != nil {
		return nil, noSense("cpu.dma_latency", value, err)
	}
	n, err := strconv.Atoi(value)
	return []setting.Write{{Setting: latencyCell, Value: setting.Text(strconv.Itoa(n))}}, err
}

// Range is of [Ranger]: what the shallowest state that is a sleep takes.
func (k latency) Range(m Machine, t Target) ([]string, error) {
	now, err := k.Get(m, t)
	if err != nil {
		return nil, err
	}
	states, err := coreFiles(m, "cpu0/cpuidle/state[0-9]*/latency")
	if err != nil {
		return nil, err
	}
	for _, s := range states {
		if s.now != "0" {
			return otherThan(s.now)(now.Value), nil
		}
	}
	return nil, nil
}
