package compare

import (
	"fmt"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/load/engine"
	"github.com/venturi-net/venturi/result"
)

// What of a namespace decides how fast its TCP is, and can differ from the
// lab's where somebody else made it.
const (
	congestionControl = "net.ipv4.tcp_congestion_control"
	idleRestart       = "net.ipv4.tcp_slow_start_after_idle"
)

// congestionWarnings warns of arms whose TCP settings differ from those of the client's machine, whose
// settings are own. Nothing is written to a namespace that a lab did not make,
// so what a socket cannot be told stays as it is there.
func congestionWarnings(plan *result.Plan, ends []experiment.Ends, with []string, own map[string]string) []result.Warning {
	if !slices.ContainsFunc(plan.Cells, func(c result.Cell) bool { return c.Transport == "tcp" }) {
		return nil
	}
	var out []result.Warning
	for i, arm := range plan.Arms {
		if arm.Role == result.RoleCopy {
			continue // it is what the baseline is
		}
		var spaces []string
		for _, p := range ends[i].Pairs {
			spaces = append(spaces, p.From.Namespace, p.To.Namespace)
		}
		for _, space := range dedup(spaces) {
			out = append(out, unlikeEnd(arm.Name, space, own, slices.Contains(with, arm.Path))...)
		}
	}
	return dedup(out) // both ends of an arm may be told of in the same words
}

// unlikeEnd looks at one end's namespace. One that cannot be read is left to
// the loads, which fail there.
func unlikeEnd(arm, space string, own map[string]string, isTool bool) []result.Warning {
	found := map[string]string{}
	_ = host.Do(space, func() error {
		for _, name := range []string{congestionControl, idleRestart} {
			found[name], _ = host.Reader{}.Sysctl(name)
		}
		return nil
	})
	var out []result.Warning
	warn := func(code, format string, args ...any) {
		out = append(out, result.Warning{Code: code, Arm: arm, Text: fmt.Sprintf(format, args...)})
	}
	here, there := own[congestionControl], found[congestionControl]
	if there != "" && there != here {
		if isTool {
			warn("congestion-differs", "it sends TCP with %s, our own loads with %s", there, here)
		} else if err := engine.TryCongestion(space, here); err != nil {
			warn("congestion-differs", "it sends TCP with %s, the other paths with %s: %v", there, here, err)
		}
	}
	if found[idleRestart] == "1" && own[idleRestart] == "0" {
		warn("idle-restart", "its TCP starts slowly after each pause between slices, that of the other paths does not: %s is 1 there", idleRestart)
	}
	return out
}

// crossed lists the namespaces of a machine that an arm's packets pass beside
// those of its ends: its switches', else the machine's own. What lies between
// ends that somebody else made is not known.
func crossed(m lab.Machine, arm string) []string {
	of := m.Name + "/" + arm
	if slices.ContainsFunc(m.Attached, func(n host.Named) bool { return n.Name == of }) {
		return nil
	}
	var switches []string
	for _, s := range m.Switches {
		// The switches of arm ovs.2 begin with ovs. too.
		if name, ok := strings.CutPrefix(s.Name, of+"."); ok && !strings.Contains(name, ".") {
			switches = append(switches, s.Path)
		}
	}
	if switches == nil {
		return []string{m.Namespace}
	}
	return switches
}
