package knob

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/change"
	"github.com/venturi-net/venturi/internal/verr"
)

// sysctl is a knob that is one sysctl.
type sysctl struct {
	name  string                    // dotted
	check func(value string) error  // whether it makes sense; nil: anything does
	steps func(now string) []string // values worth a trial; nil: none
}

func (s sysctl) cell(t Target) (change.Cell, error) {
	place, err := change.InNetns(t.Netns)
	if err != nil {
		return change.Cell{}, noNetns(t, err)
	}
	return change.Sysctl(place, s.name), nil
}

// Get is of [Knob].
func (s sysctl) Get(m Machine, t Target) (Reading, error) {
	cell, err := s.cell(t)
	if err != nil {
		return Reading{}, err
	}
	v, err := m.Cells.Read(cell)
	if errors.Is(err, os.ErrNotExist) {
		return Reading{}, verr.New(verr.Missing, "cannot read sysctl "+s.name, "this kernel, or this namespace, does not have it", "it belongs to the machine's first namespace, to a module that is not loaded, or to a newer kernel")
	}
	return Reading{Value: words(v)}, err
}

// Plan is of [Knob].
func (s sysctl) Plan(m Machine, t Target, value string) ([]change.Write, error) {
	if _, err := s.Get(m, t); err != nil {
		return nil, err
	}
	value = strings.Join(strings.Fields(value), " ")
	if s.check != nil {
		if err := s.check(value); err != nil {
			return nil, verr.New(verr.Usage, fmt.Sprintf("cannot set %s to %q", s.name, value), err.Error(), "see what it takes with: venturi knob ls")
		}
	}
	cell, err := s.cell(t)
	return []change.Write{{Cell: cell, Value: change.Text(value)}}, err
}

// Range is of [Ranger].
func (s sysctl) Range(m Machine, t Target) ([]string, error) {
	now, err := s.Get(m, t)
	if err != nil || s.steps == nil {
		return nil, err
	}
	return s.steps(now.Value), nil
}

// words is the text of a value with single blanks.
func words(v change.Value) string { return strings.Join(strings.Fields(v.String()), " ") }

// number checks that a value is a number of a range.
func number(least, most int) func(string) error {
	return func(value string) error {
		n, err := strconv.Atoi(value)
		if err != nil || n < least || n > most {
			return fmt.Errorf("want a number from %d to %d", least, most)
		}
		return nil
	}
}

// always gives the values of a list that are not the present one.
func always(values ...string) func(string) []string {
	return func(now string) (others []string) {
		for _, v := range values {
			if v != now {
				others = append(others, v)
			}
		}
		return others
	}
}

func noNetns(t Target, err error) error {
	return verr.Wrap(verr.Usage, "cannot find network namespace "+t.Netns, err, "name it as ip does, by the file of it, or by a process in it")
}
