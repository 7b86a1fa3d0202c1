package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/internal/remote"
	"github.com/venturi-net/venturi/internal/verr"
)

// pair is the numbers of the two machines that a path is between: the client's and the
// server's.
type pair [2]int

// firstPair is that of a path whose machines nobody names.
var firstPair = pair{0, 1}

// betweenMachines is a path that names its machines, and what is left of it without them.
type betweenMachines struct {
	pair pair
	spec string
	name string // of the path; empty: its driver's
}

// parsePairs reads the machines' names of all paths, where there are machines to name.
func (q Request) parsePairs() ([]betweenMachines, error) {
	all := make([]betweenMachines, len(q.Paths))
	for i, spec := range q.Paths {
		all[i] = betweenMachines{pair: firstPair, spec: spec}
		if len(q.Remote.Machines) > 1 {
			var err error
			if all[i], err = q.parsePair(spec); err != nil {
				return nil, err
			}
		}
		if i < len(q.Names) {
			all[i].name = cmp.Or(q.Names[i], all[i].name)
		}
	}
	return all, nil
}

// parsePair reads the machines' names in host:v1,v2, in vxlan:v1,v2,tunnels=2 and in
// attach:from=a/ns:red,to=b/pid:4711. Ends without a name are on the first machine and on the
// second.
func (q Request) parsePair(spec string) (b betweenMachines, err error) {
	b = betweenMachines{pair: firstPair, spec: spec}
	driver, list, more := strings.Cut(spec, ":")
	if !more {
		return b, nil
	}
	parts := strings.Split(list, ",")
	if driver == baseline {
		return q.hostBetween(spec, parts)
	}
	if driver != "attach" {
		return q.builtBetween(spec, driver, parts)
	}
	named := 0
	for i, part := range parts {
		for n, key := range []string{"from=", "to="} {
			value, ok := strings.CutPrefix(part, key)
			if !ok {
				continue
			}
			name, rest, _ := strings.Cut(value, "/")
			if at := machineNamed(q.Remote.Machines, name); at >= 0 && rest != "" {
				b.pair[n], parts[i] = at, key+rest
				named++
			}
		}
	}
	b.spec = driver + ":" + strings.Join(parts, ",")
	m := q.Remote.Machines
	switch {
	case b.pair[0] == b.pair[1]:
		return b, verr.New(verr.Usage, "cannot attach to "+spec, "both ends are on machine "+m[b.pair[0]].Name+", and a path is between two machines",
			"choose another machine for one of the ends; or run the command on that machine, without --machines")
	case len(m) == 2 && b.pair != firstPair:
		return b, verr.New(verr.Usage, "cannot attach to "+spec, "the client is on the first machine, the server on the second",
			"write from="+m[0].Name+"/... and to="+m[1].Name+"/..., or name the machines in the other order")
	case named == 1 && b.pair != firstPair:
		return b, verr.New(verr.Usage, "cannot attach to "+spec, "one of its ends names no machine", "write from=MACHINE/... and to=MACHINE/...")
	}
	return b, nil
}

// hostBetween is the network between two machines that are named: host:v1,v2.
func (q Request) hostBetween(spec string, names []string) (b betweenMachines, err error) {
	b = betweenMachines{spec: baseline, name: strings.Join(names, "-")}
	b.pair, err = q.pairNamed(spec, names)
	return b, err
}

// builtBetween is a path that is built, and measured between two machines that are named before
// or among its options; none: the first two.
func (q Request) builtBetween(spec, driver string, parts []string) (b betweenMachines, err error) {
	var names, options []string
	for _, part := range parts {
		if strings.Contains(part, "=") {
			options = append(options, part)
		} else {
			names = append(names, part)
		}
	}
	if len(names) == 0 {
		return betweenMachines{pair: firstPair, spec: spec}, nil
	}
	b.spec = driver
	if len(options) > 0 {
		b.spec += ":" + strings.Join(options, ",")
	}
	if b.pair, err = q.pairNamed(spec, names); err != nil {
		return b, err
	}
	if name := strings.ReplaceAll(driver, "+", "-") + "-" + strings.Join(names, "-"); len(name) <= path.MaxName {
		b.name = name // or else it is called as its driver
	}
	return b, nil
}

// pairNamed is two machines by their names.
func (q Request) pairNamed(spec string, names []string) (p pair, err error) {
	refuse := func(why, do string) (pair, error) { return p, verr.New(verr.Usage, "cannot read path "+spec, why, do) }
	driver := driverOf(spec)
	if len(names) != 2 || names[0] == names[1] {
		return refuse(fmt.Sprintf("it names %d machines", len(slices.Compact(slices.Clone(names)))), "name the client's machine and the server's: "+driver+":a,b")
	}
	for i, name := range names {
		if p[i] = machineNamed(q.Remote.Machines, name); p[i] < 0 {
			var known []string
			for _, m := range q.Remote.Machines {
				known = append(known, m.Name)
			}
			return refuse(fmt.Sprintf("there is no machine %q", name), "name two of "+strings.Join(known, ", "))
		}
	}
	if len(q.Remote.Machines) == 2 && p != firstPair {
		return refuse("the client is on the first machine, the server on the second", "name the machines in the other order")
	}
	return p, nil
}

// machineNamed gives the number of a machine; -1: there is none of that name.
func machineNamed(machines []remote.Machine, name string) int {
	return slices.IndexFunc(machines, func(m remote.Machine) bool { return m.Name == name })
}
