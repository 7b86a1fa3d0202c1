package stack

import (
	"fmt"
	"strings"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// sysctlGroup is a knob of sysctls that belong together. Its value names each:
// "packets=600,usecs=8000". What a kernel lacks of them is left out.
type sysctlGroup struct {
	parts  []groupMember
	all    bool     // a value without a name is for all parts; else for the first
	trials []string // values worth a trial
	note   string   // what else to know, whatever the value
}

// groupMember is one sysctl of a sysctlGroup.
type groupMember struct {
	word string
	sysctl
}

// groupValue is a value of one part.
type groupValue struct {
	groupMember
	value string
}

// now reads the parts that there are. Error: there is none, or it cannot be read.
func (s sysctlGroup) now(m knob.Machine, t knob.Target) ([]groupValue, error) {
	var found []groupValue
	var missing error
	for _, p := range s.parts {
		r, err := p.sysctl.Get(m, t)
		switch {
		case err == nil:
			found = append(found, groupValue{p, r.Value})
		case verr.Code(err) == verr.Missing:
			missing = err
		default:
			return nil, err
		}
	}
	if len(found) == 0 {
		return nil, missing
	}
	return found, nil
}

// Get is of [knob.Knob].
func (s sysctlGroup) Get(m knob.Machine, t knob.Target) (knob.Reading, error) {
	found, err := s.now(m, t)
	if err != nil {
		return knob.Reading{}, err
	}
	var parts []string
	for _, p := range found {
		parts = append(parts, p.word+"="+p.value)
	}
	return knob.Reading{Value: strings.Join(parts, ","), Note: s.note}, nil
}

// Plan is of [knob.Knob].
func (s sysctlGroup) Plan(m knob.Machine, t knob.Target, value string) ([]setting.Write, error) {
	found, err := s.now(m, t)
	if err != nil {
		return nil, err
	}
	wanted, err := s.parse(value, found)
	if err != nil {
		return nil, err
	}
	var writes []setting.Write
	for _, p := range wanted {
		w, err := p.sysctl.Plan(m, t, p.value)
		if err != nil {
			return nil, err
		}
		writes = append(writes, w...)
	}
	return writes, nil
}

// parse reads what parts shall become. There are those of found.
func (s sysctlGroup) parse(value string, found []groupValue) ([]groupValue, error) {
	if !strings.Contains(value, "=") {
		if !s.all {
			found = found[:1]
		}
		var wanted []groupValue
		for _, p := range found {
			wanted = append(wanted, groupValue{p.groupMember, value})
		}
		return wanted, nil
	}
	named, err := knob.ParseAssignments(value)
	if err != nil {
		return nil, err
	}
	var wanted []groupValue
	for _, p := range s.parts {
		if v, ok := named[p.word]; ok {
			wanted = append(wanted, groupValue{p, v})
			delete(named, p.word)
		}
	}
	for word := range named {
		return nil, verr.New(verr.Usage, fmt.Sprintf("cannot set %q", value), fmt.Sprintf("there is no %q in it here, only %s", word, strings.Join(s.words(), ", ")), knob.SeeValues)
	}
	return wanted, nil
}

func (s sysctlGroup) words() (words []string) {
	for _, p := range s.parts {
		words = append(words, p.word)
	}
	return words
}

// Range is of [knob.Ranger]: the trials that make sense here and change something.
func (s sysctlGroup) Range(m knob.Machine, t knob.Target) ([]string, error) {
	found, err := s.now(m, t)
	if err != nil {
		return nil, err
	}
	var worth []string
	for _, trial := range s.trials {
		wanted, err := s.parse(trial, found)
		if err != nil {
			return nil, err
		}
		var parts []string
		changes := false
		for _, w := range wanted {
			for _, f := range found {
				if f.word == w.word {
					parts = append(parts, w.word+"="+w.value)
					changes = changes || f.value != w.value
				}
			}
		}
		if _, err := s.Plan(m, t, strings.Join(parts, ",")); err == nil && changes {
			worth = append(worth, strings.Join(parts, ","))
		}
	}
	return worth, nil
}
