package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/verr"
)

// bench makes an environment whose output can be read, and whose only command
// is run.
func bench(t *testing.T, run func(context.Context) error) (env *Env, errs *bytes.Buffer) {
	t.Helper()
	errs = new(bytes.Buffer)
	old := commands
	t.Cleanup(func() { commands = old })
	commands = []func(*Env) *cobra.Command{func(*Env) *cobra.Command {
		return &cobra.Command{Use: "try", RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context()) }}
	}}
	return &Env{Args: []string{"try"}, Stdout: new(bytes.Buffer), Stderr: errs, Getenv: func(string) string { return "" }, Exit: func(int) { t.Error("exit in the middle") }}, errs
}

// Whatever a command returns becomes three parts and a documented code.
func TestErrors(t *testing.T) {
	cases := []struct {
		err  error
		code int
		text string
	}{
		{nil, verr.OK, ""},
		{verr.New(verr.Busy, "cannot a", "b", "c"), verr.Busy, "venturi: cannot a\n  why: b\n  do:  c\n"},
		{errors.Join(verr.New(verr.Busy, "cannot a", "b", "c"), errors.New("remove x")), verr.Busy,
			"venturi: remove x\nventuri: cannot a\n  why: b\n  do:  c\n"},
		// Without a signal, a context that ended is an error like any other.
		{fmt.Errorf("dial: %w", context.Canceled), verr.Failed, "venturi: cannot finish venturi try\n  why: dial: context canceled\n  do:  "},
		{errors.New("open x: no such thing"), verr.Failed, "venturi: cannot finish venturi try\n  why: open x: no such thing\n  do:  "},
	}
	for _, c := range cases {
		env, errs := bench(t, func(context.Context) error { return c.err })
		if got := Run(t.Context(), env); got != c.code {
			t.Errorf("%v: code %d, want %d", c.err, got, c.code)
		}
		if !strings.HasPrefix(errs.String(), c.text) || (c.text == "") != (errs.Len() == 0) {
			t.Errorf("%v: printed %q, want %q", c.err, errs, c.text)
		}
	}
}

// The first signal ends the context, so that a command can clean up.
func TestFirstSignal(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		env, errs := bench(t, func(ctx context.Context) error {
			if err := syscall.Kill(syscall.Getpid(), sig); err != nil {
				return err
			}
			<-ctx.Done()
			return context.Cause(ctx) // or ctx.Err(): the same to Run
		})
		if got := Run(t.Context(), env); got != verr.Interrupted {
			t.Errorf("%v: code %d, want %d", sig, got, verr.Interrupted)
		}
		if !strings.Contains(errs.String(), "  do:  ") {
			t.Errorf("%v: printed %q", sig, errs)
		}
	}
}

// When taking down failed after it, nobody is told that nothing was left.
func TestSignalAndFailure(t *testing.T) {
	for _, wrap := range []func(error) error{
		func(err error) error { return err },
		func(err error) error { return notRaised("a", err) },
	} {
		env, errs := bench(t, func(ctx context.Context) error {
			if err := syscall.Kill(syscall.Getpid(), syscall.SIGINT); err != nil {
				return err
			}
			<-ctx.Done()
			return wrap(errors.Join(fmt.Errorf("raise: %w", ctx.Err()), errors.New("remove lab x: it is busy")))
		})
		if got := Run(t.Context(), env); got != verr.Interrupted {
			t.Errorf("code %d, want %d", got, verr.Interrupted)
		}
		text := errs.String()
		if !strings.Contains(text, "remove lab x") || !strings.Contains(text, "venturi lab down") || strings.Contains(text, "nothing was left") {
			t.Errorf("printed %q", text)
		}
	}
}

// What was built for a lab has been removed only if taking it down succeeded.
func TestNotRaised(t *testing.T) {
	for _, c := range []struct {
		err  error
		gone bool
	}{
		{errors.Join(errors.New("no room"), nil), true},
		{errors.Join(errors.New("no room"), errors.New("remove lab x: it is busy")), false},
		{errors.Join(verr.New(verr.Failed, "cannot raise path a", "b", "c"), errors.New("remove lab x: it is busy")), false},
	} {
		env, errs := bench(t, func(context.Context) error { return notRaised("x", c.err) })
		if got := Run(t.Context(), env); got != verr.Failed {
			t.Errorf("code %d, want %d", got, verr.Failed)
		}
		if strings.Contains(errs.String(), "has been removed") != c.gone || strings.Contains(errs.String(), "lab down") == c.gone {
			t.Errorf("%v: printed %q", c.err, errs)
		}
	}
}

// The second one ends the process, whatever the command is doing. One that comes with
// the first is the same asking: timeout(1) signals the process and then its group.
func TestSecondSignal(t *testing.T) {
	exited := make(chan int, 1)
	env, errs := bench(t, func(ctx context.Context) error {
		syscall.Kill(syscall.Getpid(), syscall.SIGINT)
		<-ctx.Done()
		syscall.Kill(syscall.Getpid(), syscall.SIGINT)
		select {
		case <-exited:
			t.Error("two signals at once ended the process")
		case <-time.After(sameAsking + 100*time.Millisecond):
		}
		syscall.Kill(syscall.Getpid(), syscall.SIGINT)
		if code := <-exited; code != verr.Interrupted {
			t.Errorf("exit with %d, want %d", code, verr.Interrupted)
		}
		return nil
	})
	env.Exit = func(code int) { exited <- code }
	Run(t.Context(), env)
	if text := errs.String(); !strings.Contains(text, "venturi undo") || !strings.Contains(text, "venturi lab down") {
		t.Errorf("printed %q", text)
	}
}

// Every command can be used without a manual: it says what it does and shows how.
func TestHelpIsThere(t *testing.T) {
	started := false
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Hidden || !cmd.Runnable() {
			return
		}
		if cmd.Short == "" || cmd.Long == "" || cmd.Example == "" {
			t.Errorf("%s: short help, long help or example is missing", cmd.CommandPath())
		}
		if strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: the short help ends with a full stop", cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(product().commandTree(&Env{Stdout: new(bytes.Buffer), Stderr: new(bytes.Buffer)}, &started))
}
