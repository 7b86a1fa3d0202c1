package agenttest

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/kernel"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/vm"
)

const (
	kernelsEnv = "VENTURI_TEST_KERNELS" // under which kernels tests run themselves once more: "5.10 6.1 6.12"
	guestEnv   = "VENTURI_TEST_GUEST"   // 1: this is such a machine
	partEnv    = "VENTURI_TEST_PART"    // which part of the tests runs in such a machine
)

// Part is how much of a package's tests runs in a guest; nothing: its suite in short.
type Part string

const (
	SuiteOnly Part = "suite" // the suite, with every variant
	AllTests  Part = "all"   // and every other test of what goes through the kernel
)

// ChosenPart is what somebody chose for this run, or for the run that started this guest.
func ChosenPart() Part { return Part(os.Getenv(partEnv)) }

// DefaultKernel is one that can do all that any path and the fast path are made of.
const DefaultKernel = "6.12"

// guestLimit is how long tests may take in a guest: about twice what all of fastpath/e2e do.
const guestLimit = 2 * time.Hour

// RunArgs are a test binary's arguments for [RunInGuest]: run the tests of these names, with a bar
// between them, and of more names if all tests are to run there.
func RunArgs(names string, more ...string) []string {
	if ChosenPart() == AllTests {
		names = strings.Join(append([]string{names}, more...), "|")
	}
	return []string{"-test.v", "-test.timeout=" + guestLimit.String(), "-test.run=^(" + names + ")$"}
}

// InGuest tells whether the test runs in a machine that [RunInGuest] started.
func InGuest() bool { return os.Getenv(guestEnv) == "1" }

// InFull tells whether tests are to be whole: in `make test-long`, or in a guest that runs all of them.
func InFull() bool { return testenv.Long() || ChosenPart() == AllTests }

// InShortGuest tells whether it runs there beside others that are to be short.
func InShortGuest() bool { return InGuest() && ChosenPart() != AllTests }

// UnderKernels runs fn as a subtest for each kernel that somebody chose for such
// tests, or for one that is the default. Inside of a guest the test is skipped.
func UnderKernels(t *testing.T, orElse string, fn func(*testing.T, kernel.Kernel)) {
	t.Helper()
	if InGuest() {
		t.Skip("is in a machine under another kernel itself")
	}
	which := os.Getenv(kernelsEnv)
	if which == "" {
		which = orElse
	}
	for _, name := range strings.Fields(which) {
		t.Run(name, func(t *testing.T) {
			k, err := kernel.Find(name)
			if err != nil && !testenv.Required() {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			fn(t, k)
		})
	}
}

// PassUnderKernels runs tests of this binary, by what [RunArgs] made, in a virtual machine with so
// many MiB under each kernel that [UnderKernels] chooses. They must pass, and there must be any.
func PassUnderKernels(t *testing.T, memory int, args []string) {
	t.Helper()
	UnderKernels(t, DefaultKernel, func(t *testing.T, k kernel.Kernel) {
		said, code := RunInGuest(t, vm.Config{Kernel: k, Memory: memory}, args)
		if code != 0 || strings.Contains(said, "no tests to run") {
			t.Errorf("the tests ended with code %d:\n%s", code, said)
		}
	})
}

// RunInGuest runs this very test binary with arguments in a virtual machine, where a
// privileged test that would skip fails, and gives what it said and its exit
// code. The binary must call guest.Main before anything else.
func RunInGuest(t *testing.T, c vm.Config, args []string, env ...string) (said string, code int) {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	c.Program, c.Root, c.CPUs = testenv.Program(t), true, 2
	g, err := vm.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}()
	up := time.Now()
	var heard bytes.Buffer
	var out io.Writer = &heard
	if testing.Verbose() {
		out = io.MultiWriter(out, os.Stderr)
	}
	env = append([]string{"HOME=/root", "LANG=C.UTF-8", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", guestEnv + "=1", testenv.RequireRoot, partEnv + "=" + os.Getenv(partEnv)}, env...)
	code, err = g.Run(t.Context(), vm.Command{Args: append(testenv.Program(t), args...), Dir: dir, Stdout: out, Stderr: out, Env: env})
	t.Logf("%s on %s: it started in %v, and took %v", c.Kernel.Release, g.Accel(), up.Sub(start).Round(time.Second/10), time.Since(up).Round(time.Second/10))
	if err != nil {
		t.Errorf("%v; it said:\n%s", err, &heard)
	}
	return heard.String(), code
}
