package agent_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

// lockMachine is a machine on which one run measures at a time. Each run has an agent of its own there.
type lockMachine struct {
	name   string
	broken error  // why it cannot be locked
	first  string // the run that locks it first, whoever comes; empty: who comes first

	mu      sync.Mutex
	holder  string // the run that measures
	locks   int    // how often it was locked
	waiting int    // agents that wait for its lock
}

// lock is of [agent.Options].
func (m *lockMachine) lock(ctx context.Context, wait bool, run string) (unlock func(), err error) {
	if m.broken != nil {
		return nil, m.broken
	}
	for m.first != "" && run != m.first && m.lockCount() == 0 {
		if err := host.Sleep(ctx, time.Millisecond); err != nil {
			return nil, err
		}
	}
	if wait {
		m.addWaiting(1)
		defer m.addWaiting(-1)
	}
	for {
		holder := m.take(run)
		if holder == "" {
			return sync.OnceFunc(m.free), nil
		}
		if !wait {
			return nil, verr.New(verr.Busy, "cannot measure now", holder+" has the lock", "wait until it is done")
		}
		if err := host.Sleep(ctx, time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// take gives a run the lock, or says which one has it.
func (m *lockMachine) take(run string) (holder string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.holder != "" {
		return m.holder
	}
	m.holder = run
	m.locks++
	return ""
}

func (m *lockMachine) free() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.holder = ""
}

func (m *lockMachine) lockCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.locks
}

func (m *lockMachine) addWaiting(n int) (now int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting += n
	return m.waiting
}

// wantWaiting waits until that many agents wait for the lock.
func (m *lockMachine) wantWaiting(t *testing.T, want int) {
	t.Helper()
	end := time.Now().Add(testenv.Timeout)
	for m.addWaiting(0) != want {
		if time.Now().After(end) {
			t.Fatalf("%d agents wait for the lock of machine %s after %v, want %d", m.addWaiting(0), m.name, testenv.Timeout, want)
		}
		time.Sleep(time.Millisecond)
	}
}

// wantHolder wants the lock to be a run's; empty: nobody's.
func (m *lockMachine) wantHolder(t *testing.T, run string) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.holder != run {
		t.Errorf("the lock of machine %s is that of run %q, want %q", m.name, m.holder, run)
	}
}

// lockAgents starts an agent on each of the machines. They end with the function, or with the test.
func lockAgents(t *testing.T, machines ...*lockMachine) (clients []*agent.Client, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var agents sync.WaitGroup
	end = sync.OnceFunc(func() {
		for _, c := range clients {
			_ = c.Close()
		}
		cancel()
		agents.Wait()
	})
	t.Cleanup(end)
	for _, m := range machines {
		socket := filepath.Join(testenv.SocketFolder(t), "s")
		o := agent.Options{Machine: m.name, Socket: socket, Version: "test", Lock: m.lock}
		agents.Go(func() {
			if err := agent.Main(ctx, o); err != nil {
				t.Errorf("the agent of %s ended with %v", m.name, err)
			}
		})
		c, err := agent.Dial(t.Context(), socket)
		testenv.Must(t, err)
		clients = append(clients, c)
	}
	return clients, end
}

// sayings notes what is said.
type sayings chan string

func (s sayings) say(format string, args ...any) { s <- fmt.Sprintf(format, args...) }

func newSayings() sayings { return make(sayings, 100) }

// Two runs that want the same two machines, and have got one each, both measure.
func TestLockInOppositeOrder(t *testing.T) {
	t.Parallel() // it waits
	a, b := &lockMachine{name: "a", first: "forth"}, &lockMachine{name: "b", first: "back"}
	var runs sync.WaitGroup
	said := newSayings()
	for run, machines := range map[string][]*lockMachine{"forth": {a, b}, "back": {b, a}} {
		clients, end := lockAgents(t, machines...)
		runs.Go(func() {
			o := agent.LockOptions{Command: run, Wait: true, Say: said.say}
			if err := agent.LockAll(t.Context(), clients, o); err != nil {
				t.Errorf("run %s: %v", run, err)
				return
			}
			for _, m := range machines {
				m.wantHolder(t, run)
			}
			end()
		})
	}
	done := make(chan error)
	go func() { runs.Wait(); close(done) }()
	waitFor(t, "two runs", done)
	if len(said) == 0 {
		t.Error("neither run said for whom it waited")
	}
	for _, m := range []*lockMachine{a, b} {
		m.wantHolder(t, "")
	}
}

// Who waits says for whom, again only if that is another one, and keeps nobody from the other machines.
func TestLockSaysForWhomItWaits(t *testing.T) {
	t.Parallel() // it waits
	a, b := &lockMachine{name: "a"}, &lockMachine{name: "b"}
	clients, end := lockAgents(t, a, b)
	b.take("the first run")
	said, locked := newSayings(), make(chan error, 1)
	go func() {
		locked <- agent.LockAll(t.Context(), clients, agent.LockOptions{Command: "me", Wait: true, Say: said.say})
	}()
	if got, want := waitFor(t, "what is said", said), "waiting for machine b: the first run has the lock"; got != want {
		t.Errorf("said %q, want %q", got, want)
	}
	if holder := a.take("the second run"); holder != "" {
		t.Errorf("run %q has machine a while it waits for b", holder)
	}
	b.free()
	if got, want := waitFor(t, "what is said", said), "waiting for machine a: the second run has the lock"; got != want {
		t.Errorf("said %q, want %q", got, want)
	}
	b.wantHolder(t, "")
	a.free()
	testenv.Must(t, waitFor(t, "lock", locked))
	if len(said) > 0 {
		t.Errorf("said once more: %q", <-said)
	}
	for _, m := range []*lockMachine{a, b} {
		m.wantHolder(t, "me")
	}
	end()
	for _, m := range []*lockMachine{a, b} {
		m.wantHolder(t, "")
	}
}

// An end of the context ends the wait for others, at once or in an agent, and nothing stays locked.
func TestLockIsInterrupted(t *testing.T) {
	t.Parallel() // it waits
	for _, inAgent := range []bool{false, true} {
		t.Run(fmt.Sprint("in agent=", inAgent), func(t *testing.T) {
			t.Parallel()
			a, b := &lockMachine{name: "a"}, &lockMachine{name: "b"}
			clients, _ := lockAgents(t, a, b)
			b.take("the first run")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			said, locked := newSayings(), make(chan error, 1)
			go func() {
				locked <- agent.LockAll(ctx, clients, agent.LockOptions{Command: "me", Wait: true, Say: said.say})
			}()
			waitFor(t, "what is said", said)
			if inAgent {
				b.wantWaiting(t, 1)
			}
			cancel()
			if err := waitFor(t, "lock", locked); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			b.wantWaiting(t, 0) // the agent is told just after
			a.wantHolder(t, "")
			b.wantHolder(t, "the first run")
			b.free()
			time.Sleep(10 * time.Millisecond)
			b.wantHolder(t, "")
		})
	}
}

// Without waiting, the error says on which machine who measures, and nothing stays locked.
func TestLockOfBusyMachine(t *testing.T) {
	a, b := &lockMachine{name: "a"}, &lockMachine{name: "b"}
	clients, _ := lockAgents(t, a, b)
	b.take("the first run")
	err := agent.LockAll(t.Context(), clients, agent.LockOptions{Command: "me"})
	code(t, err, verr.Busy)
	if !strings.Contains(err.Error(), "on machine b: the first run has the lock") {
		t.Errorf("got %v", err)
	}
	a.wantHolder(t, "")
	b.wantHolder(t, "the first run")
}

// What waiting does not mend is an error at once; nothing stays locked, and what was locked can be again.
func TestLockFails(t *testing.T) {
	known := verr.New(verr.Permission, "what", "why", "do")
	a, b, broken := &lockMachine{name: "a"}, &lockMachine{name: "b"}, &lockMachine{name: "broken", broken: known}
	clients, _ := lockAgents(t, a, b, broken)
	o := agent.LockOptions{Command: "me", Wait: true, Say: newSayings().say}
	code(t, agent.LockAll(t.Context(), clients, o), verr.Permission)
	a.wantHolder(t, "")
	b.take("the first run")
	code(t, agent.LockAll(t.Context(), clients, o), verr.Permission)
	a.wantHolder(t, "")
	b.wantHolder(t, "the first run")
	b.free()
	testenv.Must(t, agent.LockAll(t.Context(), clients[:2], o))
	a.wantHolder(t, "me")
	b.wantHolder(t, "me")
}

// A run that goes on without some machines locks the others, and waits only for those that others have.
func TestLockEach(t *testing.T) {
	t.Parallel() // it waits
	a, b := &lockMachine{name: "a"}, &lockMachine{name: "b"}
	broken := &lockMachine{name: "broken", broken: errors.New("no such luck")}
	clients, _ := lockAgents(t, a, b, broken)
	b.take("the first run")
	said := newSayings()
	o := agent.LockOptions{Command: "me", Say: said.say}
	errs := agent.LockEach(t.Context(), clients[:2], o)
	if len(errs) != 2 || errs[0] != nil || verr.Code(errs[1]) != verr.Busy {
		t.Fatalf("without waiting: %v", errs)
	}
	a.wantHolder(t, "me")
	a.free() // as the end of that run does
	o.Wait = true
	locked := make(chan []error, 1)
	go func() { locked <- agent.LockEach(t.Context(), clients, o) }()
	waitFor(t, "what is said", said)
	b.free()
	errs = waitFor(t, "lock", locked)
	if len(errs) != 3 || errs[0] != nil || errs[1] != nil || errs[2] == nil {
		t.Errorf("with waiting: %v", errs)
	}
	a.wantHolder(t, "me")
	b.wantHolder(t, "me")
}
