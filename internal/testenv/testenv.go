// Package testenv is what privileged tests stand on: a guard for those that
// need root, labs that go away with their test, and a check that a package's
// tests left nothing on the machine.
//
// A package with privileged tests calls [Main] from its TestMain. What is
// measured is not only what such tests assert: it is also that the namespaces,
// links, processes, descriptors and goroutines after them are those of before.
package testenv

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/netcfg"
)

const (
	requireEnv = "VENTURI_REQUIRE_ROOT" // 1: a test that would skip for want of root fails
	roleEnv    = "VENTURI_TEST_ROLE"    // 1: the test binary plays the role that its first argument names
)

// Roles are what a test binary can be instead of a test: its tests start it
// once more, and it becomes an agent, or a process that is killed in the
// middle of something. A role returns the exit code.
type Roles map[string]func(args []string) int

// Main runs a package's tests and fails if they leave something behind.
func Main(m interface{ Run() int }, roles Roles) {
	if os.Getenv(roleEnv) == "1" && len(os.Args) > 1 {
		role := os.Args[1]
		play, ok := roles[role]
		if !ok {
			fmt.Fprintf(os.Stderr, "testenv: no role %q\n", role)
			os.Exit(2)
		}
		if err := hideFolder(); err != nil {
			fmt.Fprintln(os.Stderr, "testenv:", err)
			os.Exit(1)
		}
		os.Exit(play(os.Args[1:]))
	}
	os.Exit(Run(m))
}

// Run is [Main] for those who must do something before the process exits. It
// returns the exit code.
func Run(m interface{ Run() int }) int {
	// A fuzzing worker is a child of a run that holds the lock, and looks for leaks itself.
	if os.Geteuid() != 0 || slices.Contains(os.Args, "-test.fuzzworker") {
		return m.Run()
	}
	unlock, err := lockTests()
	if err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
		return 1
	}
	defer unlock()
	// What an earlier run that was killed left is not this one's doing.
	if _, err := lab.Sweep(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
		return 1
	}
	before, err := readHostState()
	if err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
		return 1
	}
	code := m.Run()
	if left := leaks(before); len(left) > 0 {
		fmt.Fprintf(os.Stderr, "testenv: the tests left behind:\n  %s\n", strings.Join(left, "\n  "))
		code = max(code, 1)
	}
	return code
}

// testLock makes packages with privileged tests run one after the other, also
// when go test starts several: one's leak check would see the other's labs.
const testLock = "test.lock"

// lockWait is longer than any package's tests take.
const lockWait = 40 * time.Minute

func lockTests() (unlock func(), err error) {
	if err := os.MkdirAll(lab.Folder, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(lab.Folder, testLock), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	began, said := time.Now(), false
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		waited := time.Since(began)
		switch {
		case err == nil:
			return func() { f.Close() }, nil
		case err != unix.EINTR && err != unix.EWOULDBLOCK || waited > lockWait:
			f.Close()
			return nil, fmt.Errorf("lock tests with %s, for %s: %w", f.Name(), waited.Round(time.Second), err)
		case waited > 5*time.Second && !said:
			said = true
			fmt.Fprintf(os.Stderr, "testenv: another package's tests hold %s; waiting for up to %s (scripts/isolate runs them apart)\n", f.Name(), lockWait)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Root skips the test when it does not run as root, and fails it where that
// must not happen: a run whose privileged tests all skipped proves nothing.
func Root(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if Required() {
		t.Fatalf("needs root, and %s=1 forbids to skip", requireEnv)
	}
	t.Skip("needs root: run it through sudo, or `make test`")
}

// Required tells whether a test must not skip for want of what `make test`
// installs.
func Required() bool { return os.Getenv(requireEnv) == "1" }

// RequireRoot is what makes that so, as a setting of the environment.
const RequireRoot = requireEnv + "=1"

// labs counts those of this process: each has a name of its own.
var labs atomic.Int32

// LabName gives a name that no other lab has: not of this process, nor of
// another one that lives.
func LabName() string { return fmt.Sprintf("t%d-%d", os.Getpid(), labs.Add(1)) }

// Lab raises a lab that goes down with the test. A name is chosen when there
// is none, and daemons of paths are roles of the test binary.
func Lab(t testing.TB, o lab.Options) *lab.Lab {
	t.Helper()
	Root(t)
	if o.Name == "" {
		o.Name = LabName()
	}
	if o.Program == nil {
		o.Program = Program(t)
	}
	l, err := lab.Up(t.Context(), o)
	if err != nil {
		t.Fatalf("raise lab: %v", err)
	}
	t.Cleanup(func() {
		if err := l.Down(); err != nil {
			t.Errorf("take lab down: %v", err)
		}
	})
	return l
}

// Claim takes the name of a lab for a test that makes namespaces by itself, so
// that nobody sweeps them meanwhile. What the test leaves is removed after it.
func Claim(t testing.TB) (name string) {
	t.Helper()
	Root(t)
	c, err := lab.NewClaim(t.Context(), LabName())
	if err != nil {
		t.Fatalf("claim a lab's name: %v", err)
	}
	t.Cleanup(func() {
		c.Release()
		if err := lab.Remove(context.Background(), c.Name); err != nil {
			t.Errorf("remove lab: %v", err)
		}
	})
	return c.Name
}

// Namespace makes a namespace of our own, and its writer. It is gone after the test.
func Namespace(t testing.TB) (*netcfg.Writer, *netcfg.Namespace) {
	t.Helper()
	w, err := netcfg.Owned(Claim(t))
	Must(t, err)
	n, err := w.Create(w.Name("m1"))
	Must(t, err)
	t.Cleanup(n.Close)
	return w, n
}

// AgentCommand is the command of an agent that this test binary plays: the
// role "agent" of [Main]. It holds until the test is over.
func AgentCommand(t testing.TB) []string { return RoleCommand(t, "agent") }

// RoleCommand is the command of a process in which this test binary plays a
// role. It holds until the test is over.
func RoleCommand(t testing.TB, role string) []string { return append(Program(t), role) }

// Timeout bounds the waits of tests: nothing is asserted on speed.
var Timeout = host.ScaleTimeout(30 * time.Second)

// Must fails the test with an error, if there is one.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Program is this test binary, as something that plays the role which its
// first argument names. It holds until the test is over.
func Program(t testing.TB) []string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatalf("find the test binary: %v", err)
	}
	playRoles(t)
	return []string{exe}
}

// players counts the tests of this process whose children may play roles.
var players struct {
	sync.Mutex
	count int
}

// playRoles has the test binary play roles where it is started until the test is over. Tests that run beside
// each other may: t.Setenv forbids that.
func playRoles(t testing.TB) {
	t.Helper()
	turn := func(by int) error {
		players.Lock()
		defer players.Unlock()
		if players.count += by; players.count > 0 {
			return os.Setenv(roleEnv, "1")
		}
		return os.Unsetenv(roleEnv)
	}
	Must(t, turn(1))
	t.Cleanup(func() { Must(t, turn(-1)) })
}

// InNetns runs fn inside a namespace, given by its file, and fails the test with
// its error.
func InNetns(t testing.TB, namespace string, fn func() error) {
	t.Helper()
	if err := host.Do(namespace, fn); err != nil {
		t.Fatalf("in %s: %v", filepath.Base(namespace), err)
	}
}

// SocketFolder is a private folder with a short path, until the test is over: a socket's may have
// 107 bytes.
func SocketFolder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "venturi-test-")
	Must(t, err)
	t.Cleanup(func() { Must(t, os.RemoveAll(dir)) })
	return dir
}
