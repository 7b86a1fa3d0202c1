package knob

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// nicIRQSuspend keeps interrupts away from a program that asks for packets itself.
var nicIRQSuspend = Entry{
	Facts: Facts{
		Name:     "nic.irq_suspend",
		Title:    "How long a queue's interrupts stay suspended while its program polls",
		Values:   "ns, such as 20000000; off",
		Scope:    ScopeDevice,
		Helps:    []Benefit{Latency, CPU},
		Risk:     "packets of a program that stops polling wait that long",
		Needs:    "Linux 6.13; a program that polls through epoll and prefers that (EPIOCSPARAMS), and nic.defer_irq. No use alone",
		Grade:    GradeC,
		Evidence: "the kernel's documentation of NAPI recommends it beside such programs, without a number",
		Undo:     "the old number of each NAPI is written back",
	},
	Knob: suspend{},
}

type suspend struct{}

func (suspend) read(m Machine, t Target) ([]queue, error) {
	place, err := onDevice(t)
	if err != nil {
		return nil, err
	}
	cells, err := setting.NAPISettings(place, setting.SuspendTimeout)
	if err != nil {
		return nil, err
	}
	var each []queue
	for _, c := range cells {
		v, err := m.Settings.Read(c)
		if errors.Is(err, os.ErrNotExist) {
			continue // it has gone since
		}
		if err != nil {
			return nil, err
		}
		napi, _, _ := strings.Cut(c.Key, "/")
		each = append(each, queue{"napi-" + napi, c, offFor(strings.TrimSpace(v.String()), "0")})
	}
	if len(each) == 0 {
		return nil, verr.New(verr.Missing, "cannot read nic.irq_suspend of "+t.Device, "its queues do not use NAPI, or this kernel does not have it", "it takes Linux 6.13, and a device that is up; a veth pair uses NAPI with GRO on")
	}
	return each, nil
}

// Get is of [Knob].
func (k suspend) Get(m Machine, t Target) (Reading, error) {
	each, err := k.read(m, t)
	if err != nil {
		return Reading{}, err
	}
	return Reading{Value: eachQueue(each)}, nil
}

// Plan is of [Knob].
func (k suspend) Plan(m Machine, t Target, value string) ([]setting.Write, error) {
	each, err := k.read(m, t)
	if err != nil {
		return nil, err
	}
	lists, err := listsFor(value, each, func(one string) ([]string, error) {
		all := make([]string, len(each))
		for i := range all {
			all[i] = one
		}
		return all, nil
	})
	if err != nil {
		return nil, noSense("nic.irq_suspend", value, err)
	}
	var writes []setting.Write
	for _, q := range each {
		word, named := lists[q.name]
		if !named {
			continue
		}
		if word == "off" {
			word = "0"
		}
		if n, err := strconv.ParseInt(word, 10, 64); err != nil || n < 0 || n > longestTimer {
			return nil, noSense("nic.irq_suspend", value, fmt.Errorf("want ns, up to %d, or off", longestTimer))
		}
		writes = append(writes, setting.Write{Setting: q.cell, Value: setting.Text(word)})
	}
	return writes, nil
}
