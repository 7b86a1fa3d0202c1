package analysis

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/result"
)

// Difference is something in which two runs differ, beside what was measured.
type Difference struct {
	What   string `json:"what"`
	Before string `json:"before"`
	After  string `json:"after"`
	// Machine: it makes another machine of it. Ratios to the host network of
	// another machine need not be those of this one.
	Machine bool `json:"machine,omitempty"`
}

// differences lists in what two runs differ: the machines first.
func differences(before, after *result.Record) []Difference {
	var out []Difference
	add := func(machine bool, what string, a, b any) {
		if x, y := fmt.Sprint(a), fmt.Sprint(b); x != y {
			out = append(out, Difference{what, orNone(x), orNone(y), machine})
		}
	}
	for i := range max(len(before.Facts), len(after.Facts)) {
		a, b := factsAt(before, i), factsAt(after, i)
		name := a.Machine
		if name == "" {
			name = b.Machine
		}
		firstA, firstB := factsAt(before, 0), factsAt(after, 0)
		if i > 0 && a.SameMachine(&firstA) && b.SameMachine(&firstB) {
			continue // a machine of a lab, which is the first once more
		}
		at := func(what string) string { return strings.TrimSpace(what + " of " + name) }
		if !before.Plan.OneHost() && !after.Plan.OneHost() {
			add(true, "machine "+fmt.Sprint(i+1), a.Machine, b.Machine)
		}
		add(true, at("CPU"), a.CPUModel, b.CPUModel)
		add(true, at("number of CPUs"), a.CPUs, b.CPUs)
		add(true, at("hypervisor"), a.Hypervisor, b.Hypervisor)
		add(true, at("architecture"), a.Arch, b.Arch)
		add(false, at("kernel"), a.Kernel, b.Kernel)
		add(false, at("system"), a.OS, b.OS)
		add(false, at("clock source"), a.ClockSource, b.ClockSource)
		add(false, at("governor"), a.Governor, b.Governor)
		add(false, at("congestion control"), a.Congestion, b.Congestion)
		add(false, at("connection tracking"), a.Conntrack, b.Conntrack)
		if !a.RulesHidden && !b.RulesHidden {
			add(false, at("netfilter rules"), a.NetfilterRules, b.NetfilterRules)
		}
		for _, name := range slices.Sorted(maps.Keys(a.Sysctls)) {
			if after, ok := b.Sysctls[name]; ok {
				add(false, at(name), a.Sysctls[name], after)
			}
		}
	}
	p, q := &before.Plan, &after.Plan
	add(true, "wire", p.Wire, q.Wire)
	add(true, "one machine for both ends", p.OneHost(), q.OneHost())
	add(true, "cores of the machines", fmt.Sprint(p.Cores), fmt.Sprint(q.Cores))
	add(false, "Services", p.Services, q.Services)
	add(false, "Venturi", before.Header.Venturi, after.Header.Venturi)
	for _, a := range p.Arms {
		at := slices.IndexFunc(q.Arms, func(b result.Arm) bool { return b.Name == a.Name })
		if at < 0 {
			continue
		}
		b := q.Arms[at]
		add(false, "path of "+a.Name, a.Path, b.Path)
		add(false, "options of "+a.Name, a.Options, b.Options)
		add(false, "MTU of "+a.Name, a.MTU, b.MTU)
		add(false, "programs of "+a.Name, versions(a), versions(b))
		add(true, "machines of "+a.Name, strings.TrimSpace(a.FromMachine+" "+a.ToMachine), strings.TrimSpace(b.FromMachine+" "+b.ToMachine))
		add(true, "devices of "+a.Name, strings.TrimSpace(a.FromDevice+" "+a.ToDevice), strings.TrimSpace(b.FromDevice+" "+b.ToDevice))
	}
	return append(out, deviceChanges(before, after)...)
}

// deviceChanges lists what changed on the devices that the ends of paths are at.
func deviceChanges(before, after *result.Record) (out []Difference) {
	devices := func(rec *result.Record) map[string]*result.Device {
		found := map[string]*result.Device{}
		for _, arm := range rec.Plan.Arms {
			machines := MachinesOf(rec, arm)
			for i, name := range []string{arm.FromDevice, arm.ToDevice} {
				if f := factsAt(rec, machines[i]); OwnDevice(f, name) != nil {
					found[name+" of "+f.Machine] = OwnDevice(f, name)
				}
			}
		}
		return found
	}
	later := devices(after)
	earlier := devices(before)
	for _, name := range slices.Sorted(maps.Keys(earlier)) {
		a, b := earlier[name], later[name]
		if b == nil {
			continue
		}
		add := func(what string, x, y any) {
			if x != y {
				out = append(out, Difference{What: what + " of " + name, Before: ValueText(x), After: ValueText(y)})
			}
		}
		add("kind", a.Kind, b.Kind)
		add("MTU", a.MTU, b.MTU)
		add("qdisc", a.Qdisc, b.Qdisc)
		for _, feature := range slices.Sorted(maps.Keys(a.Features)) {
			if now, ok := b.Features[feature]; ok {
				add(feature, a.Features[feature], now)
			}
		}
	}
	return out
}

// ValueText is what a property of a machine or device is called in reports: a switch is on or off,
// and an empty string is none.
func ValueText(value any) string {
	switch v := value.(type) {
	case bool:
		if v {
			return "on"
		}
		return "off"
	case string:
		return orNone(strings.Join(strings.Fields(v), " "))
	}
	return fmt.Sprint(value)
}

// MachinesOf gives the numbers of the machines of a path's ends: the first two, if it names none.
func MachinesOf(rec *result.Record, arm result.Arm) [2]int {
	pair := [2]int{0, 1}
	for i, f := range rec.Facts {
		if arm.FromMachine == f.Machine {
			pair[0] = i
		}
		if arm.ToMachine == f.Machine {
			pair[1] = i
		}
	}
	return pair
}

// OwnDevice finds a device of the machine's own namespace; nil: it has none of that name.
func OwnDevice(f result.Facts, name string) *result.Device {
	i := slices.IndexFunc(f.Devices, func(d result.Device) bool { return d.Name == name && d.Namespace == f.Machine })
	if i < 0 {
		return nil
	}
	return &f.Devices[i]
}

func factsAt(rec *result.Record, i int) result.Facts {
	if i < len(rec.Facts) {
		return rec.Facts[i]
	}
	return result.Facts{}
}

func versions(a result.Arm) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(a.Versions)) {
		out = append(out, name+" "+a.Versions[name])
	}
	return strings.Join(out, ", ")
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
