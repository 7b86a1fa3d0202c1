package fleet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/internal/verr"
)

// fakeMachine is what a machine does with the commands that it is given.
type fakeMachine func(ctx context.Context, i agent.Invocation) int

// newFakeFleet gives a fleet of machines a, b and so on, and what it has said.
func newFakeFleet(t *testing.T, machines ...fakeMachine) (f *Fleet, said func() string) {
	t.Helper()
	var names []string
	var agents []*agent.Client
	for i, run := range machines {
		name := string(rune('a' + i))
		c := agenttest.Start(t, agent.Options{Machine: name, Run: run})
		names, agents = append(names, name), append(agents, c)
	}
	f = Attach(names, agents)
	var mu sync.Mutex
	var all strings.Builder
	f.say = func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(&all, format+"\n", args...)
	}
	return f, func() string { mu.Lock(); defer mu.Unlock(); return all.String() }
}

// limit sets a limit of time until the test is over.
func limit(t *testing.T, of *time.Duration, to time.Duration) {
	old := *of
	*of = to
	t.Cleanup(func() { *of = old })
}

// limitReply makes replies of more than 1024 bytes too long until the test is over.
func limitReply(t *testing.T) {
	old := mostReply
	mostReply = 1 << 10
	t.Cleanup(func() { mostReply = old })
}

// keeps makes its changes, and keeps them if it is told to; undo does what "undo" asks for.
func keeps(undo fakeMachine) fakeMachine {
	return func(ctx context.Context, i agent.Invocation) int {
		if i.Args[0] == "undo" {
			return undo(ctx, i)
		}
		fmt.Fprint(i.Stdout, ReadyLine)
		if word, _ := bufio.NewReader(i.Stdin).ReadString('\n'); word != KeepLine {
			return fails(i, "it was not told to keep them")
		}
		fmt.Fprintln(i.Stdout, `{"transactions":[{"id":7}]}`)
		return verr.OK
	}
}

func fails(i agent.Invocation, why string) int {
	verr.Print(i.Stderr, verr.New(verr.Failed, "cannot keep the changes", why, "nothing remains changed on this machine"))
	return verr.Failed
}

// keepsNot makes its changes, and fails when it is told to keep them.
func keepsNot(_ context.Context, i agent.Invocation) int {
	fmt.Fprint(i.Stdout, ReadyLine)
	_, _ = bufio.NewReader(i.Stdin).ReadString('\n')
	return fails(i, "the disk is full")
}

// A machine whose driver hangs keeps the others from nothing: they undo their changes.
func TestCommitGivesUpAMachineThatHangs(t *testing.T) {
	limit(t, &holdLimit, 200*time.Millisecond)
	limit(t, &lateGrace, 200*time.Millisecond)
	release := make(chan struct{})
	defer close(release)
	f, _ := newFakeFleet(t, keeps(nil), func(context.Context, agent.Invocation) int { <-release; return verr.OK })
	begin := time.Now()
	replies := f.Commit(t.Context(), []string{"knob"})
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	for i, want := range []string{"not told to keep", "the command does not respond"} {
		if err := replies[i].Err; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("machine %s: %v, want %q", replies[i].Machine.Name, err, want)
		}
	}
}

// What machines keep is undone where another one fails to, and that is said.
func TestWithdraw(t *testing.T) {
	var undone []string
	undo := func(_ context.Context, i agent.Invocation) int { undone = i.Args; return verr.OK }
	f, said := newFakeFleet(t, keeps(undo), keepsNot)
	replies := f.Commit(t.Context(), []string{"knob"})
	if !slices.Equal(undone, []string{"undo", "7"}) {
		t.Errorf("a was told %q", undone)
	}
	if err := replies[0].Err; err == nil || !strings.Contains(err.Error(), "another machine") || !strings.Contains(err.Error(), "nothing remains changed") {
		t.Errorf("a: %v", err)
	}
	if !strings.Contains(said(), "undoing the changes of a, because b failed to keep its changes") {
		t.Errorf("said %q", said())
	}
}

// The caller's own change comes when all machines have made theirs; where it fails, none keeps them.
func TestCommitWith(t *testing.T) {
	for _, refused := range []error{nil, errors.New("refused")} {
		changes := 0
		f, _ := newFakeFleet(t, keeps(nil), keeps(nil))
		replies, err := f.CommitWith(t.Context(), []string{"knob"}, func(context.Context) error { changes++; return refused })
		if changes != 1 || !errors.Is(err, refused) {
			t.Errorf("%d changes, %v", changes, err)
		}
		for _, r := range replies {
			if (r.Err == nil) != (refused == nil) {
				t.Errorf("machine %s, with %v: %v", r.Machine.Name, refused, r.Err)
			}
		}
		f, _ = newFakeFleet(t, keeps(nil), func(_ context.Context, i agent.Invocation) int { return fails(i, "no") })
		if _, err := f.CommitWith(t.Context(), []string{"knob"}, func(context.Context) error { changes++; return nil }); changes != 1 || err != nil {
			t.Errorf("with a machine that fails: %d changes, %v", changes, err)
		}
	}
}

// A machine that cannot undo in time is named, with what to do there.
func TestWithdrawIsBounded(t *testing.T) {
	limit(t, &withdrawLimit, 200*time.Millisecond)
	release := make(chan struct{})
	defer close(release)
	f, _ := newFakeFleet(t, keeps(func(context.Context, agent.Invocation) int { <-release; return verr.OK }), keepsNot)
	begin := time.Now()
	replies := f.Commit(t.Context(), []string{"knob"})
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if err := Failed(replies); err == nil || !strings.Contains(err.Error(), "a: cannot undo transaction 7") || !strings.Contains(err.Error(), "venturi undo 7") {
		t.Errorf("error %v", err)
	}
}

// A machine that does not say what it changed is not taken for one that changed nothing.
func TestWithdrawWithoutReport(t *testing.T) {
	mute := func(_ context.Context, i agent.Invocation) int {
		fmt.Fprint(i.Stdout, ReadyLine)
		_, _ = bufio.NewReader(i.Stdin).ReadString('\n')
		return verr.OK
	}
	f, _ := newFakeFleet(t, mute, keepsNot)
	if err := f.Commit(t.Context(), []string{"knob"})[0].Err; err == nil || !strings.Contains(err.Error(), "venturi journal") {
		t.Errorf("error %v", err)
	}
}

// An error of a machine keeps its parts and its cause.
func TestNamed(t *testing.T) {
	cause := errors.New("broken pipe")
	for _, err := range []error{named("a", cause), named("a", verr.Wrap(verr.Busy, "cannot switch", cause, "wait"))} {
		var out strings.Builder
		verr.Print(&out, err)
		if !errors.Is(err, cause) || !strings.Contains(out.String(), "broken pipe") || !strings.Contains(out.String(), "a: ") {
			t.Errorf("%v is shown as %q", err, &out)
		}
	}
}

// A machine that writes without end is given up.
func TestReplyWithoutEnd(t *testing.T) {
	limitReply(t)
	writes := func(to func(agent.Invocation) io.Writer) fakeMachine {
		return func(_ context.Context, i agent.Invocation) int {
			for range 64 {
				fmt.Fprintf(to(i), "%512d", 0)
			}
			return verr.OK
		}
	}
	a := writes(func(i agent.Invocation) io.Writer { return i.Stdout })
	b := writes(func(i agent.Invocation) io.Writer { return i.Stderr })
	f, _ := newFakeFleet(t, a, b)
	for _, replies := range [][]Reply{f.Run(t.Context(), []string{"knob"}), f.Commit(t.Context(), []string{"knob"})} {
		for _, r := range replies {
			if r.Err == nil || !strings.Contains(r.Err.Error(), "longer than 1024 bytes") {
				t.Errorf("machine %s: %v", r.Machine.Name, r.Err)
			}
		}
	}
}
