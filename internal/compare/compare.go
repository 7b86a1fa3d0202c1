package compare

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/meter"
	"github.com/venturi-net/venturi/internal/remote"
	"github.com/venturi-net/venturi/internal/tool"
	"github.com/venturi-net/venturi/result"
)

// Host is what a comparison needs of the program that it is part of.
type Host struct {
	Version string
	Program []string // starts this very program: agents, daemons of paths
	LabName string   // empty: "compare"
	Watch   Watch
	Owner   *Owner // of the record; nil: who runs the process
}

// Watch is told how things go, beside the events of the run itself.
type Watch interface {
	experiment.Watch
	Say(format string, args ...any) // a step that is not a series
}

// Session is a lab that is up, with the lock held: any number of comparisons
// can be made in it, one after the other.
type Session struct {
	host   Host
	lab    *lab.Lab
	unlock func()
	agents [2]*agent.Client
	// remote machines were not raised, and are not taken down; streams lead to them.
	remote  bool
	streams [2]*remote.Stream
	live    *agent.Liveness
	// emulated are the arms with an end in a virtual machine whose CPU is.
	emulated map[string]bool
}

// Do carries one comparison out and returns its record and the file that holds
// it. With an error there may still be a record: of what was measured until then.
func Do(ctx context.Context, q Request, h Host) (rec *result.Record, file string, err error) {
	q = q.withDefaults()
	if err := q.Check(); err != nil {
		return nil, "", err
	}
	out, err := createRecord(q.Out, h.Owner)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, out.close(rec)) }()
	s, err := Open(ctx, q, h)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	rec, err = s.Compare(ctx, q, out.write)
	return rec, out.path, err
}

// Check refuses whatever can be refused before anything is changed.
func (q Request) Check() error {
	o, err := q.planned()
	if err != nil {
		return err
	}
	if len(q.Remote.Machines) > 0 {
		return q.withDefaults().checkMachines()
	}
	if err := q.withDefaults().checkThreads(); err != nil {
		return err
	}
	return o.Check()
}

// CheckAnywhere refuses what can be refused whatever the kernel that it is to run
// under.
func (q Request) CheckAnywhere() error {
	o, err := q.planned()
	if err != nil {
		return err
	}
	return o.CheckAnywhere()
}

// planned is the lab of a request that has a plan.
func (q Request) planned() (lab.Options, error) {
	q = q.withDefaults()
	if _, err := q.Plan(); err != nil {
		return lab.Options{}, err
	}
	return q.labOptions(Host{})
}

func (q Request) armCount() int {
	n := len(q.Paths) + len(q.Tools)
	if q.hasCopy() {
		n++
	}
	return n
}

// hasCopy tells whether the first path gets a copy, for the noise floor. A real
// tool's run has none: its question is agreement, which needs no floor.
func (q Request) hasCopy() bool { return !q.NoCopy && len(q.Tools) == 0 }

func (q Request) labOptions(h Host) (lab.Options, error) {
	o := lab.Options{Name: h.LabName, Paths: q.Paths, Names: q.Names, Hosts: q.Hosts, Services: q.Services, Program: h.Program}
	if len(h.Program) > 0 {
		o.AgentCommand = append(slices.Clone(h.Program), "agent")
	}
	orElse(&o.Name, "compare")
	var err error
	o.Wire, err = lab.ParseWire(q.Wire)
	return o, err
}

// Open takes the lock, raises the lab with the request's paths, and connects to the agents.
func Open(ctx context.Context, q Request, h Host) (*Session, error) {
	q = q.withDefaults()
	if len(q.Remote.Machines) > 0 {
		return openMachines(ctx, q, h)
	}
	o, err := q.labOptions(h)
	if err != nil {
		return nil, err
	}
	s := &Session{host: h}
	unlock, err := lab.LockMeasure(ctx, q.Wait, strings.Join(q.Command, " "), func(held lab.Holder) {
		h.Watch.Say("waiting for %s", held)
	})
	if err != nil {
		return nil, err
	}
	s.unlock = unlock
	h.Watch.Say("raising %d machines with %s", max(q.Hosts, lab.DefaultHosts), strings.Join(q.Paths, ", "))
	if s.lab, err = lab.Up(ctx, o); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	for i := range s.agents {
		if s.agents[i], err = agent.Dial(ctx, s.lab.Machines[i].Socket); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	if s.emulated, err = emulated(ctx, s.lab); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close takes the lab down and gives the lock back.
func (s *Session) Close() (err error) {
	if s.live != nil {
		s.live.Close()
	}
	for _, a := range s.agents {
		if a != nil {
			err = errors.Join(err, a.Close())
		}
	}
	var closing sync.WaitGroup
	for _, stream := range s.streams {
		if stream != nil {
			closing.Go(func() { _ = stream.Close() }) // it is over, however ssh ends
		}
	}
	closing.Wait()
	if s.lab != nil && !s.remote {
		err = errors.Join(err, s.lab.Down())
	}
	if s.unlock != nil {
		s.unlock()
	}
	return err
}

// Compare makes one comparison in the lab that is up. The request's paths must
// be those that the session was opened with.
func (s *Session) Compare(ctx context.Context, q Request, write func(result.Line) error) (*result.Record, error) {
	q = q.withDefaults()
	if err := q.check(); err != nil {
		return nil, err
	}
	arms, ends := s.arms(q)
	plan, err := q.plan(arms)
	if err != nil {
		return nil, err
	}
	plan.Wire = s.lab.Wire
	serverMeters := []string{"tcp", "udp", "links", "accel"} // both agents see the same cores: one counts them
	if s.remote {
		plan.SharedCores, serverMeters = false, meter.Names()
		plan.ClientCPU, plan.ServerCPU = s.cpus()
	}
	rec := &result.Record{}
	add := func(l result.Line) error {
		rec.Add(l)
		if err := write(l); err != nil {
			return fmt.Errorf("%w: %w", experiment.ErrRecord, err)
		}
		return nil
	}
	if err := s.preamble(ctx, q, plan, add); err != nil {
		return rec, err
	}
	own := rec.Facts[0] // of the client's machine
	if !s.remote {
		for _, w := range congestionWarnings(plan, ends, q.Tools, own.Sysctls) {
			if err := add(result.Line{Warning: &w}); err != nil {
				return rec, recordError(err)
			}
		}
	}
	run := experiment.Run{
		Plan: &rec.Plan, Ends: ends, Client: s.agents[0], Server: s.agents[1],
		Write: write, Watch: s.host.Watch, Tools: tools(q.Tools),
		DaemonExit:    func(arm int) error { return s.lab.DaemonExit(strings.TrimSuffix(arms[arm].Name, copySuffix)) },
		FinalWarnings: func() []result.Warning { return fastPathWarnings(s.lab) },
		ClientMeters:  meter.Names(), ServerMeters: serverMeters, Congestion: own.Congestion,
	}
	if plan.Precision > 0 {
		run.StopRule = func(rec *result.Record) (bool, error) {
			sum, err := analysis.Analyze(rec, analysis.Options{Live: true})
			return err == nil && sum.Stop, err
		}
	}
	return rec, recordError(run.Do(ctx, rec))
}

// arms pairs the plan's arms with the lab's ends.
func (s *Session) arms(q Request) ([]result.Arm, []experiment.Ends) {
	var paths []result.Arm
	var lead []experiment.Ends // where each path leads
	for i, a := range s.lab.Arms {
		arm := result.Arm{
			Name: a.Name, Path: a.Path, Options: a.Options, MTU: a.Client().MTU, Overhead: a.Overhead,
			From: a.Client().Addr.String(), To: a.Server().Addr.String(), Versions: a.Versions,
			Emulated: s.emulated[a.Name],
		}
		if n := len(a.Ends[0]); n > 1 {
			arm.Pairs = n
		}
		paths = append(paths, arm)
		e := experiment.Ends{
			Spin: q.Spin[i],
		}
		if !s.remote {
			e.ClientNetns, e.ServerNetns = crossed(s.lab.Machines[0], a.Name), crossed(s.lab.Machines[1], a.Name)
		}
		if len(a.Pins) > 1 {
			e.ClientPins, e.ServerPins = a.Pins[0], a.Pins[1]
		}
		for n, from := range a.Ends[0] {
			e.Pairs = append(e.Pairs, load.Pair{From: from, To: a.Ends[1][n]})
		}
		lead = append(lead, e)
	}
	arms, of := q.withRoles(paths)
	ends := make([]experiment.Ends, len(arms))
	for i, path := range of {
		ends[i] = lead[path]
	}
	return arms, ends
}

// preamble writes header, plan and the facts of both machines, with warnings of
// what of them could not be read.
func (s *Session) preamble(ctx context.Context, q Request, plan *result.Plan, add func(result.Line) error) error {
	header := result.Header{Format: result.Format, Version: result.Version, Venturi: s.host.Version,
		Started: time.Now(), Command: q.Command}
	if err := add(result.Line{Header: &header}); err != nil {
		return recordError(err)
	}
	if err := add(result.Line{Plan: plan}); err != nil {
		return recordError(err)
	}
	for i := range s.agents {
		m := s.lab.Machines[i]
		facts, warnings, err := s.agents[i].Facts(ctx, append(m.Namespaces()[1:], m.Attached...))
		if err != nil {
			return err
		}
		facts.Machine = m.Name
		if facts.Versions == nil {
			facts.Versions = map[string]string{}
		}
		facts.Versions["venturi"], facts.Versions["go"] = s.host.Version, runtime.Version()
		for _, name := range q.Tools {
			if t, err := tool.Find(name); err == nil {
				facts.Versions[name], _ = t.Version(ctx) // one that does not tell is still a tool
			}
		}
		if err := add(result.Line{Facts: &facts}); err != nil {
			return recordError(err)
		}
		for _, w := range warnings {
			if err := add(result.Line{Warning: &w}); err != nil {
				return recordError(err)
			}
		}
	}
	if plan.SharedCores && plan.ClientCPU == plan.ServerCPU {
		w := result.Warning{Code: "one-core", Text: "client and server share one core: latency lacks the wake-up of another core"}
		return recordError(add(result.Line{Warning: &w}))
	}
	return nil
}
