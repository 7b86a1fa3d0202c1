package nic

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// privateFlags are switches that only one driver has.
var privateFlags = knob.Entry{
	Facts: knob.Facts{
		Name:       "nic.privflags",
		Title:      "Private flags of a card's driver",
		Values:     "those of the driver, each on or off, such as rx_striding_rq=on",
		Scope:      knob.ScopeDevice,
		Helps:      []knob.Benefit{knob.Packets},
		Risk:       "depends on the driver; many flags reset the card",
		Needs:      "a driver that has some, such as mlx5 and ice; its guide explains them",
		Grade:      knob.GradeC,
		Evidence:   "guides of vendors",
		Undo:       "each flag is set back",
		ManualOnly: "only the driver knows what a flag does",
	},
	Knob: privFlags{},
}

type privFlags struct{}

func (privFlags) read(t knob.Target) (setting.Scope, map[string]bool, error) {
	scope, err := deviceScope(t)
	if err != nil {
		return scope, nil, err
	}
	all, err := setting.PrivateFlags(scope)
	if err != nil {
		return scope, nil, hasNone(t, err)
	}
	return scope, all, nil
}

// Get is of [knob.Knob].
func (k privFlags) Get(_ knob.Machine, t knob.Target) (knob.Reading, error) {
	_, all, err := k.read(t)
	if err != nil {
		return knob.Reading{}, err
	}
	var items []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		items = append(items, name+"="+host.OnOff(all[name]))
	}
	return knob.Reading{Value: strings.Join(items, ",")}, nil
}

// Plan is of [knob.Knob].
func (k privFlags) Plan(_ knob.Machine, t knob.Target, value string) ([]setting.Write, error) {
	scope, all, err := k.read(t)
	if err != nil {
		return nil, err
	}
	want, err := knob.ParseAssignments(value)
	if err != nil {
		return nil, err
	}
	var writes []setting.Write
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if _, known := all[name]; !known {
			return nil, verr.New(verr.Missing, fmt.Sprintf("cannot set %q of %s", name, t.Device), "its driver knows no such switch", "name one that it has: "+strings.Join(slices.Sorted(maps.Keys(all)), ", "))
		}
		if err := knob.OneOf("on", "off")(want[name]); err != nil {
			return nil, verr.New(verr.Usage, fmt.Sprintf("cannot set %q of %s to %q", name, t.Device, want[name]), err.Error(), "write it like "+name+"=on")
		}
		writes = append(writes, setting.Write{Setting: setting.Setting{Backend: "privflag", Scope: scope, Key: name}, Value: setting.Text(want[name])})
	}
	return writes, nil
}
