package nic

import (
	"errors"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/setting"
)

// netRPS spreads what a receive queue brings over several cores.
var netRPS = knob.Entry{
	Facts: knob.Facts{
		Name:     "net.rps",
		Title:    "Which cores handle the packets of a receive queue (RPS)",
		Values:   `cores for all queues, such as 0-3,8; all: every core that is on and not isolated; for each queue its own, such as "rx-0=0-1 rx-1=2-3"; off`,
		Scope:    knob.ScopeDevice,
		Helps:    []knob.Benefit{knob.Packets, knob.Throughput},
		Risk:     "an inter-processor interrupt for each batch, which adds latency; redundant where the card has as many queues as there are cores",
		Needs:    "fewer queues than cores, and one core whose softirq is saturated; cores near the card, but not the siblings of those that take its interrupts; none that are off or isolated (isolcpus, nohz_full)",
		Grade:    knob.GradeC,
		Evidence: "the kernel's scaling guide and Amazon's ENA best practices recommend it, without a number",
		Undo:     "the old masks are written back",
	},
	Knob: rps{},
}

type rps struct{}

const rpsFile = "queues/rx-*/rps_cpus"

// allCores are all that the kernel sends packets to: advice can name them without knowing the host.
const allCores = "all"

// Get is of [knob.Knob].
func (rps) Get(m knob.Machine, t knob.Target) (knob.Reading, error) {
	queues, err := knob.ReadMasks(m, t, rpsFile)
	if err != nil {
		return knob.Reading{}, err
	}
	return knob.Reading{Value: knob.FormatLists(queues)}, nil
}

// Plan is of [knob.Knob].
func (rps) Plan(m knob.Machine, t knob.Target, value string) ([]setting.Write, error) {
	queues, err := knob.ReadMasks(m, t, rpsFile)
	if err != nil {
		return nil, err
	}
	lists, err := knob.ParseLists(value, queues, func(list string) ([]string, error) {
		if list == allCores {
			if list = host.FormatNumbers(knob.SharedCores(m)); list == "" {
				return nil, errors.New("no core is on that is not isolated, or the kernel does not list them")
			}
		}
		same := make([]string, len(queues))
		for i := range same {
			same[i] = list
		}
		return same, nil
	})
	if err != nil {
		return nil, knob.BadValue("net.rps", value, err)
	}
	writes, err := knob.MaskWrites(queues, lists, knob.CoreCount(m))
	if err == nil {
		err = knob.CheckCores(lists, knob.SharedCores(m), "is off, or the boot line isolates it (isolcpus, nohz_full): the kernel leaves it out")
	}
	if err != nil {
		return nil, knob.BadValue("net.rps", value, err)
	}
	return writes, nil
}

// Range is of [knob.Ranger]: all cores that the kernel takes, and all but the first of them,
// which has most else to do.
func (k rps) Range(m knob.Machine, t knob.Target) ([]string, error) {
	now, err := k.Get(m, t)
	cores := knob.SharedCores(m)
	if err != nil || len(cores) < 2 {
		return nil, err
	}
	return knob.OtherThan(host.FormatNumbers(cores), host.FormatNumbers(cores[1:]))(now.Value), nil
}
