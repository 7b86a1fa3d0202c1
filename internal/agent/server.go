package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/venturi-net/venturi/internal/agent/agentpb"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/load/engine"
	"github.com/venturi-net/venturi/internal/meter"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// server answers the calls. It holds at most one series per role.
type server struct {
	agentpb.UnimplementedAgentServer
	options Options // with an engine; nobody changes them

	mu                 sync.Mutex
	closing, abandoned bool
	// namespaces are held open, by the files that they were found at.
	namespaces   map[string]*host.NetnsHandle
	pulse        pulse
	abandon      func()      // ends the agent: nobody speaks to it any more
	unheard      atomic.Bool // and nobody hears what it says
	unlock       func()      // see [Options.Lock]; nil: there is nothing to unlock
	commands     sync.WaitGroup
	interrupts   map[int]context.CancelFunc // of the commands that run, by the order in which they began
	commandCount int                        // since it began
	passive      *passive
	active       *active
}

// passive is a series whose passive ends are here.
type passive struct {
	token  uint64
	ends   engine.GuestServer
	meter  *meter.Recorder
	guests *Guests
	quiet  func() // undoes what was done for its slices
	ending bool   // somebody closes it
}

// active is a series that runs from here.
type active struct {
	token   uint64
	stop    context.CancelCauseFunc
	stopped bool // by Stop, not by the death of the caller
}

func newServer(o Options) *server {
	o.Engine = o.Engine.orLoad()
	return &server{options: o, abandon: func() {}, namespaces: map[string]*host.NetnsHandle{}, interrupts: map[int]context.CancelFunc{}}
}

func (s *server) Version(context.Context, *agentpb.VersionRequest) (*agentpb.VersionReply, error) {
	cpus, err := host.AllowedCPUs()
	if err != nil {
		return nil, err
	}
	return &agentpb.VersionReply{Protocol: Protocol, Venturi: s.options.Version, Machine: s.options.Machine,
		Now: time.Now().UnixNano(), TimeoutScale: int64(host.ScaleTimeout(1)), Cpus: convert(cpus, toInt64)}, nil
}

func (s *server) Facts(_ context.Context, req *agentpb.FactsRequest) (*agentpb.FactsReply, error) {
	spaces := []host.Named{{Name: s.options.Machine}}
	for _, space := range req.GetSpaces() {
		if !isOwn(space.GetPath()) {
			spaces = append(spaces, host.Named{Name: space.GetName(), Path: space.GetPath()})
		}
	}
	facts, problems := host.Reader{}.Facts(s.options.Machine, spaces...)
	b, err := json.Marshal(facts)
	if err != nil {
		return nil, fmt.Errorf("encode facts: %w", err)
	}
	return &agentpb.FactsReply{Facts: b, Missing: convert(problems, error.Error)}, nil
}

// slicesRun makes the agent quiet for a series, until the function that it returns is called.
func (s *server) slicesRun(plan load.Plan) (end func()) {
	restore, endSilence := quietRuntime(), s.pulse.allow(plan)
	return func() { restore(); endSilence() }
}

// Serve opens the passive ends. The same series twice is refused too: its
// ports are taken, and the caller has lost count.
//
// A caller that has given up by the time they are open will not finish them.
func (s *server) Serve(ctx context.Context, req *agentpb.SeriesRequest) (*agentpb.ServeReply, error) {
	plan, err := planFromPB(req.GetPlan())
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil, errEnding
	}
	if s.passive != nil {
		return nil, s.busy("serve", s.passive.token)
	}
	rec, err := s.open(plan, req.GetMeters(), serverSide)
	if err != nil {
		return nil, err
	}
	quiet := s.slicesRun(plan)
	guests := NewGuests(req.GetMeters())
	ends, err := s.options.Engine.Serve(plan, rec, guests)
	if err != nil {
		quiet()
		return nil, errors.Join(err, rec.Close())
	}
	opened := &passive{token: plan.Token, ends: ends, meter: rec, guests: guests, quiet: quiet}
	if ctx.Err() != nil {
		_, err := opened.close()
		return nil, errors.Join(ctx.Err(), err)
	}
	s.passive = opened
	reply := &agentpb.ServeReply{Shut: map[int64]*agentpb.Failure{}}
	for arm, why := range ends.FailedArms() {
		reply.Shut[int64(arm)] = failureToPB(why)
	}
	return reply, nil
}

// Finish closes the passive ends. The lock is not held meanwhile, so that ends
// which do not close cannot keep the agent from ending.
func (s *server) Finish(_ context.Context, req *agentpb.FinishRequest) (*agentpb.FinishReply, error) {
	p := s.take(func(p *passive) bool { return p.token == req.GetToken() })
	if p == nil {
		return nil, verr.New(verr.Failed, "cannot finish a series on "+s.options.Machine,
			fmt.Sprintf("the agent does not serve series %#x", req.GetToken()), "run the command again")
	}
	sums, err := p.close()
	refused := p.ends.Refused()
	s.mu.Lock()
	s.passive = nil
	s.mu.Unlock()
	if err != nil {
		err = fmt.Errorf("close passive ends on %s: %w", s.options.Machine, err)
	}
	return &agentpb.FinishReply{Meters: convert(sums, meterToPB), Failure: failureToPB(err), Refused: refused}, nil
}

// take gives the series that is served to the one caller who will close it,
// nil when there is none or somebody else does. It stays in the way of others
// until it is closed.
func (s *server) take(want func(*passive) bool) *passive {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.passive == nil || s.passive.ending || !want(s.passive) {
		return nil
	}
	s.passive.ending = true
	return s.passive
}

// close ends the traffic first, so that the sums hold the last slice.
func (p *passive) close() ([]result.Meter, error) {
	defer p.quiet()
	err := p.ends.Close()
	sums := append(p.meter.Meters(), p.guests.sums...)
	return sums, errors.Join(err, p.meter.Close())
}

// Run runs the active ends. A caller that goes away ends the series as Stop does.
func (s *server) Run(ctx context.Context, req *agentpb.SeriesRequest) (*agentpb.RunReply, error) {
	s.pulse.start()
	plan, err := planFromPB(req.GetPlan())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a := &active{token: plan.Token, stop: cancel}
	if err := s.begin(a); err != nil {
		return nil, err
	}
	defer s.end()
	rec, err := s.open(plan, req.GetMeters(), clientSide)
	if err != nil {
		return nil, err
	}
	quiet := s.slicesRun(plan)
	guests := NewGuests(req.GetMeters())
	var slices []load.SliceResult
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		slices, err = s.options.Engine.Run(ctx, plan, pauseObserver{rec, ctx, &s.pulse}, guests)
	}()
	if !endsInTime(ctx, ended) {
		go func() { // an agent that lives on must not stay quiet, nor keep what the meters opened
			<-ended
			quiet()
			_ = rec.Close() // nobody waits for what it says
		}()
		return &agentpb.RunReply{Stopped: true, Failure: failureToPB(context.Canceled)}, nil
	}
	quiet()
	sums := append(withoutGuests(rec.Meters(), plan), guests.sums...)
	reply := &agentpb.RunReply{Slices: convert(slices, sliceToPB), Meters: convert(sums, meterToPB)}
	if err = cmp.Or(err, rec.Close()); err != nil {
		reply.Stopped = s.wasStopped(a) && errors.Is(err, context.Canceled)
		reply.Failure = failureToPB(err)
	}
	return reply, nil
}

// abortGrace is how long a series may take to end whose other end is lost. A slice ends at
// once; flows that are being opened wait for answers that do not come.
const abortGrace = 500 * time.Millisecond

// endsInTime waits for the end of a series; false: it was aborted, and still opens its flows.
// There are no slices of it then, and the agent is about to end.
func endsInTime(ctx context.Context, ended <-chan struct{}) bool {
	select {
	case <-ended:
		return true
	case <-ctx.Done():
	}
	if !errors.Is(context.Cause(ctx), engine.ErrAborted) {
		<-ended
		return true
	}
	select {
	case <-ended:
		return true
	case <-time.After(abortGrace):
		return false
	}
}

// Stop ends the series that runs. To stop one that is over is no error: the
// two crossed.
func (s *server) Stop(_ context.Context, req *agentpb.StopRequest) (*agentpb.StopReply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active == nil || s.active.token != req.GetToken() {
		return &agentpb.StopReply{}, nil
	}
	s.active.stopped = true
	if req.GetAbort() {
		s.active.stop(engine.ErrAborted)
	}
	s.active.stop(nil)
	return &agentpb.StopReply{Running: true}, nil
}

func (s *server) begin(a *active) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return errEnding
	}
	if s.active != nil {
		return s.busy("run", s.active.token)
	}
	s.active = a
	return nil
}

func (s *server) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active = nil
}

func (s *server) wasStopped(a *active) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return a.stopped
}

func (s *server) busy(what string, token uint64) error {
	return verr.New(verr.Busy, fmt.Sprintf("cannot %s a series on %s", what, s.options.Machine),
		fmt.Sprintf("its agent still has series %#x", token), "wait for it to end, or end the run that started it")
}

// stopAll ends what runs at its next slice boundary, and lets nothing begin.
func (s *server) stopAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	for _, interrupt := range s.interrupts {
		interrupt()
	}
	if s.active != nil {
		s.active.stopped = true
		if s.abandoned {
			s.active.stop(engine.ErrAborted)
		}
		s.active.stop(nil)
	}
}

// close ends the passive ends that nobody finished. It does not wait for ever:
// the process is about to end, and that closes them too.
func (s *server) close() {
	p := s.take(func(*passive) bool { return true })
	if p == nil {
		return
	}
	closed := make(chan struct{})
	go func() {
		p.close() // what it says is about a series that nobody waits for
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(stopGrace):
	}
}
