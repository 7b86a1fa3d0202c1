package nic

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// features is a knob of offloads that belong together. Its value is on, off, or
// names each: "sg=on,tso=off,gso=on". What of them is fixed, or unknown to the
// kernel, is left out.
type features struct {
	parts []offload
	kinds []string // of devices that it is for, as `ip -d link` names them; nil: any
}

// offload is one part: features that are always the same.
type offload struct {
	word  string
	names []string // of the kernel's features
	needs string   // the part without which it has no effect
	clash bool     // it is off whether the knob is on or off
}

// featureReading is a knob's features on one device.
type featureReading struct {
	scope setting.Scope
	all   map[string]setting.Feature
	parts []offload // with only what can be set
}

func (k features) read(t knob.Target) (h featureReading, err error) {
	if h.scope, err = deviceScope(t); err != nil {
		return h, err
	}
	if len(k.kinds) > 0 && !slices.Contains(k.kinds, h.scope.Device.Kind) {
		return h, hasNone(t, fmt.Errorf("it is of kind %s, not %s", h.scope.Device.Kind, strings.Join(k.kinds, " or ")))
	}
	if h.all, err = setting.DeviceFeatures(h.scope); err != nil {
		return h, hasNone(t, err)
	}
	var fixed []string
	for _, p := range k.parts {
		names := p.names
		p.names = nil
		for _, name := range names {
			if h.all[name].Settable {
				p.names = append(p.names, name)
			} else {
				fixed = append(fixed, name)
			}
		}
		if len(p.names) > 0 {
			h.parts = append(h.parts, p)
		}
	}
	if len(h.parts) == 0 {
		return h, hasNone(t, fmt.Errorf("of %s nothing can be changed: its driver fixes them, or this kernel does not know them", strings.Join(fixed, ", ")))
	}
	return h, nil
}

// text tells the features in a knob's words.
func (h featureReading) text(is func(name string) bool) string {
	on, off, words := true, true, []string(nil)
	for _, p := range h.parts {
		first, mixed := is(p.names[0]), false
		for _, name := range p.names {
			mixed = mixed || is(name) != first
			on, off = on && is(name) != p.clash, off && !is(name)
		}
		if !mixed {
			words = append(words, p.word+"="+host.OnOff(first))
			continue
		}
		for _, name := range p.names {
			words = append(words, name+"="+host.OnOff(is(name)))
		}
	}
	switch {
	case on:
		return "on"
	case off:
		return "off"
	}
	return strings.Join(words, ",")
}

// inEffect tells whether a feature is, or is not because of another assignment: that
// what it needs be off.
func (h featureReading) inEffect(p offload, name string) bool {
	f := h.all[name]
	if f.Active || !f.Wanted {
		return f.Active
	}
	return slices.ContainsFunc(h.parts, func(other offload) bool {
		return other.word == p.needs && !slices.ContainsFunc(other.names, func(name string) bool { return h.all[name].Wanted })
	})
}

// Get is of [knob.Knob].
func (k features) Get(_ knob.Machine, t knob.Target) (knob.Reading, error) {
	h, err := k.read(t)
	if err != nil {
		return knob.Reading{}, err
	}
	effective, idle := map[string]bool{}, []string(nil)
	for _, p := range h.parts {
		for _, name := range p.names {
			effective[name] = h.inEffect(p, name)
			if f := h.all[name]; f.Wanted && !f.Active {
				idle = append(idle, name)
			}
		}
	}
	r := knob.Reading{
		Value:     h.text(func(name string) bool { return h.all[name].Wanted }),
		Effective: h.text(func(name string) bool { return effective[name] }),
	}
	if len(idle) > 0 {
		r.Note = "wanted, but not in effect, for another offload that it needs is off, or excludes it: " + strings.Join(idle, ", ")
	}
	return r, nil
}

// Plan is of [knob.Knob].
func (k features) Plan(_ knob.Machine, t knob.Target, value string) ([]setting.Write, error) {
	h, err := k.read(t)
	if err != nil {
		return nil, err
	}
	want, err := h.parse(t, value)
	if err != nil {
		return nil, err
	}
	var writes []setting.Write
	for _, p := range h.parts {
		for _, name := range p.names {
			if on, asked := want[name]; asked {
				s := setting.Setting{Backend: "feature", Scope: h.scope, Key: name}
				writes = append(writes, setting.Write{Setting: s, Value: setting.Text(host.OnOff(on))})
			}
		}
	}
	return writes, nil
}

// parse gives what each feature shall be that a value names.
func (h featureReading) parse(t knob.Target, value string) (map[string]bool, error) {
	want := map[string]bool{}
	if value == "on" || value == "off" {
		for _, p := range h.parts {
			for _, name := range p.names {
				want[name] = value == "on" && !p.clash
			}
		}
		return want, nil
	}
	items, err := knob.ParseAssignments(value)
	if err != nil {
		return nil, err
	}
	for _, word := range slices.Sorted(maps.Keys(items)) {
		names := h.names(word)
		if len(names) == 0 {
			return nil, verr.New(verr.Missing, fmt.Sprintf("cannot set %q of %s", word, t.Device),
				"the knob has no such part, or it is fixed on this device", "name what can be changed: "+strings.Join(h.words(), ", "))
		}
		if err := knob.OneOf("on", "off")(items[word]); err != nil {
			return nil, verr.New(verr.Usage, fmt.Sprintf("cannot set %q of %s to %q", word, t.Device, items[word]), err.Error(), "write it like "+word+"=on")
		}
		for _, name := range names {
			want[name] = items[word] == "on"
		}
	}
	return want, nil
}

// names gives the features that a word means: those of a part, or one by its own
// name.
func (h featureReading) names(word string) []string {
	for _, p := range h.parts {
		if p.word == word {
			return p.names
		}
		if slices.Contains(p.names, word) {
			return []string{word}
		}
	}
	return nil
}

func (h featureReading) words() (words []string) {
	for _, p := range h.parts {
		words = append(words, p.word)
	}
	return words
}

// Range is of [knob.Ranger].
func (k features) Range(m knob.Machine, t knob.Target) ([]string, error) {
	now, err := k.Get(m, t)
	if err != nil {
		return nil, err
	}
	return knob.OtherThan("on", "off")(now.Value), nil
}

// deviceScope is the device of a target.
func deviceScope(t knob.Target) (setting.Scope, error) {
	if t.Device == "" {
		return setting.Scope{}, verr.New(verr.Usage, "cannot tell which device is meant", "none is named", "name one with --dev, as `ip link` shows it")
	}
	scope, err := t.Scope()
	if err != nil {
		return scope, verr.Wrap(verr.Usage, "cannot find device "+t.String(), err, "name one that `ip link` shows in that namespace")
	}
	return scope, nil
}

// hasNone makes of an error the one of a device that lacks what a knob turns. One that is
// gone, or that does not answer now, says nothing about that.
func hasNone(t knob.Target, err error) error {
	if errors.Is(err, host.ErrGone) || errors.Is(err, syscall.ENODEV) {
		return err
	}
	do := "see what the device has with: venturi knob ls --dev " + sanitize.Shell(t.Device)
	if t.Netns != "" {
		do += " --netns " + sanitize.Shell(t.Netns)
	}
	return verr.Wrap(verr.Missing, "cannot do that on device "+t.Device, err, do)
}
