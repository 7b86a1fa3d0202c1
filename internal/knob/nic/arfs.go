package nic

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// steering lets a card bring packets to the processor where their reader runs.
var steering = knob.Entry{
	Facts: knob.Facts{
		Name:     "nic.arfs",
		Title:    "Receive flow steering by the card: packets arrive at the core that reads them (aRFS)",
		Values:   "off, on, or flows per queue, such as 4096",
		Scope:    knob.ScopeDevice,
		Helps:    []knob.Benefit{knob.Latency, knob.CPU},
		Risk:     "many short flows cause many filter updates",
		Needs:    "a card that filters (ntuple) and steers, few long flows, and net.rfs on",
		Grade:    knob.GradeC,
		Evidence: "the kernel's scaling.rst; not tested on a card: none that qemu emulates can filter and steer",
		Undo:     "the old filter setting, and each queue's number of flows, are written back",
	},
	Knob: arfs{},
}

// arfs is the knob: the filter, and a number of flows for each queue.
type arfs struct{}

const (
	filterFeature = "rx-ntuple-filter"
	flowFiles     = "queues/rx-*/rps_flow_cnt"
	flowsAQueue   = "4096" // what "on" means where no number was set
)

// read gives the setting of the filter, and those of the queues.
func (arfs) read(m knob.Machine, t knob.Target) (filter setting.Setting, queues []setting.Setting, err error) {
	scope, err := deviceScope(t)
	if err != nil {
		return filter, nil, err
	}
	filter = setting.Setting{Backend: "feature", Scope: scope, Key: filterFeature}
	if _, err := m.Settings.Read(filter); err != nil {
		if errors.Is(err, errors.ErrUnsupported) {
			err = errors.New("it cannot filter packets, or its driver fixes that")
		}
		return filter, nil, hasNone(t, err)
	}
	files, err := setting.DeviceFiles(scope, flowFiles)
	if err == nil && len(files) == 0 {
		err = hasNone(t, errors.New("this kernel does not steer flows"))
	}
	for _, f := range files {
		queues = append(queues, setting.Setting{Backend: "net", Scope: scope, Key: f})
	}
	return filter, queues, err
}

// Get is of [knob.Knob].
func (k arfs) Get(m knob.Machine, t knob.Target) (knob.Reading, error) {
	filter, queues, err := k.read(m, t)
	if err != nil {
		return knob.Reading{}, err
	}
	v, err := m.Settings.Read(filter)
	if err != nil {
		return knob.Reading{}, err
	}
	least, err := k.least(m, queues)
	if err != nil {
		return knob.Reading{}, err
	}
	if v.String() == "off" || least == "0" {
		return knob.Reading{Value: "off"}, nil
	}
	features, err := setting.DeviceFeatures(filter.Scope)
	if err != nil {
		return knob.Reading{}, err
	}
	r := knob.Reading{Value: least, Note: "nothing is steered unless net.rfs is on too"}
	if !features[filterFeature].Active {
		r.Effective = "off"
	}
	return r, nil
}

// least is the smallest number of flows of the queues.
func (arfs) least(m knob.Machine, queues []setting.Setting) (string, error) {
	var numbers []int
	for _, q := range queues {
		v, err := m.Settings.Read(q)
		if err != nil {
			return "", err
		}
		n, err := strconv.Atoi(strings.TrimSpace(v.String()))
		if err != nil {
			return "", fmt.Errorf("read %s: %w", q, err)
		}
		numbers = append(numbers, n)
	}
	return strconv.Itoa(slices.Min(numbers)), nil
}

// Plan is of [knob.Knob].
func (k arfs) Plan(m knob.Machine, t knob.Target, value string) ([]setting.Write, error) {
	filter, queues, err := k.read(m, t)
	if err != nil {
		return nil, err
	}
	if value == "off" {
		rules, err := setting.FilterRules(filter.Scope)
		if err != nil {
			return nil, fmt.Errorf("count the rules of %s: %w", t.Device, err)
		}
		if err := keepsRules(t.Device, rules); err != nil {
			return nil, err
		}
		return []setting.Write{{Setting: filter, Value: setting.Text("off")}}, nil
	}
	if value == "on" {
		if value, err = k.least(m, queues); err != nil {
			return nil, err
		}
		if value == "0" {
			value = flowsAQueue
		}
	}
	if err := knob.Number(1, 1<<20)(value); err != nil {
		return nil, verr.New(verr.Usage, fmt.Sprintf("cannot set nic.arfs to %q", value), "it is neither on nor off, and no number of flows: "+err.Error(), "write it like on, off, or "+flowsAQueue)
	}
	var writes []setting.Write
	for _, q := range queues {
		writes = append(writes, setting.Write{Setting: q, Value: setting.Text(value)})
	}
	return append(writes, setting.Write{Setting: filter, Value: setting.Text("on")}), nil
}

// keepsRules refuses to turn the filter off while it has rules of somebody's: the
// driver forgets them, and nothing brings them back.
func keepsRules(device string, rules int) error {
	if rules == 0 {
		return nil
	}
	return verr.New(verr.Usage, "cannot set nic.arfs of "+device+" to off", fmt.Sprintf("the card would forget the %d rules that somebody gave its filter, and no undo brings them back", rules),
		"see them with `ethtool -n "+device+"`, and delete them first if they are not needed")
}

// Range is of [knob.Ranger]. Off is no part of it: what a trial turns off may lose
// rules that come while it runs.
func (k arfs) Range(m knob.Machine, t knob.Target) ([]string, error) {
	if _, err := k.Get(m, t); err != nil {
		return nil, err
	}
	return []string{flowsAQueue}, nil
}
