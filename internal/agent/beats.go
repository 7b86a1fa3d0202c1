package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/venturi-net/venturi/internal/agent/agentpb"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/verr"
)

// Between machines a channel may die without a word: a cable is drawn, a machine loses
// its power. Each end then finds out by itself.
var (
	beatEvery = time.Second                        // between two calls, and at most so often a pause
	answerBy  = host.ScaleTimeout(3 * time.Second) // after a call; a line may stall for two seconds
	deadAfter = host.ScaleTimeout(4 * time.Second) // an agent that hears nothing ends
	// sliceSlack is how much longer than planned a slice may take before the client's agent
	// is called: with that the call does not fall into a slice of a path that works.
	sliceSlack = host.ScaleTimeout(300 * time.Millisecond)
)

// perArm is how long an arm may take to be opened and warmed up, beside [perEnd].
const perArm = 200 * time.Millisecond

// openingTime bounds how long a series is silent before its first slice.
func openingTime(p load.Plan) time.Duration {
	return forEnds(endsOf(p)) + host.ScaleTimeout(time.Duration(len(p.Arms))*perArm)
}

// sliceTime bounds how long it is silent between two slices.
func sliceTime(p load.Plan) time.Duration {
	return p.LongestSlice() + sliceSlack + host.ScaleTimeout(time.Duration(p.Flows)*perFlow)
}

// perFlow is how long a flow may take to begin and end a slice.
const perFlow = 2 * time.Millisecond

// Liveness keeps agents and their controller sure of each other.
type Liveness struct {
	mu        sync.Mutex
	idle      sync.Cond     // no call is under way
	awaited   time.Duration // for how long somebody has waited for that, the last time
	speaking  sync.Mutex    // held while agents are called between slices, until these go on
	running   bool          // a series runs, or is about to: the client's agent says when to speak
	calls     int           // that are under way
	token     uint64        // of the series
	silence   time.Duration // for how long agents may not be called, since slices run; 0: none runs
	measuring bool          // the ends are of one measurement
	onLoss    func()        // ends the series that the controller drives; nil: none runs
	called    time.Time     // all agents but those that still were, for the last time
	ends      []*agentBeats // the client's agent first, the servers' behind it
	cancel    context.CancelFunc
}

// agentBeats is the controller's side of one agent's beats.
type agentBeats struct {
	client  *Client
	called  bool // in [Liveness.callIdle]
	stream  agentpb.Agent_BeatsClient
	answer  chan struct{}
	calling sync.Mutex // an answer is of one call
	sending sync.Mutex // a stream takes one message at a time
	mu      sync.Mutex
	last    time.Time     // when it was heard, or may be silent from
	rtt     time.Duration // of the last call
}

func (b *agentBeats) send(beat *agentpb.Beat) error {
	b.sending.Lock()
	defer b.sending.Unlock()
	return b.stream.Send(beat)
}

// Watch begins to call the agents of a measurement, the client's and those of servers, about
// once a second. One that does not answer is hung up on, so that calls to it fail. End it
// with Close.
func Watch(ctx context.Context, client *Client, servers ...*Client) (*Liveness, error) {
	l, err := WatchEach(ctx, slices.Insert(slices.Clone(servers), 0, client)...)
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.measuring, client.liveness = true, l
	}
	return l, err
}

// WatchEach is Watch for agents between which nothing is measured: the loss of one is no
// concern of the others.
func WatchEach(ctx context.Context, agents ...*Client) (*Liveness, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l := &Liveness{cancel: cancel, called: time.Now()}
	l.idle.L = &l.mu
	for _, c := range agents {
		stream, err := c.api.Beats(ctx)
		if err != nil {
			cancel()
			for _, b := range l.ends {
				close(b.client.beatsEnded)
			}
			return nil, fromStatus(c.machine, err)
		}
		c.beatsEnded = make(chan struct{})
		l.ends = append(l.ends, &agentBeats{client: c, stream: stream, last: time.Now(), answer: make(chan struct{}, mostAnswers)})
	}
	for _, b := range l.ends {
		go l.listen(b)
	}
	go l.callEvery(ctx)
	return l, nil
}

// Close ends the calls.
func (l *Liveness) Close() { l.cancel() }

// begin keeps the channel silent but for pauses, until the function that it returns is
// called: a series runs.
func (l *Liveness) begin(ctx context.Context, plan load.Plan) (end func()) {
	if l == nil {
		return func() {}
	}
	l.mu.Lock()
	l.token = plan.Token
	l.mu.Unlock()
	// Flows may take longer to open: then agents are called meanwhile, which is beside no slice,
	// because the client's agent pauses before the first one.
	end = l.fallSilent(ctx, sliceTime(plan), nil)
	l.ends[0].markSilent()
	return end
}

// fallSilent ends the calls of agents until the function that it returns is called: slices run,
// between two of which nobody is heard for longest. Agents that were not called for a while are
// called before: one that has no part in many short series would hear nothing. So they are if the
// silence may be long, to be told of it. onLoss ends a series that the controller drives.
func (l *Liveness) fallSilent(ctx context.Context, longest time.Duration, onLoss func()) (end func()) {
	l.mu.Lock()
	l.running, l.silence, l.onLoss = true, l.timeoutScale()*longest, onLoss
	l.awaitAnswers()
	// A shorter one ends, with the second before the last call and one of grace, before agents give up.
	long := l.silence > 3*beatEvery/2
	l.ends[0].markHeard()
	l.mu.Unlock()
	l.speaking.Lock() // answers to a call of the series before pass beside no slice
	if long || l.isDue() {
		l.callAll(ctx)
		l.ends[0].markHeard()
	}
	l.speaking.Unlock()
	l.endIfLost()
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.running, l.silence, l.onLoss = false, 0, nil
	}
}

// callEvery calls the agents while no series runs, and the others while one waits for the answers of some, so
// that they do not take the controller for dead. It watches over the silence of a series that runs.
func (l *Liveness) callEvery(ctx context.Context) {
	const looks = 5 // at a series, while no more than one call is made
	tick := time.NewTicker(beatEvery / looks)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		l.mu.Lock()
		l.awaited += beatEvery / looks // not more where this machine was held up: see ask
		running, limit := l.running && l.calls == 0, beatEvery+l.silence
		if (!l.running || l.isAwaited()) && time.Since(l.called) >= beatEvery {
			l.callIdle(ctx)
		}
		l.mu.Unlock()
		if !running || !l.speaking.TryLock() {
			continue
		}
		if l.ends[0].silence() <= limit {
			l.speaking.Unlock()
			continue
		}
		go func() { // a slice takes longer than any should: who is it?
			defer l.speaking.Unlock()
			l.callAll(ctx)
			l.ends[0].markHeard() // one that is lost is asked no more often
		}()
	}
}

// isAwaited tells whether agents are to be called again while others are awaited. That ends with the time that an
// answer may take: of several slow lines, one may always be about to answer.
func (l *Liveness) isAwaited() bool {
	return l.calls > 0 && l.awaited < l.timeoutScale()*answerBy
}

// isDue tells whether agents were not called for so long that they should be.
func (l *Liveness) isDue() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.called) >= beatEvery
}

// callIdle begins to call each agent that is not being called: a slow one must not keep
// the other waiting.
func (l *Liveness) callIdle(ctx context.Context) {
	l.called = time.Now()
	silence := l.silence
	for _, b := range l.ends {
		if b.called {
			continue
		}
		b.called = true
		l.calls++
		go func() {
			b.probe(ctx, silence)
			l.endIfLost()
			l.mu.Lock()
			defer l.mu.Unlock()
			b.called = false
			l.calls--
			l.idle.Broadcast()
		}()
	}
}

// callAll calls all agents, and waits for their answers.
func (l *Liveness) callAll(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.callIdle(ctx)
	l.awaitAnswers()
}

// awaitAnswers waits until no call is under way. Meanwhile [Liveness.callEvery] calls those again that have answered:
// their own lines may stall next, and an agent whose CPU is emulated may take longer than they bear silence.
func (l *Liveness) awaitAnswers() {
	l.awaited = 0
	for l.calls > 0 {
		l.idle.Wait()
	}
}

// endIfLost ends the series one of whose servers' agents is lost. What was measured of it is
// there.
func (l *Liveness) endIfLost() {
	l.mu.Lock()
	measuring, token, onLoss := l.measuring, l.token, l.onLoss
	l.mu.Unlock()
	if onLoss != nil && l.lostAgent() != nil {
		onLoss()
	}
	if !measuring {
		return
	}
	client := l.ends[0].client
	for _, server := range l.ends[1:] {
		if why := server.client.lost.Load(); why != nil {
			client.lose(why)
			go func() {
				_, _ = client.api.Stop(l.ends[0].stream.Context(), &agentpb.StopRequest{Token: token, Abort: true}) // one that is over is no error
			}()
			return
		}
	}
}

// listen hears an agent until its channel ends.
func (l *Liveness) listen(b *agentBeats) {
	defer close(b.client.beatsEnded)
	for {
		beat, err := b.stream.Recv()
		if err != nil {
			l.end(b, err)
			return
		}
		b.markHeard()
		switch beat.GetKind() {
		case agentpb.Beat_ANSWER:
			select {
			case b.answer <- struct{}{}:
			default:
			}
		case agentpb.Beat_PAUSE:
			go l.usePause(b) // meanwhile it may have to answer
		}
	}
}

// end notes why an agent has ended, if it says so.
func (l *Liveness) end(b *agentBeats, err error) {
	var told *verr.Error
	if err = fromStatus(b.client.machine, err); IsGone(err) || !errors.As(err, &told) {
		return
	}
	why := *told
	why.Summary, why.Err = why.Summary+" on machine "+b.client.machine, errGone
	b.client.lose(&why)
	l.endIfLost()
}

// usePause calls all agents, if it is time, while that of a client pauses. Slices go on when nobody has
// an answer to send any more.
func (l *Liveness) usePause(client *agentBeats) {
	l.speaking.Lock()
	defer l.speaking.Unlock()
	if l.isDue() { // another client may have paused just before
		l.callAll(client.stream.Context())
	}
	_ = client.send(&agentpb.Beat{Kind: agentpb.Beat_GO}) // an error shows in the series
	client.markSilent()
}

// markSilent notes that the agent has no reason to speak from now on: slices run. The message
// that says so and the next one that comes back take a round trip; a call that took more than a
// second met a stall.
func (b *agentBeats) markSilent() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = time.Now().Add(min(b.rtt, beatEvery))
}

func (b *agentBeats) markHeard() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = time.Now()
}

// probe asks an agent whether it is there, and hangs up on one that does not say so. It may be silent
// for so long after it, since slices run; 0: none does.
func (b *agentBeats) probe(ctx context.Context, silence time.Duration) {
	b.calling.Lock()
	defer b.calling.Unlock()
	for len(b.answer) > 0 { // late, of a call before
		<-b.answer
	}
	called := time.Now()
	switch err := ask(ctx, func() error {
		return b.send(&agentpb.Beat{Kind: agentpb.Beat_CALL, SilenceNs: silence.Nanoseconds()})
	}, b.answer, b.client.timeoutScale*answerBy, time.After); {
	case errors.Is(err, errUnanswered):
		b.hangUp(b.unanswered())
	case err != nil:
		b.hangUp("the channel to it has ended")
	default:
		b.mu.Lock()
		defer b.mu.Unlock()
		b.rtt = time.Since(called)
	}
}

func (b *agentBeats) silence() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Since(b.last)
}

// unanswered says what a call without an answer looked like.
func (b *agentBeats) unanswered() string {
	c := b.client
	why := fmt.Sprintf("it did not answer within %v", c.timeoutScale*answerBy)
	if silence := b.silence().Round(time.Second); silence > c.timeoutScale*answerBy {
		why += fmt.Sprintf(", and nothing was heard of it for %v", silence)
	}
	if c.timeoutScale > 1 {
		why += ", the limit for a machine whose CPU is emulated"
	}
	return why
}

// hangUp makes all calls to the agent fail, for this reason.
func (b *agentBeats) hangUp(why string) {
	c := b.client
	c.lose(lostError(c.machine, why))
	c.kill()
	go func() { _ = c.conn.Close() }() // it waits for a line that may have stalled
}

// lose notes why nothing more is to be had of an agent; the first reason counts.
func (c *Client) lose(why *verr.Error) { c.lost.CompareAndSwap(nil, why) }
