package stack

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// sysctl is a knob that is one sysctl, or one of the numbers in it.
type sysctl struct {
	name   string                    // dotted
	global bool                      // it is the machine's, and shows in its first network namespace only
	field  int                       // which of its numbers, from 1; 0: all of it
	onOff  bool                      // it is 1 or 0, and called on and off
	check  func(value string) error  // whether it makes sense; nil: anything does
	steps  func(now string) []string // values worth a trial; nil: none
	note   string                    // what else to know, whatever the value
}

func (s sysctl) setting(t knob.Target) (setting.Setting, error) {
	if s.global {
		return setting.Setting{Backend: "kernel", Key: "/proc/sys/" + host.SysctlFile(s.name)}, nil
	}
	scope, err := setting.NetnsScope(t.Netns)
	if err != nil {
		return setting.Setting{}, knob.BadNetns(t, err)
	}
	return setting.Sysctl(scope, s.name), nil
}

// read gives the setting and the numbers, or words, that it holds.
func (s sysctl) read(m knob.Machine, t knob.Target) (setting.Setting, []string, error) {
	file, err := s.setting(t)
	if err != nil {
		return file, nil, err
	}
	v, err := m.Settings.Read(file)
	if errors.Is(err, os.ErrNotExist) {
		return file, nil, verr.New(verr.Missing, "cannot read sysctl "+s.name, "this kernel, or this namespace, does not have it", "it belongs to the machine's first namespace, to a module that is not loaded, or to a newer kernel")
	}
	fields := strings.Fields(v.String())
	if err == nil && s.field > len(fields) {
		err = fmt.Errorf("read sysctl %s: %q has no number %d", s.name, v, s.field)
	}
	return file, fields, err
}

// Get is of [knob.Knob].
func (s sysctl) Get(m knob.Machine, t knob.Target) (knob.Reading, error) {
	_, fields, err := s.read(m, t)
	if err != nil {
		return knob.Reading{}, err
	}
	value := strings.Join(fields, " ")
	if s.field > 0 {
		value = fields[s.field-1]
	}
	if s.onOff {
		value = knob.Bit.Parse(value)
	}
	return knob.Reading{Value: value, Note: s.note}, nil
}

// Plan is of [knob.Knob].
func (s sysctl) Plan(m knob.Machine, t knob.Target, value string) ([]setting.Write, error) {
	file, fields, err := s.read(m, t)
	if err != nil {
		return nil, err
	}
	value = strings.Join(strings.Fields(value), " ")
	if s.onOff {
		value, _ = knob.Bit.Text(value)
	}
	if s.check != nil {
		if err := s.check(value); err != nil {
			return nil, verr.New(verr.Usage, fmt.Sprintf("cannot set %s to %q", s.name, value), err.Error(), knob.SeeValues)
		}
	}
	if s.field > 0 {
		// The kernel does not mind numbers that do not grow, and then does odd things.
		if s.field > 1 && less(value, fields[s.field-2]) {
			return nil, verr.New(verr.Usage, fmt.Sprintf("cannot set %s to %s", s.name, value), "the number before it is "+fields[s.field-2]+", and they must grow", "take that at least")
		}
		fields[s.field-1] = value
		value = strings.Join(fields, " ")
	}
	return []setting.Write{{Setting: file, Value: setting.Text(value)}}, nil
}

// Range is of [knob.Ranger].
func (s sysctl) Range(m knob.Machine, t knob.Target) ([]string, error) {
	now, err := s.Get(m, t)
	if err != nil || s.steps == nil {
		return nil, err
	}
	return s.steps(now.Value), nil
}

// less compares two numbers.
func less(a, b string) bool {
	x, err1 := strconv.Atoi(a)
	y, err2 := strconv.Atoi(b)
	return err1 == nil && err2 == nil && x < y
}
