package compare

import (
	"cmp"
	"slices"
	"time"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/internal/remote"
	"github.com/venturi-net/venturi/internal/tool"
	"github.com/venturi-net/venturi/result"
)

// Resolved is a request in which nothing is left open: it has been checked, and
// each default has its value. All steps of a comparison take it, and only
// [Request.Resolve] makes it.
type Resolved struct {
	Paths   []string // the baseline first
	Out     string   // folder for the record; empty: a new one
	Wait    bool     // for another run that measures
	Command []string

	plan   result.Plan // but for what the testbed tells: addresses, and the wire
	pathOf []int       // by the plan's arms: whose ends it has
	arms   []path.Arm  // one a path
	spin   map[int]time.Duration
	tools  []string

	lab     lab.Options // of a lab; its name and programs are the caller's
	cluster *Cluster
	// servicePorts is how many ports the Services of a cluster need.
	servicePorts int
	machines     []remote.Machine
	reach        remote.Options
	// locations are where the ends of each path are on real machines.
	locations [][2]agent.Location
	pairs     []pair // of each path
	// withoutLab tells that all paths are there already, on this host: no lab is raised.
	withoutLab bool
	spread     *spread // what is built on their network cards; nil: nothing
}

// Resolve fills in what the request leaves open, and refuses what makes no
// sense. Of this machine it asks which cores there are, which of the named tools,
// and what a path leaves for it to choose (datapath=auto); whether it can carry
// the comparison out, [Resolved.Check] tells.
func (q Request) Resolve() (*Resolved, error) {
	if q.Cluster != nil {
		paths, err := q.Cluster.Options.Paths(q.Paths)
		if err != nil {
			return nil, err
		}
		if !q.NoHost {
			q.Paths = paths
		}
	}
	q = q.withDefaults()
	if err := q.check(); err != nil {
		return nil, err
	}
	if q.Cluster != nil {
		if err := q.Cluster.Access.Check(); err != nil {
			return nil, err
		}
		if err := q.Cluster.Options.Check(); err != nil {
			return nil, err
		}
	}
	r := &Resolved{
		Paths: q.Paths, Out: q.Out, Wait: q.Wait, Command: q.Command, spin: q.Spin, tools: q.toolNames(),
		lab:     lab.Options{Paths: q.Paths, Names: q.Names, Hosts: q.Hosts, Services: q.Services},
		cluster: q.Cluster, machines: q.Remote.Machines, reach: q.Remote.Options,
	}
	between, err := q.parsePairs()
	if err != nil {
		return nil, err
	}
	if r.arms, err = q.pathArms(between); err != nil {
		return nil, err
	}
	if r.plan, r.pathOf, err = q.plan(r.arms); err != nil {
		return nil, err
	}
	if r.lab.Wire, err = lab.ParseWire(q.Wire); err != nil {
		return nil, err
	}
	if r.lab.Cores, err = lab.ParseCores(q.Cores); err != nil {
		return nil, err
	}
	if err := q.checkCores(r.lab.Cores); err != nil {
		return nil, err
	}
	r.confine(r.lab.Cores)
	for _, b := range between {
		r.pairs = append(r.pairs, b.pair)
	}
	if r.withoutLab = r.cluster == nil && q.foundHere(); r.withoutLab {
		r.locations, err = q.locations(r.arms, between)
	}
	if r.cluster != nil {
		r.servicePorts, err = servicePorts(r.plan, r.Paths)
	} else if r.onMachines() {
		if r.locations, err = q.resolveMachines(r.arms, between); err == nil && q.Remote.Dev != "" {
			r.spread, err = q.resolveSpread(r.arms, between)
		}
	}
	return r, err
}

// onMachines tells that real machines are measured, and not a lab.
func (r *Resolved) onMachines() bool { return len(r.machines) > 0 || r.cluster != nil }

// Plan lays the run out as it would be carried out, but for what only a testbed
// can tell: the arms have names and paths, and no addresses.
func (r *Resolved) Plan() *result.Plan {
	p := r.plan
	p.Arms = slices.Clone(p.Arms)
	return &p
}

// Plan is that of the resolved request.
func (q Request) Plan() (*result.Plan, error) {
	r, err := q.Resolve()
	if err != nil {
		return nil, err
	}
	return r.Plan(), nil
}

// Check refuses what cannot be carried out here, and changes nothing.
func (r *Resolved) Check() error {
	if r.onMachines() {
		return nil // they are asked when they are reached
	}
	for _, name := range r.tools {
		t, err := tool.Find(name)
		if err == nil {
			err = t.Installed()
		}
		if err != nil {
			return err
		}
	}
	if err := r.checkThreads(); err != nil {
		return err
	}
	return r.lab.Check()
}

// CheckAnywhere refuses what cannot be carried out under any kernel.
func (r *Resolved) CheckAnywhere() error { return r.lab.CheckAnywhere() }

// labOptions are those of the lab, for one who raises it.
func (r *Resolved) labOptions(h Host) lab.Options {
	o := r.lab
	o.Name, o.Program = h.LabName, h.Program
	o.Name = cmp.Or(o.Name, "compare")
	if len(h.Program) > 0 {
		o.AgentCommand = append(slices.Clone(h.Program), "agent")
	}
	return o
}
