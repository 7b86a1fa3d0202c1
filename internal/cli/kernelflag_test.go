package cli

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/term"

	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/internal/vm"
)

// The second signal does not leave a terminal on which nothing is shown.
func TestSecondSignalRestoresTheTerminal(t *testing.T) {
	near, far, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	defer far.Close()
	before, err := term.GetState(int(far.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	now := func() term.State {
		state, err := term.GetState(int(far.Fd()))
		if err != nil {
			t.Error(err)
			return term.State{}
		}
		return *state
	}
	exited := make(chan term.State, 1)
	var env *Env
	env, _ = bench(t, func(ctx context.Context) error {
		leave := typed(env, &vm.Command{TTY: &vm.Size{Rows: 10, Columns: 20}})
		defer leave()
		if now() == *before {
			t.Error("keys are not handed on as they are typed")
		}
		syscall.Kill(syscall.Getpid(), syscall.SIGINT)
		<-ctx.Done()
		time.Sleep(sameAsking + 100*time.Millisecond)
		syscall.Kill(syscall.Getpid(), syscall.SIGINT)
		if <-exited != *before {
			t.Error("the terminal is left as it is for those keys")
		}
		return nil
	})
	env.Stdin, env.Stdout = far, far
	env.Exit = func(int) { exited <- now() }
	Run(t.Context(), env)
}

func TestHowItFinishedInside(t *testing.T) {
	for code, want := range map[int]struct {
		code int
		says string // empty: what runs inside has said it
	}{
		0: {code: verr.OK}, 7: {code: 7}, 130: {code: 130},
		137: {verr.Failed, "signal 9 (killed) in the virtual machine, as happens when memory runs out"},
		139: {verr.Failed, "signal 11 (segmentation fault)"},
	} {
		err := finished(code)
		e := exitCode(verr.OK)
		if errors.As(err, &e) {
			if int(e) != want.code || want.says != "" {
				t.Errorf("%d: ended with %d, want %+v", code, e, want)
			}
			continue
		}
		if verr.Code(err) != want.code || err != nil && (want.says == "" || !strings.Contains(err.Error(), want.says)) {
			t.Errorf("%d: %v, want %+v", code, err, want)
		}
	}
}
