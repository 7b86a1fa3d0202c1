package doctor

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/sanitize"
)

// MachineReport is what was found on one of several machines.
type MachineReport struct {
	Machine string
	Report  *Report
}

// Merge puts the reports of several machines together. What is alike on some of them is one
// finding, with their names; what differs in any word of it is one each. fix completes the
// command of a fix by where it is to be run; the command itself is made here.
func Merge(reports []MachineReport, fix func(command string, machines []string) string) *Report {
	all := &Report{Version: reportVersion, Findings: []Finding{}}
	for _, m := range reports {
		all.Machines = append(all.Machines, m.Machine)
		all.Coverage.Namespaces += m.Report.Coverage.Namespaces
		all.Coverage.Devices += m.Report.Coverage.Devices
		all.Coverage.Rules = max(all.Coverage.Rules, m.Report.Coverage.Rules)
		all.Coverage.Seconds = max(all.Coverage.Seconds, m.Report.Coverage.Seconds)
		for _, f := range m.Report.Findings {
			f.location, f.Fix = location{}, fixCommand(f) // a command of another machine could be anything
			same := slices.IndexFunc(all.Findings, func(g Finding) bool {
				g.Machines = nil
				return reflect.DeepEqual(f, g)
			})
			if same >= 0 {
				all.Findings[same].Machines = append(all.Findings[same].Machines, m.Machine)
				continue
			}
			f.Machines = []string{m.Machine}
			all.Findings = append(all.Findings, f)
		}
	}
	for i := range all.Findings {
		if f := &all.Findings[i]; f.Fix != "" {
			f.Fix = fix(f.Fix, f.Machines)
		}
	}
	all.sort()
	return all
}

// affected counts the machines with findings of a group; 0: there are no several machines.
func (r *Report) affected(group []Finding) int {
	seen := map[string]bool{}
	for _, f := range group {
		for _, m := range f.Machines {
			seen[m] = true
		}
	}
	if len(r.Machines) < 2 {
		return 0
	}
	return len(seen)
}

// manyMachines is from how many on machines are not listed where all of them are meant.
const manyMachines = 3

// list names machines.
func (r *Report) list(machines []string) string {
	if len(machines) == len(r.Machines) && len(machines) >= manyMachines {
		return fmt.Sprintf("all %d %ss", len(machines), cmp.Or(r.Noun, "machine"))
	}
	return strings.Join(machines, ", ")
}

// printDifferences names the codes that some machines have and others do not.
func printDifferences(b *strings.Builder, r *Report) {
	if len(r.Machines) < 2 {
		return
	}
	for _, m := range r.Machines {
		var only []string
		for _, f := range r.Findings {
			elsewhere := slices.ContainsFunc(r.Findings, func(g Finding) bool {
				return g.Code == f.Code && (len(g.Machines) != 1 || g.Machines[0] != m)
			})
			if slices.Contains(f.Machines, m) && !elsewhere && !slices.Contains(only, f.Code) {
				only = append(only, f.Code)
			}
		}
		if len(only) > 0 {
			sanitize.Fprintf(b, "Only on %s: %s.\n", m, strings.Join(only, ", "))
		}
	}
}
