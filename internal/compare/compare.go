package compare

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/meter"
	"github.com/venturi-net/venturi/internal/tool"
	"github.com/venturi-net/venturi/internal/verr"
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

// Session is a testbed that is up, with the lock held: any number of comparisons
// can be made on it, one after the other.
type Session struct {
	host      Host
	testbed   testbed
	lab       *lab.Lab      // nil: real machines
	wire      string        // that of a lab
	machines  []testMachine // the client's and the server's first
	paths     []testPath    // as the request orders them
	clients   *clientGroup  // nil: the first machine's agent has all of them
	servers   *serverGroup  // nil: the second machine's agent has all of them
	meters    []string      // that may be read; nil: all
	inCluster bool          // the machines are nodes
	// sharedCores tells that both machines are namespaces of this host.
	sharedCores bool
}

// Do carries one comparison out and returns its record and the file that holds
// it. With an error there may still be a record: of what was measured until then.
func Do(ctx context.Context, r *Resolved, h Host) (rec *result.Record, file string, err error) {
	if err := r.Check(); err != nil {
		return nil, "", err
	}
	out, err := createRecord(r.Out, h.Owner)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, out.close(rec)) }()
	s, err := Open(ctx, r, h)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	rec, err = s.Compare(ctx, r, out.write)
	return rec, out.path, err
}

// Open makes ready what the request is to be measured on: it takes the lock,
// raises a lab with the request's paths or reaches the machines, and connects to
// the agents. Where all paths are there already no lab is raised.
func Open(ctx context.Context, r *Resolved, h Host) (*Session, error) {
	if r.cluster != nil {
		return openCluster(ctx, r, h)
	}
	if r.onMachines() {
		return openMachines(ctx, r, h)
	}
	if r.withoutLab {
		return openFound(ctx, r, h)
	}
	return openLab(ctx, r, h)
}

// OpenRequest resolves a request, refuses what cannot be carried out here, and opens what
// it is to be measured on.
func OpenRequest(ctx context.Context, q Request, h Host) (*Session, *Resolved, error) {
	r, err := q.Resolve()
	if err == nil {
		err = r.Check()
	}
	if err != nil {
		return nil, nil, err
	}
	s, err := Open(ctx, r, h)
	return s, r, err
}

// Close takes down what was raised, and releases the lock.
func (s *Session) Close() error { return s.testbed.close() }

// Compare makes one comparison. The request's paths must be those that the
// session was opened with.
func (s *Session) Compare(ctx context.Context, r *Resolved, write func(result.Line) error) (rec *result.Record, err error) {
	defer func() { err = recordError(err) }()
	plan, ends, err := s.plan(r)
	if err != nil {
		return nil, err
	}
	other, err := s.otherCPUs(plan)
	if err != nil {
		return nil, err
	}
	threadCPUs := s.threadCPUs(plan, other)
	rec = &result.Record{}
	add := func(l result.Line) error {
		rec.Add(l)
		if err := write(l); err != nil {
			return fmt.Errorf("%w: %w", experiment.ErrRecord, err)
		}
		return nil
	}
	if err := s.preamble(ctx, r, plan, ends, threadCPUs, add); err != nil {
		return rec, err
	}
	clientMeters, serverMeters := s.meterNames()
	run := experiment.Run{
		Plan: &rec.Plan, Ends: ends, Client: s.client(), Server: s.server(serverMeters),
		Write: write, Watch: s.host.Watch, Tools: tools(r.tools, plan.Cores),
		DaemonExit:    func(arm int) error { return s.testbed.daemonExit(strings.TrimSuffix(plan.Arms[arm].Name, copySuffix)) },
		FinalWarnings: func() []result.Warning { return append(s.testbed.warnings(), s.strangers()...) },
		ClientMeters:  clientMeters, ServerMeters: serverMeters, Congestion: rec.Facts[0].Congestion,
		OtherCPUs: other, ThreadCPUs: threadCPUs,
	}
	if plan.Precision > 0 || plan.UntilDecided {
		run.StopRule = openCells
	}
	err = run.Do(ctx, rec)
	if s.lab == nil && len(rec.Slices) > 0 {
		err = s.lostMachine(err)
	}
	return rec, err
}

// meterNames are the meters that the agents of both machines read.
func (s *Session) meterNames() (client, server []string) {
	switch {
	case s.meters != nil:
		return s.meters, s.meters
	case s.sharedCores: // both agents see the same cores: one counts them
		return meter.Names(), meter.NamesOf(meter.Namespace, meter.FastPath)
	}
	return meter.Names(), meter.Names()
}

// lostMachine makes the error of a machine that was lost on the way one of a run that is
// partly there; any other it gives back, and so one that says so itself.
func (s *Session) lostMachine(err error) error {
	var lost *verr.Error
	if !agent.IsGone(err) || !errors.As(err, &lost) || lost.Code == verr.Partial {
		return err
	}
	partly := *lost
	partly.Code = verr.Partial
	if s.inCluster {
		partly.Hint = "what was measured until then is reported; see whether the API server, through which the channel passes, and the node are up, and run the command again"
		return &partly
	}
	partly.Hint = "what was measured until then is reported; see whether the machine is up, and run the command again. " +
		"Venturi ends there by itself when it has heard nothing for four seconds"
	return &partly
}

// strangers warns of what reached the data ports and was not of this run.
func (s *Session) strangers() (out []result.Warning) {
	for _, m := range s.machines {
		if n := m.agent.Refused(); n > 0 {
			out = append(out, result.Warning{Code: "refused", Text: fmt.Sprintf(
				"%s refused %d connections and datagrams at its data ports that were not of this run", m.name, n)})
		}
	}
	return out
}

// openCells are the cells that are to be measured on.
func openCells(rec *result.Record) ([]string, error) {
	sum, err := analysis.Analyze(rec, analysis.Options{Live: true})
	switch {
	case err != nil:
		return nil, err
	case rec.Plan.UntilDecided:
		return sum.Undecided(), nil
	case sum.Stop:
		return nil, nil
	}
	var all []string
	for _, c := range rec.Plan.Cells {
		all = append(all, c.Name)
	}
	return all, nil
}

// plan completes the plan of a request by what the testbed tells, and pairs its
// arms with the ends of their paths.
func (s *Session) plan(r *Resolved) (*result.Plan, []experiment.Ends, error) {
	if len(r.arms) != len(s.paths) {
		return nil, nil, fmt.Errorf("compare %d paths on a testbed that has %d", len(r.arms), len(s.paths))
	}
	p := r.Plan()
	p.Wire, p.SharedCores = s.wire, s.sharedCores
	p.ClientCPU, p.ServerCPU = s.machines[0].cpu, s.machines[1].cpu
	ends := make([]experiment.Ends, len(p.Arms))
	for i, planned := range p.Arms {
		path := s.paths[r.pathOf[i]]
		p.Arms[i] = path.arm
		p.Arms[i].Name, p.Arms[i].Path, p.Arms[i].Role = planned.Name, planned.Path, planned.Role
		ends[i] = path.ends
		ends[i].Spin = r.spin[r.pathOf[i]]
	}
	return p, ends, nil
}

// machineFacts are those of one machine, and what of them could not be read.
type machineFacts struct {
	result.Facts
	unread []string
}

// readFacts asks all machines at the same time: each may take a second.
func (s *Session) readFacts(ctx context.Context) ([]machineFacts, error) {
	read := make([]machineFacts, len(s.machines))
	g, ctx := errgroup.WithContext(ctx)
	for i, m := range s.machines {
		g.Go(func() (err error) {
			read[i].Facts, read[i].unread, err = m.agent.Facts(ctx, m.namespaces)
			return err
		})
	}
	return read, g.Wait()
}

// preamble writes header, plan, the facts of all machines, and warnings of what in them a
// reader of the figures has to know.
func (s *Session) preamble(ctx context.Context, r *Resolved, plan *result.Plan, ends []experiment.Ends, threadCPUs [2][]int, add func(result.Line) error) error {
	header := result.Header{Format: result.Format, Version: result.Version, Venturi: s.host.Version,
		Started: time.Now(), Command: r.Command}
	if err := add(result.Line{Header: &header}); err != nil {
		return err
	}
	if err := add(result.Line{Plan: plan}); err != nil {
		return err
	}
	var missing missingFacts
	read, err := s.readFacts(ctx)
	if err != nil {
		return err
	}
	for i, m := range s.machines {
		facts := read[i].Facts
		missing.add(m.name, read[i].unread)
		facts.Machine = m.name
		if s.lab == nil {
			facts.ClockAhead = m.agent.ClockOffset().Nanoseconds()
		}
		if facts.Versions == nil {
			facts.Versions = map[string]string{}
		}
		facts.Versions["venturi"], facts.Versions["go"] = s.host.Version, runtime.Version()
		for _, name := range r.tools {
			if t, err := tool.Find(name); err == nil {
				facts.Versions[name], _ = t.Version(ctx) // one that does not tell is still a tool
			}
		}
		if err := add(result.Line{Facts: &facts}); err != nil {
			return err
		}
	}
	warnings := slices.Concat(missing.warnings(), s.unconfined(), s.fewCores(plan, threadCPUs), fastPathOnWire(plan, ends))
	if plan.SharedCores && plan.ClientCPU == plan.ServerCPU {
		warnings = append(warnings, result.Warning{Code: "one-core", Text: "client and server share one core: latency lacks the wake-up of another core"})
	}
	if s.lab != nil {
		warnings = append(warnings, congestionWarnings(plan, ends, r.tools, read[0].Sysctls)...)
	}
	for _, w := range warnings {
		if err := add(result.Line{Warning: &w}); err != nil {
			return err
		}
	}
	return nil
}
