package lab

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/verr"
)

// Cores are the cores of the host that each machine is confined to, by its name; nil: machines
// share all of them.
type Cores map[string][]int

// CoresHelp explains the option's text, for --help.
const CoresHelp = "confine each machine, its processes and softirqs, to cores of its own: `MACHINE=CORES ...`,\n" +
	"such as \"m1=0 m2=1\" or \"m1=0-3 m2=4,6\"; CPU time is then reported for each machine"

// ParseCores reads "m1=0,2-3 m2=1"; machines may also be apart by commas. Errors are for a user.
func ParseCores(text string) (Cores, error) {
	refuse := func(why string) (Cores, error) {
		return nil, verr.New(verr.Usage, fmt.Sprintf("cannot read --cores %q", text), why,
			`write a machine and its cores, such as "m1=0 m2=1"`)
	}
	all, machine := Cores{}, ""
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' }) {
		name, list, begins := strings.Cut(part, "=")
		switch {
		case begins && all[name] != nil:
			return refuse(fmt.Sprintf("machine %s is named twice", name))
		case begins:
			machine = name
		case machine == "":
			return refuse(fmt.Sprintf("%q belongs to no machine", part))
		default:
			list = part
		}
		cores, err := host.ParseNumbers(list)
		if err != nil || len(cores) == 0 {
			return refuse(fmt.Sprintf("machine %s has no cores in %q", machine, part))
		}
		all[machine] = append(all[machine], cores...)
	}
	if len(all) == 0 {
		return nil, nil
	}
	for name, cores := range all {
		slices.Sort(cores)
		all[name] = slices.Compact(cores)
	}
	return all, nil
}

// String gives the normal form, as ParseCores takes it.
func (c Cores) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(c)) {
		parts = append(parts, name+"="+host.FormatNumbers(c[name]))
	}
	return strings.Join(parts, " ")
}

// check refuses cores that a lab of so many machines cannot have, wherever it is.
func (c Cores) check(hosts int) error {
	if c == nil {
		return nil
	}
	refuse := func(why, do string) error {
		return verr.New(verr.Usage, "cannot raise a lab with --cores \""+c.String()+"\"", why, do)
	}
	owner := map[int]string{}
	for _, name := range slices.Sorted(maps.Keys(c)) {
		nth, err := strconv.Atoi(strings.TrimPrefix(name, "m"))
		if err != nil || nth < 1 || nth > hosts || name != machineName(nth-1) {
			return refuse(fmt.Sprintf("the lab has no machine %q", name), fmt.Sprintf("its machines are m1 to m%d", hosts))
		}
		for _, core := range c[name] {
			if other, taken := owner[core]; taken {
				return refuse(fmt.Sprintf("core %d is that of %s and of %s", core, other, name), "give each machine cores of its own")
			}
			owner[core] = name
		}
	}
	for i := range measured {
		if c[machineName(i)] == nil {
			return refuse("machine "+machineName(i)+" has no cores", "name cores for both m1 and m2, between which traffic is measured")
		}
	}
	return nil
}

// checkHere refuses cores that this process may not run on.
func (c Cores) checkHere() error {
	if c == nil {
		return nil
	}
	allowed, err := host.AllowedCPUs()
	if err != nil {
		return err
	}
	return c.checkAmong(allowed, host.Reader{}.IsolatedCPUs())
}

// checkAmong refuses cores that are not allowed, and says so of isolated ones.
func (c Cores) checkAmong(allowed, isolated []int) error {
	for _, name := range slices.Sorted(maps.Keys(c)) {
		for _, core := range c[name] {
			if !slices.Contains(allowed, core) {
				why := fmt.Sprintf("core %d is not one of those that a process may run on here: %s",
					core, host.FormatNumbers(allowed))
				do := "choose some of these"
				if slices.Contains(isolated, core) {
					why += "; it is isolated (isolcpus, nohz_full)"
					do += ", or run the command on it too, by taskset"
				}
				return verr.New(verr.Usage, "cannot raise a lab with --cores \""+c.String()+"\"", why, do)
			}
		}
	}
	return nil
}

// confine puts a namespace, named by what follows the lab's name, on its machine's cores.
func (b *builder) confine(n *netcfg.Namespace, rest string) {
	machine, _, _ := strings.Cut(rest, ".")
	n.Confine(b.cores[machine])
}

// confined moves what was not started by a process of its machine to the machine's cores, and
// tells what runs elsewhere all the same.
func (b *builder) confined(o Options) error {
	if o.Cores == nil {
		return nil
	}
	var failed error
	for _, n := range b.toClose {
		failed = errors.Join(failed, n.ConfineVhost())
	}
	say := func(text string) { b.lab.Unconfined = append(b.lab.Unconfined, text) }
	say("unbound kernel workers, such as kworker/u8:1")
	if failed != nil {
		say(fmt.Sprintf("vhost threads (%v)", failed))
	}
	switch {
	case errors.Is(b.unsteered, netcfg.ErrIsolated):
		say(fmt.Sprintf("softirqs on isolated cores (%v)", b.unsteered))
	case b.unsteered != nil:
		say(fmt.Sprintf("softirqs: packets are received on the core that sent them (%v)", b.unsteered))
	default:
		say("passing a packet over the wire, which runs on the sender's core")
	}
	if o.Wire.GRO && !o.Wire.TSO {
		say("GRO on the wire, which runs on the core that sent the packets")
	}
	if o.Hosts > DefaultHosts {
		say("the switch between the machines, which runs on the core that sent the packet")
	}
	if slices.ContainsFunc(b.lab.Arms, func(a Arm) bool { return len(a.Pins) > 0 }) {
		say("XDP programs of fast paths, which a veth pair runs on the core that sent the packet")
	}
	return nil
}
