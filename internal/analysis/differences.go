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
		add(true, at("CPU"), a.CPUModel, b.CPUModel)
		add(true, at("number of CPUs"), a.CPUs, b.CPUs)
		add(true, at("hypervisor"), a.Hypervisor, b.Hypervisor)
		add(true, at("architecture"), a.Arch, b.Arch)
		add(false, at("kernel"), a.Kernel, b.Kernel)
		add(false, at("system"), a.OS, b.OS)
		add(false, at("clock source"), a.ClockSource, b.ClockSource)
		add(false, at("governor"), a.Governor, b.Governor)
		add(false, at("congestion control"), a.Congestion, b.Congestion)
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
	}
	return out
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
