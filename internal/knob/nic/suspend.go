package nic

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// nicIRQSuspend keeps interrupts away from a program that asks for packets itself.
var nicIRQSuspend = knob.Entry{
	Facts: knob.Facts{
		Name:     "nic.irq_suspend",
		Title:    "How long a queue's interrupts stay suspended while its program polls",
		Values:   "ns, such as 20000000; off",
		Scope:    knob.ScopeDevice,
		Helps:    []knob.Benefit{knob.Latency, knob.CPU},
		Risk:     "packets of a program that stops polling wait that long",
		Needs:    "Linux 6.13; a program that polls through epoll and prefers that (EPIOCSPARAMS), and nic.defer_irq. No use alone",
		Grade:    knob.GradeC,
		Evidence: "the kernel's documentation of NAPI recommends it beside such programs, without a number",
		Undo:     "the old number of each NAPI is written back",
	},
	Knob: suspend{},
}

type suspend struct{}

func (suspend) read(m knob.Machine, t knob.Target) ([]knob.Queue, error) {
	scope, err := knob.DeviceScope(t)
	if err != nil {
		return nil, err
	}
	settings, err := setting.NAPISettings(scope, setting.SuspendTimeout)
	if err != nil {
		return nil, err
	}
	var each []knob.Queue
	for _, s := range settings {
		v, err := m.Settings.Read(s)
		if errors.Is(err, os.ErrNotExist) {
			continue // it has gone since
		}
		if err != nil {
			return nil, err
		}
		napi, _, _ := strings.Cut(s.Key, "/")
		each = append(each, knob.Queue{Name: "napi-" + napi, Setting: s, Value: knob.OffFor(strings.TrimSpace(v.String()), "0")})
	}
	if len(each) == 0 {
		return nil, verr.New(verr.Missing, "cannot read nic.irq_suspend of "+t.Device, "its queues do not use NAPI, or this kernel does not have it", "it takes Linux 6.13, and a device that is up; a veth pair uses NAPI with GRO on")
	}
	return each, nil
}

// Get is of [knob.Knob].
func (k suspend) Get(m knob.Machine, t knob.Target) (knob.Reading, error) {
	each, err := k.read(m, t)
	if err != nil {
		return knob.Reading{}, err
	}
	return knob.Reading{Value: knob.FormatLists(each)}, nil
}

// Plan is of [knob.Knob].
func (k suspend) Plan(m knob.Machine, t knob.Target, value string) ([]setting.Write, error) {
	each, err := k.read(m, t)
	if err != nil {
		return nil, err
	}
	lists, err := knob.ParseLists(value, each, func(one string) ([]string, error) {
		all := make([]string, len(each))
		for i := range all {
			all[i] = one
		}
		return all, nil
	})
	if err != nil {
		return nil, knob.BadValue("nic.irq_suspend", value, err)
	}
	var writes []setting.Write
	for _, q := range each {
		word, named := lists[q.Name]
		if !named {
			continue
		}
		if word == "off" {
			word = "0"
		}
		if n, err := strconv.ParseInt(word, 10, 64); err != nil || n < 0 || n > longestTimer {
			return nil, knob.BadValue("nic.irq_suspend", value, fmt.Errorf("want ns, up to %d, or off", longestTimer))
		}
		writes = append(writes, setting.Write{Setting: q.Setting, Value: setting.Text(word)})
	}
	return writes, nil
}
