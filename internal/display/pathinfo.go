package display

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/internal/verr"
)

// PathInfo is what there is to know of a path, for people and for machines.
type PathInfo struct {
	Name       string       `json:"name"`
	Summary    string       `json:"summary"`
	Analogue   string       `json:"like"`
	OptionText string       `json:"with,omitempty"` // the options that overhead, needs and here refer to; empty: the defaults
	Overhead   int          `json:"overhead"`       // bytes a packet
	Needs      []string     `json:"needs"`
	Supported  string       `json:"here"` // can it be built on this machine: yes, no, ?, or "with OPTION=VALUE"
	Options    []PathOption `json:"options"`

	needs requirements
	Lacks error `json:"-"` // for a user, where it cannot be built
}

type PathOption struct {
	Name     string `json:"name"`
	Value    string `json:"value"`
	Default  string `json:"default"`
	Required bool   `json:"required,omitempty"`
	Help     string `json:"help"`
}

// ReadPath tells of a path as a user gives it. Its name alone will do, even
// where some options are required.
func ReadPath(text string) (PathInfo, error) {
	if !strings.Contains(text, ":") {
		d, err := path.Lookup(text)
		if err != nil {
			return PathInfo{}, err
		}
		return DescribePath(d, nil), nil
	}
	d, given, err := path.ParseSpec(text)
	if err != nil {
		return PathInfo{}, err
	}
	return DescribePath(d, given), nil
}

// DescribePath tells of a path with the options that were given; nil: with its
// defaults, and of its needs also where they differ with other options.
func DescribePath(d *path.Driver, given path.Values) PathInfo {
	options := given
	if given == nil {
		options = path.Values{}
		for _, o := range d.Options {
			options[o.Name] = o.Default
		}
	}
	arm := path.Arm{Name: d.Name, Driver: d, Options: options}
	info := PathInfo{
		Name: d.Name, Summary: d.Summary, Analogue: d.Example, Overhead: arm.Overhead(),
		Needs: []string{}, Options: []PathOption{},
		needs: requirements{common: arm.Needs()},
	}
	for _, o := range d.Options {
		info.Options = append(info.Options, PathOption{o.Name, o.Value, o.Default, o.Required, o.Help})
	}
	for _, n := range info.needs.common {
		info.Needs = append(info.Needs, n.String())
	}
	if given != nil {
		info.OptionText, info.Supported = arm.GivenOptions(), supportedWith(d, given)
	} else {
		info.Supported = supported(d, options)
		info.needs.split(d, options)
	}
	info.Lacks = missingNeeds(arm)
	return info
}

// requirements lists what a path needs, and what it needs only with one of two values of an option.
type requirements struct {
	common   []feature.Need
	byOption []optionNeeds
}

type optionNeeds struct {
	option string // OPTION=VALUE
	needs  []feature.Need
}

// split finds out which needs go with one option, which has two values that
// matter, such as datapath=system|netdev.
func (n *requirements) split(d *path.Driver, preset path.Values) {
	for option, other := range alternatives(d, preset) {
		all := path.Arm{Driver: d, Options: other}.Needs()
		here, there := minus(n.common, all), minus(all, n.common)
		if len(here)+len(there) == 0 {
			continue
		}
		name, _, _ := strings.Cut(option, "=")
		n.common = minus(n.common, here)
		n.byOption = append(n.byOption, optionNeeds{name + "=" + preset[name], here}, optionNeeds{option, there})
		return
	}
}

func (n requirements) nonEmpty() bool { return len(n.common)+len(n.byOption) > 0 }

// text lists the needs, each as name calls it and none twice.
func (n requirements) text(name func(feature.Need) string) string {
	var parts []string
	if len(n.common) > 0 {
		parts = append(parts, list(n.common, name))
	}
	for _, c := range n.byOption {
		if len(c.needs) > 0 {
			parts = append(parts, "with "+c.option+": "+list(c.needs, name))
		}
	}
	if len(parts) == 0 {
		return "nothing but what a lab needs"
	}
	return strings.Join(parts, "; ")
}

func list(needs []feature.Need, name func(feature.Need) string) string {
	var names []string
	for _, n := range needs {
		if s := name(n); !slices.Contains(names, s) {
			names = append(names, s)
		}
	}
	return strings.Join(names, ", ")
}

// packages calls what a package brings by the package.
func packages(n feature.Need) string {
	switch is := n.(type) {
	case feature.Program:
		return is.Package
	case feature.File:
		return is.Package
	}
	return n.String()
}

func minus(all, without []feature.Need) []feature.Need {
	return slices.DeleteFunc(slices.Clone(all), func(n feature.Need) bool { return slices.Contains(without, n) })
}

// alternatives gives, for each other value of an option that takes one of a few
// words, the option and all values with it. What is chosen by the machine is none.
func alternatives(d *path.Driver, preset path.Values) func(yield func(string, path.Values) bool) {
	return func(yield func(string, path.Values) bool) {
		for _, o := range d.Options {
			for _, value := range strings.Split(o.Value, "|") {
				if o.Default == "" || value == o.Default || value == "auto" || !strings.Contains(o.Value, "|") {
					continue
				}
				other := maps.Clone(preset)
				other[o.Name] = value
				if !yield(o.Name+"="+value, other) {
					return
				}
			}
		}
	}
}

// unknownSupport is printed when it is unknown whether a path can be built.
const unknownSupport = "?"

// supported reports whether a path can be built on this machine: with its defaults, or
// else with which option.
func supported(d *path.Driver, preset path.Values) string {
	answer := supportedWith(d, preset)
	if answer != "no" {
		return answer
	}
	for option, other := range alternatives(d, preset) {
		switch supportedWith(d, other) {
		case "yes":
			return "with " + option
		case unknownSupport:
			answer = unknownSupport
		}
	}
	return answer
}

func supportedWith(d *path.Driver, v path.Values) string {
	if answer := (path.Arm{Driver: d, Options: v}).Supported(); answer != feature.Unknown {
		return answer.String()
	}
	return unknownSupport
}

// missingNeeds returns an error for the user that names what this machine lacks for a path; nil:
// nothing, or that cannot be told.
func missingNeeds(a path.Arm) error {
	err := feature.Require("cannot raise path "+a.Name, a.Needs()...)
	if missing := new(verr.Error); errors.As(err, &missing) {
		return missing
	}
	return nil
}
