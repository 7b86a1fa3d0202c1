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

// fields is a knob of numbers that a device takes together: "rx=256,tx=512". What
// a value does not name stays as it is.
type fields struct {
	backend string
	largest []string                          // names that "max" alone is for; nil: no field has a maximum
	trials  func(now, most fieldSet) []string // values worth a trial, of which each names what differs
}

// fieldSet is values by their names, as text.
type fieldSet map[string]string

// number is a value as a number; 0: it is none, or not there.
func (f fieldSet) number(name string) int {
	n, err := strconv.Atoi(f[name])
	if err != nil {
		return 0
	}
	return n
}

// fieldsReading is what a device has of a knob's fields.
type fieldsReading struct {
	setting setting.Setting
	order   []string // names, as they are told
	now     fieldSet
	max     fieldSet
}

func (k fields) read(m knob.Machine, t knob.Target) (h fieldsReading, err error) {
	scope, err := deviceScope(t)
	if err != nil {
		return h, err
	}
	h.setting = setting.Setting{Backend: k.backend, Scope: scope}
	v, err := m.Settings.Read(h.setting)
	if errors.Is(err, errors.ErrUnsupported) {
		return h, hasNone(t, err)
	}
	if err != nil {
		return h, err
	}
	if h.now, err = setting.Fields(v.String()); err != nil {
		return h, err
	}
	for item := range strings.SplitSeq(v.String(), ",") {
		name, _, _ := strings.Cut(item, "=")
		h.order = append(h.order, name)
	}
	h.max = fieldSet{}
	if len(k.largest) == 0 {
		return h, nil
	}
	most, err := setting.Maxima(h.setting)
	for name, n := range most {
		h.max[name] = strconv.Itoa(n)
	}
	return h, err
}

// Get is of [knob.Knob].
func (k fields) Get(m knob.Machine, t knob.Target) (knob.Reading, error) {
	h, err := k.read(m, t)
	if err != nil {
		return knob.Reading{}, err
	}
	r := knob.Reading{Value: h.text(nil)}
	var most []string
	for _, name := range h.order {
		if n, told := h.max[name]; told {
			most = append(most, name+"="+n)
		}
	}
	if len(most) > 0 {
		r.Note = "at most " + strings.Join(most, ",")
	}
	return r, nil
}

// text writes all fields, with some in the place of what there is.
func (h fieldsReading) text(others fieldSet) string {
	items := make([]string, len(h.order))
	for i, name := range h.order {
		value, other := others[name]
		if !other {
			value = h.now[name]
		}
		items[i] = name + "=" + value
	}
	return strings.Join(items, ",")
}

// Plan is of [knob.Knob].
func (k fields) Plan(m knob.Machine, t knob.Target, value string) ([]setting.Write, error) {
	h, err := k.read(m, t)
	if err != nil {
		return nil, err
	}
	want, err := k.parse(h, t, value)
	if err != nil {
		return nil, err
	}
	return []setting.Write{{Setting: h.setting, Value: setting.Text(h.text(want))}}, nil
}

func (k fields) parse(h fieldsReading, t knob.Target, value string) (want fieldSet, err error) {
	if value == "max" && len(k.largest) > 0 {
		want = fieldSet{}
		for _, name := range k.largest {
			// Cards that can have queues of both kinds together seldom take them apart as well.
			if most, told := h.max[name]; told && (name == "combined" || h.max["combined"] == "") {
				want[name] = most
			}
		}
		return want, nil
	}
	if want, err = knob.ParseAssignments(value); err != nil {
		return nil, err
	}
	for name, word := range want {
		most, limited := h.max[name]
		if _, has := h.now[name]; !has && word == "off" && strings.HasPrefix(name, "adaptive-") {
			delete(want, name) // it is: the driver does not adapt
			continue
		} else if !has {
			return nil, verr.New(verr.Missing, fmt.Sprintf("cannot set %q of %s", name, t.Device), "its driver has no such setting", "name what it has: "+strings.Join(h.order, ", "))
		}
		if word == "max" && limited {
			want[name] = most
			continue
		}
		if err := h.check(name, word); err != nil {
			return nil, verr.New(verr.Usage, fmt.Sprintf("cannot set %s of %s to %q", name, t.Device, word), err.Error(), "write it like "+name+"="+h.now[name])
		}
	}
	return want, nil
}

// check refuses what makes no sense in the place of what a field holds.
func (h fieldsReading) check(name, word string) error {
	switch now := h.now[name]; now {
	case "auto":
		return knob.OneOf("auto", "on", "off")(word)
	case "on", "off":
		return knob.OneOf("on", "off", "auto")(word)
	}
	most := 1<<32 - 1
	if _, limited := h.max[name]; limited {
		most = h.max.number(name)
	}
	return knob.Number(0, most)(word)
}

// Range is of [knob.Ranger].
func (k fields) Range(m knob.Machine, t knob.Target) ([]string, error) {
	h, err := k.read(m, t)
	if err != nil || k.trials == nil {
		return nil, err
	}
	var worth []string
	now := h.text(nil)
	for _, trial := range k.trials(h.now, h.max) {
		want, err := k.parse(h, t, trial)
		if err != nil {
			continue // this device lacks what it names
		}
		if text := h.text(want); text != now && !slices.Contains(worth, text) {
			worth = append(worth, text)
		}
	}
	return worth, nil
}

// assign writes "a=1,b=2" of pairs.
func assign(pairs ...any) string {
	var items []string
	for i := 0; i+1 < len(pairs); i += 2 {
		items = append(items, fmt.Sprintf("%v=%v", pairs[i], pairs[i+1]))
	}
	return strings.Join(items, ",")
}
