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

// deviceNumber is one number of a device.
type deviceNumber struct {
	word    string // in the knob's values
	backend string // "link" or "net"
	key     string
	min     uint64
	max     uint64
}

// deviceNumbers is a knob of numbers of a device. With more than one, a value
// names each: "irqs=10,timeout=20000".
type deviceNumbers struct {
	name   string // of the knob
	parts  []deviceNumber
	off    bool     // all of them 0 is off
	all    bool     // a value without a word is for all of them
	trials []string // values worth a trial
}

// numberValue is what a device has of one part.
type numberValue struct {
	deviceNumber
	setting setting.Setting
	value   string
}

// now reads the parts that there are. Error: there is none, or it cannot be read.
func (k deviceNumbers) now(m knob.Machine, t knob.Target) ([]numberValue, error) {
	scope, err := knob.DeviceScope(t)
	if err != nil {
		return nil, err
	}
	var found []numberValue
	for _, p := range k.parts {
		s := setting.Setting{Backend: p.backend, Scope: scope, Key: p.key}
		v, err := m.Settings.Read(s)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, numberValue{p, s, strings.TrimSpace(v.String())})
	}
	if len(found) == 0 {
		return nil, verr.New(verr.Missing, "cannot read "+k.name+" of "+t.Device, "this kernel does not have it", "it takes a newer one")
	}
	return found, nil
}

// Get is of [knob.Knob].
func (k deviceNumbers) Get(m knob.Machine, t knob.Target) (knob.Reading, error) {
	found, err := k.now(m, t)
	if err != nil {
		return knob.Reading{}, err
	}
	return knob.Reading{Value: k.spell(found)}, nil
}

func (k deviceNumbers) spell(found []numberValue) string {
	if len(k.parts) == 1 {
		return found[0].value
	}
	var parts []string
	zero := k.off
	for _, f := range found {
		zero = zero && f.value == "0"
		parts = append(parts, f.word+"="+f.value)
	}
	if zero {
		return "off"
	}
	return strings.Join(parts, ",")
}

// Plan is of [knob.Knob].
func (k deviceNumbers) Plan(m knob.Machine, t knob.Target, value string) ([]setting.Write, error) {
	found, err := k.now(m, t)
	if err != nil {
		return nil, err
	}
	return k.plan(found, value)
}

func (k deviceNumbers) plan(found []numberValue, value string) ([]setting.Write, error) {
	named, err := k.parse(found, value)
	if err != nil {
		return nil, err
	}
	var writes []setting.Write
	for _, f := range found {
		text, ok := named[f.word]
		if !ok {
			continue
		}
		delete(named, f.word)
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil || n < f.min || n > f.max {
			return nil, knob.BadValue(k.name, value, fmt.Errorf("want for %s a number from %d to %d", f.key, f.min, f.max))
		}
		writes = append(writes, setting.Write{Setting: f.setting, Value: setting.Text(strconv.FormatUint(n, 10))})
	}
	for word := range named {
		return nil, knob.BadValue(k.name, value, fmt.Errorf("there is no %s of this device", word))
	}
	return writes, nil
}

// parse gives the text of each part that is named.
func (k deviceNumbers) parse(found []numberValue, value string) (map[string]string, error) {
	if strings.Contains(value, "=") {
		return knob.ParseAssignments(value)
	}
	if value == "off" && k.off {
		value = "0"
	} else if len(k.parts) > 1 && !k.all {
		return nil, knob.BadValue(k.name, value, errors.New("its parts are not named"))
	}
	named := map[string]string{}
	for _, f := range found {
		named[f.word] = value
	}
	return named, nil
}

// Range is of [knob.Ranger].
func (k deviceNumbers) Range(m knob.Machine, t knob.Target) ([]string, error) {
	now, err := k.Get(m, t)
	if err != nil {
		return nil, err
	}
	return knob.OtherThan(k.trials...)(now.Value), nil
}
