package guest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/venturi-net/venturi/internal/guest"
	"github.com/venturi-net/venturi/internal/host"
)

// channel gives the dialer of a server that runs commands on this machine, over
// a channel as that of a virtual one.
func channel(t *testing.T) guest.Dialer {
	t.Helper()
	before := goleak.IgnoreCurrent()
	near, far := net.Pipe()
	inside, err := guest.Session(far, true, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	outside, err := guest.Session(near, false, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		guest.Commands(inside)
		close(served)
	}()
	t.Cleanup(func() {
		outside.Close()
		inside.Close()
		<-served
		goleak.VerifyNone(t, before)
	})
	return func(context.Context) (net.Conn, error) { return outside.Open() }
}

func sh(script string) []string { return []string{"/bin/sh", "-c", script} }

func TestCommand(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name            string
		command         guest.Command
		in              string
		exit            int
		stdout, stderr  string
		onlyOfItsOutput bool // stdout is a part
	}{
		{name: "streams are apart", command: guest.Command{Args: sh("echo out; echo err >&2; exit 3")}, exit: 3, stdout: "out\n", stderr: "err\n"},
		{name: "input reaches its end", command: guest.Command{Args: sh("wc -c")}, in: "12345", stdout: "5\n"},
		{name: "input that is not read", command: guest.Command{Args: sh("true")}, in: strings.Repeat("x", 1<<20)},
		{name: "environment is as given", command: guest.Command{Args: sh("echo $A-$B"), Env: []string{"A=1"}}, stdout: "1-\n"},
		{name: "path when none is given", command: guest.Command{Args: []string{"sh", "-c", "echo $PATH"}}, stdout: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"},
		{name: "folder", command: guest.Command{Args: sh("pwd"), Dir: dir}, stdout: dir + "\n"},
		{name: "ended by a signal", command: guest.Command{Args: sh("kill -USR1 $$")}, exit: 128 + int(syscall.SIGUSR1)},
		{name: "much output", command: guest.Command{Args: sh("head -c 3000000 /dev/zero | tr '\\0' x; echo end")}, stdout: "xxxend\n", onlyOfItsOutput: true},
		{name: "terminal", command: guest.Command{Args: sh("stty size; tty"), TTY: &guest.Size{Rows: 33, Columns: 111}},
			stdout: "33 111\r\n/dev/pts/", onlyOfItsOutput: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			c.command.Stdout, c.command.Stderr = &stdout, &stderr
			if c.in != "" {
				c.command.Stdin = strings.NewReader(c.in)
			}
			exit, err := guest.Run(t.Context(), channel(t), c.command)
			if err != nil || exit != c.exit {
				t.Errorf("exit %d, %v; want %d", exit, err, c.exit)
			}
			if got := stdout.String(); got != c.stdout && !(c.onlyOfItsOutput && strings.Contains(got, c.stdout)) {
				t.Errorf("wrote %.100q, want %q", got, c.stdout)
			}
			if stderr.String() != c.stderr {
				t.Errorf("wrote %q as errors, want %q", &stderr, c.stderr)
			}
		})
	}
}

func TestErrorsWhereOutputGoes(t *testing.T) {
	var out bytes.Buffer
	exit, err := guest.Run(t.Context(), channel(t), guest.Command{Args: sh("for i in 1 2 3 4; do echo o; echo e >&2; done"), Stdout: &out, Stderr: &out})
	if err != nil || exit != 0 || out.String() != strings.Repeat("o\ne\n", 4) {
		t.Errorf("exit %d, %v, wrote %q", exit, err, &out)
	}
}

func TestCommandThatCannotStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dial := channel(t)
	for _, c := range []guest.Command{
		{},
		{Args: []string{"no-such-program"}},
		{Args: []string{"/no/such/program"}},
		{Args: []string{file}},
		{Args: sh("true"), Dir: "/no/such/folder"},
	} {
		c.Stdout, c.Stdin = io.Discard, strings.NewReader("some")
		if exit, err := guest.Run(t.Context(), dial, c); !errors.Is(err, guest.ErrNotStarted) {
			t.Errorf("%q: exit %d, %v", c.Args, exit, err)
		}
	}
}

// What a command leaves behind keeps its output open, and must not keep the call.
func TestCommandThatLeavesOthersBehind(t *testing.T) {
	for _, tty := range []*guest.Size{nil, {Rows: 24, Columns: 80}} {
		dial := channel(t)
		start := time.Now()
		var out bytes.Buffer
		exit, err := guest.Run(t.Context(), dial, guest.Command{Args: sh("trap '' HUP; sleep 60 & echo $!"), Stdout: &out, TTY: tty})
		if err != nil || exit != 0 || time.Since(start) > 30*time.Second {
			t.Errorf("exit %d, %v after %v", exit, err, time.Since(start))
		}
		var left int
		if _, err := fmt.Sscan(out.String(), &left); err != nil {
			t.Fatalf("%q: %v", &out, err)
		}
		if err := syscall.Kill(left, syscall.SIGKILL); err != nil {
			t.Errorf("it did not stay behind: %v", err)
		}
	}
}

// slow takes its time with each piece.
type slow struct{ bytes.Buffer }

func (s *slow) Write(b []byte) (int, error) {
	time.Sleep(400 * time.Millisecond)
	return s.Buffer.Write(b)
}

// All that a command wrote arrives, however slowly it is read.
func TestSlowReaderLosesNothing(t *testing.T) {
	var out slow
	const size = 200_000 // more than a pipe holds, less than all windows on the way
	exit, err := guest.Run(t.Context(), channel(t), guest.Command{
		Args: sh(fmt.Sprintf("sleep 60 & head -c %d /dev/zero; kill $!", size)), Stdout: &out})
	if err != nil || exit != 0 || out.Len() != size {
		t.Errorf("exit %d, %v, %d bytes; want %d", exit, err, out.Len(), size)
	}
}

func TestSizes(t *testing.T) {
	sizes := make(chan guest.Size, 1)
	in, typed := io.Pipe()
	out, shown := io.Pipe()
	defer typed.Close()
	type end struct {
		exit int
		err  error
	}
	ended := make(chan end, 1)
	dial := channel(t)
	go func() {
		exit, err := guest.Run(t.Context(), dial, guest.Command{
			Args: sh("stty -echo; trap 'stty size' WINCH; echo ready; until read word; do :; done; echo $word; exit 9"),
			TTY:  &guest.Size{Rows: 10, Columns: 20}, Stdin: in, Stdout: shown, Resize: sizes})
		shown.Close()
		ended <- end{exit, err}
	}()
	var said strings.Builder
	expect := func(text string) {
		t.Helper()
		b := make([]byte, 100)
		late := time.AfterFunc(host.ScaleTimeout(time.Minute), func() { out.CloseWithError(errors.New("nothing more within a minute")) })
		defer late.Stop()
		for !strings.Contains(said.String(), text) {
			n, err := out.Read(b)
			if err != nil {
				t.Fatalf("said %q, want %q: %v", &said, text, err)
			}
			said.Write(b[:n])
		}
	}
	expect("ready")
	sizes <- guest.Size{Rows: 44, Columns: 55}
	expect("44 55")
	if _, err := typed.Write([]byte("typed\n")); err != nil {
		t.Fatal(err)
	}
	expect("typed")
	go io.Copy(io.Discard, out)
	if e := <-ended; e.err != nil || e.exit != 9 {
		t.Errorf("exit %d, %v", e.exit, e.err)
	}
}

func TestInterruptedCommand(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out, shown := io.Pipe()
	go func() {
		out.Read(make([]byte, 10))
		cancel()
		io.Copy(io.Discard, out)
	}()
	exit, err := guest.Run(ctx, channel(t), guest.Command{
		Args: sh("trap 'exit 42' INT; echo ready; while :; do sleep 0.05; done"), Stdout: shown})
	shown.Close()
	if err != nil || exit != 42 {
		t.Errorf("exit %d, %v; want 42", exit, err)
	}
}

// Nobody waits any more when the streams break: the command is ended.
func TestAbandonedCommand(t *testing.T) {
	dial := channel(t)
	conns := make(chan net.Conn, 9)
	out, shown := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		_, err := guest.Run(t.Context(), func(ctx context.Context) (net.Conn, error) {
			c, err := dial(ctx)
			conns <- c
			return c, err
		}, guest.Command{Args: sh("echo $$; exec sleep 60"), Stdout: shown})
		ended <- err
	}()
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	close(conns)
	for c := range conns {
		c.Close()
	}
	for end := time.Now().Add(20 * time.Second); syscall.Kill(pid, 0) == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the command still runs")
		}
	}
	<-ended
}
