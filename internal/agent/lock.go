package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/venturi-net/venturi/internal/agent/agentpb"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/verr"
)

// LockOptions say for whom machines are locked.
type LockOptions struct {
	Command string                           // what to tell others
	Wait    bool                             // while others measure; false: that is an error, of code Busy
	Say     func(format string, args ...any) // told for whom it waits
}

// LockAll makes sure that nobody else measures on the agents' machines for as long as the channels live: on all of
// them, or none stays locked. Errors are for people.
func LockAll(ctx context.Context, clients []*Client, o LockOptions) error {
	l := newLocking(clients, o)
	l.needsAll = true
	l.lock(ctx)
	err := l.err()
	if err != nil {
		l.release(ctx)
	}
	return err
}

// LockEach is [LockAll] for a run that goes on without the machines that cannot be locked. It gives the errors of
// these, by client.
func LockEach(ctx context.Context, clients []*Client, o LockOptions) []error {
	l := newLocking(clients, o)
	l.lock(ctx)
	return l.errs
}

// locking locks machines for a run. It waits for none of them while it has another: of two runs over the same
// machines, each would wait for what the other one has, for ever. And it waits in an agent: to ask again and again
// would disturb what is measured there.
type locking struct {
	LockOptions
	clients  []*Client
	needsAll bool     // a machine that cannot be locked ends it, but for one that another run has
	locked   []bool   // by client
	errs     []error  // by client, why its machine is not locked
	holders  []string // by client, of whom Say was told
}

func newLocking(clients []*Client, o LockOptions) *locking {
	n := len(clients)
	return &locking{LockOptions: o, clients: clients,
		locked: make([]bool, n), errs: make([]error, n), holders: make([]string, n)}
}

func (l *locking) lock(ctx context.Context) {
	l.lockRest(ctx)
	for l.Wait {
		busy := l.busyClients()
		if len(busy) == 0 {
			return
		}
		l.release(ctx)
		if l.needsAll && !isBusy(l.err()) {
			return
		}
		for _, i := range busy {
			l.tellHolder(i)
			l.errs[i] = nil
		}
		// Two runs that have just got in each other's way must not do so again. When ctx ends, the calls say so.
		_ = host.Sleep(ctx, time.Second/2+rand.N(time.Second))
		l.lockOne(ctx, busy[0], true)
		l.lockRest(ctx)
	}
}

// lockOne locks the machine of a client.
func (l *locking) lockOne(ctx context.Context, client int, wait bool) {
	err := l.clients[client].lock(ctx, wait, l.Command)
	l.locked[client], l.errs[client] = err == nil, err
}

// lockRest locks all other machines that are free, but for those that cannot be locked.
func (l *locking) lockRest(ctx context.Context) {
	var trying sync.WaitGroup
	for i := range l.clients {
		if !l.locked[i] && l.errs[i] == nil {
			trying.Go(func() { l.lockOne(ctx, i, false) })
		}
	}
	trying.Wait()
}

// release gives all locks back, also after ctx has ended.
func (l *locking) release(ctx context.Context) {
	var releasing sync.WaitGroup
	for i, c := range l.clients {
		if l.locked[i] {
			releasing.Go(func() { l.locked[i], l.errs[i] = false, c.unlock(context.WithoutCancel(ctx)) })
		}
	}
	releasing.Wait()
}

// busyClients are those on whose machines other runs measure.
func (l *locking) busyClients() (busy []int) {
	for i, err := range l.errs {
		if isBusy(err) {
			busy = append(busy, i)
		}
	}
	return busy
}

func isBusy(err error) bool { return verr.Code(err) == verr.Busy }

// tellHolder says who has the lock of a machine, unless that was said last.
func (l *locking) tellHolder(client int) {
	var busy *verr.Error
	if errors.As(l.errs[client], &busy) && busy.Reason != l.holders[client] {
		l.holders[client] = busy.Reason
		l.Say("waiting for machine %s: %s", l.clients[client].machine, busy.Reason)
	}
}

// err is the first error that no waiting mends, else the first one.
func (l *locking) err() (first error) {
	for _, err := range l.errs {
		if err != nil && (first == nil || isBusy(first) && !isBusy(err)) {
			first = err
		}
	}
	return first
}

// lock makes sure that nobody else measures on the agent's machine until unlock is called, or the channel ends. If
// somebody does, it is an error that says who; with wait, it waits.
func (c *Client) lock(ctx context.Context, wait bool, command string) error {
	call := func(ctx context.Context) error {
		_, err := c.api.Lock(ctx, &agentpb.LockRequest{Wait: wait, Command: command})
		return fromStatus(c.machine, err)
	}
	if wait {
		return call(ctx)
	}
	err := c.callShortly(ctx, call)
	var told *verr.Error // nobody else knows it
	if errors.As(err, &told) && told.Code == verr.Busy {
		told.Summary += " on machine " + c.machine
	}
	return err
}

// callShortly makes a call that waits for nobody: one that is not answered means that the agent is lost.
func (c *Client) callShortly(ctx context.Context, call func(context.Context) error) error {
	limit := c.timeoutScale * shortCall
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := call(limited)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return lostError(c.machine, fmt.Sprintf("it did not answer within %v", limit))
	}
	return err
}

// callUnlock is the name of the agent's own call that gives the lock back.
const callUnlock = "agent.unlock"

func (c *Client) unlock(ctx context.Context) error {
	var done struct{}
	return c.callShortly(ctx, func(ctx context.Context) error { return c.Call(ctx, callUnlock, done, &done) })
}

// Lock is of [agentpb.AgentServer]. The lock is given back by [callUnlock], or when the agent ends.
func (s *server) Lock(ctx context.Context, req *agentpb.LockRequest) (*agentpb.LockReply, error) {
	if s.options.Lock == nil {
		return &agentpb.LockReply{}, nil // whoever started the agent has it
	}
	unlock, err := s.options.Lock(ctx, req.GetWait(), req.GetCommand())
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil { // the caller has given up, and would not give it back
		unlock()
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlock = unlock
	return &agentpb.LockReply{}, nil
}

// giveLockBack ends what Lock began.
func (s *server) giveLockBack() {
	s.mu.Lock()
	unlock := s.unlock
	s.unlock = nil
	s.mu.Unlock()
	if unlock != nil {
		unlock()
	}
}
