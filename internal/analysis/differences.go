package analysis

import (
	"cmp"
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
	var d differing
	for i := range max(len(before.Facts), len(after.Facts)) {
		d.facts(before, after, i)
	}
	d.plan(before, after)
	d.arms(&before.Plan, &after.Plan)
	return append(d.list, deviceChanges(before, after)...)
}

// differing collects in what two runs differ.
type differing struct{ list []Difference }

// machine compares what makes another machine of it.
func (d *differing) machine(what string, a, b any) { d.compare(true, what, a, b) }

// setting compares what leaves it the same machine.
func (d *differing) setting(what string, a, b any) { d.compare(false, what, a, b) }

func (d *differing) compare(machine bool, what string, a, b any) {
	if x, y := fmt.Sprint(a), fmt.Sprint(b); x != y {
		d.list = append(d.list, Difference{what, cmp.Or(x, noValue), cmp.Or(y, noValue), machine})
	}
}

// noValue is what an empty value is called.
const noValue = "none"

// facts compares what is known of the nth machines.
func (d *differing) facts(before, after *result.Record, n int) {
	a, b := factsAt(before, n), factsAt(after, n)
	firstA, firstB := factsAt(before, 0), factsAt(after, 0)
	if n > 0 && a.SameMachine(&firstA) && b.SameMachine(&firstB) {
		return // a machine of a lab, which is the first once more
	}
	of := cmp.Or(a.Machine, b.Machine)
	at := func(what string) string { return strings.TrimSpace(what + " of " + of) }
	if !before.Plan.OneHost() && !after.Plan.OneHost() {
		d.machine("machine "+fmt.Sprint(n+1), a.Machine, b.Machine)
	}
	d.machine(at("CPU"), a.CPUModel, b.CPUModel)
	d.machine(at("number of CPUs"), a.CPUs, b.CPUs)
	d.machine(at("hypervisor"), a.Hypervisor, b.Hypervisor)
	d.machine(at("architecture"), a.Arch, b.Arch)
	d.setting(at("kernel"), a.Kernel, b.Kernel)
	d.setting(at("system"), a.OS, b.OS)
	d.setting(at("clock source"), a.ClockSource, b.ClockSource)
	d.setting(at("governor"), a.Governor, b.Governor)
	d.setting(at("congestion control"), a.Congestion, b.Congestion)
	d.setting(at("connection tracking"), a.Conntrack, b.Conntrack)
	if !a.RulesHidden && !b.RulesHidden {
		d.setting(at("netfilter rules"), a.NetfilterRules, b.NetfilterRules)
	}
	for _, name := range slices.Sorted(maps.Keys(a.Sysctls)) {
		if later, ok := b.Sysctls[name]; ok {
			d.setting(at(name), a.Sysctls[name], later)
		}
	}
}

// plan compares what was measured on, and by which version.
func (d *differing) plan(before, after *result.Record) {
	p, q := &before.Plan, &after.Plan
	d.machine("wire", p.Wire, q.Wire)
	d.machine("one machine for both ends", p.OneHost(), q.OneHost())
	d.machine("cores of the machines", p.Cores, q.Cores)
	d.setting("Services", p.Services, q.Services)
	d.setting("Venturi", before.Header.Venturi, after.Header.Venturi)
}

// arms compares the arms that both runs have.
func (d *differing) arms(before, after *result.Plan) {
	for _, a := range before.Arms {
		at := slices.IndexFunc(after.Arms, func(b result.Arm) bool { return b.Name == a.Name })
		if at < 0 {
			continue
		}
		b := after.Arms[at]
		d.setting("path of "+a.Name, a.Path, b.Path)
		d.setting("options of "+a.Name, a.Options, b.Options)
		d.setting("MTU of "+a.Name, a.MTU, b.MTU)
		d.setting("programs of "+a.Name, versions(a), versions(b))
		ends := func(from, to string) string { return strings.TrimSpace(from + " " + to) }
		d.machine("machines of "+a.Name, ends(a.FromMachine, a.ToMachine), ends(b.FromMachine, b.ToMachine))
		d.machine("devices of "+a.Name, ends(a.FromDevice, a.ToDevice), ends(b.FromDevice, b.ToDevice))
	}
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
		return cmp.Or(strings.Join(strings.Fields(v), " "), noValue)
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
