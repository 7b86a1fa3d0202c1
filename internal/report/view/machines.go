package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/result"
)

// clocksApart is from what distance two clocks are worth a word: the way to ask for the time
// takes its own.
const clocksApart = 100 * time.Millisecond

// machinesApart tells whether the ends were on machines of their own.
func machinesApart(rec *result.Record) bool { return !rec.Plan.OneHost() && len(rec.Facts) >= 2 }

// machineRows say on what was measured: on one machine, or on several, and in what the two of
// each path differ.
func machineRows(rec *result.Record) (rows [][2]string) {
	apart := machinesApart(rec)
	for i, f := range rec.Facts {
		switch {
		case apart:
			rows = append(rows, [2]string{"machine", sanitize.Text(f.Machine) + ": " + machineText(f)})
		case i == 0 || !f.SameMachine(&rec.Facts[0]):
			rows = append(rows, [2]string{"machine", machineText(f)})
		}
	}
	if !apart {
		return rows
	}
	for _, p := range machinePairs(rec) {
		text := strings.Join(differences(rec, p), "; ")
		if text == "" {
			text = "nothing of what was looked at: kernel, CPU, clock, settings, and the devices that traffic uses"
		}
		if len(rec.Facts) > 2 {
			text = sanitize.Text(rec.Facts[p[0]].Machine+", "+rec.Facts[p[1]].Machine) + ": " + text
		}
		rows = append(rows, [2]string{"differ", text})
	}
	return rows
}

// machinePairs are the numbers of the two machines of each path, each pair once.
func machinePairs(rec *result.Record) (pairs [][2]int) {
	for _, arm := range rec.Plan.Arms {
		if p := analysis.MachinesOf(rec, arm); !slices.Contains(pairs, p) {
			pairs = append(pairs, p)
		}
	}
	return pairs
}

// differences lists in what two machines differ, the client's value first.
func differences(rec *result.Record, pair [2]int) (out []string) {
	a, b := rec.Facts[pair[0]], rec.Facts[pair[1]]
	differ := func(what string, a, b any) {
		if a != b {
			out = append(out, sanitize.Text(fmt.Sprintf("%s %s and %s", what, analysis.ValueText(a), analysis.ValueText(b))))
		}
	}
	differ("kernel", a.Kernel, b.Kernel)
	differ("architecture", a.Arch, b.Arch)
	differ("OS", a.OS, b.OS)
	differ("CPU", a.CPUModel, b.CPUModel)
	differ("CPUs", a.CPUs, b.CPUs)
	differ("hypervisor", a.Hypervisor, b.Hypervisor)
	differ("clock source", a.ClockSource, b.ClockSource)
	differ("governor", a.Governor, b.Governor)
	differ("congestion control", a.Congestion, b.Congestion)
	differ("connection tracking", a.Conntrack, b.Conntrack)
	if !a.RulesHidden && !b.RulesHidden {
		differ("netfilter rules", a.NetfilterRules, b.NetfilterRules)
	}
	if apart := time.Duration(a.ClockAhead - b.ClockAhead).Abs(); apart >= clocksApart {
		out = append(out, fmt.Sprintf("clocks %s apart, which changes no figure", apart.Round(10*time.Millisecond)))
	}
	out = append(out, deviceDifferences(rec, pair)...)
	for _, name := range slices.Sorted(maps.Keys(a.Sysctls)) {
		if value, ok := b.Sysctls[name]; ok {
			differ(name, a.Sysctls[name], value)
		}
	}
	return out
}

// deviceDifferences compares the devices that the ends of paths are at.
func deviceDifferences(rec *result.Record, pair [2]int) (out []string) {
	seen := map[[2]string]bool{}
	for _, arm := range rec.Plan.Arms {
		devices := [2]string{arm.FromDevice, arm.ToDevice}
		a, b := analysis.OwnDevice(rec.Facts[pair[0]], arm.FromDevice), analysis.OwnDevice(rec.Facts[pair[1]], arm.ToDevice)
		if seen[devices] || a == nil || b == nil || analysis.MachinesOf(rec, arm) != pair {
			continue
		}
		seen[devices] = true
		name := a.Name
		if b.Name != name {
			name += " and " + b.Name
		}
		differ := func(what string, a, b any) {
			if a != b {
				out = append(out, sanitize.Text(fmt.Sprintf("%s's %s %s and %s", name, what, analysis.ValueText(a), analysis.ValueText(b))))
			}
		}
		differ("kind", a.Kind, b.Kind)
		differ("MTU", a.MTU, b.MTU)
		differ("qdisc", a.Qdisc, b.Qdisc)
		for _, feature := range slices.Sorted(maps.Keys(a.Features)) {
			if on, ok := b.Features[feature]; ok {
				differ(feature, a.Features[feature], on)
			}
		}
	}
	return out
}
