package path_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/kernel"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/internal/vm"
)

// matrixEnv names a file that gets the matrix: go test shows nothing of what passes.
const matrixEnv = "VENTURI_TEST_MATRIX"

// guests are the ledgers of the suite's runs under other kernels.
var guests []column

// Kernels differ in what they can do, and the one that the tests run on lacks a
// lot. So the suite runs once more in virtual machines under others, as this
// very binary, and a driver that ran on none fails the tests: see sumUp.
func TestKernels(t *testing.T) {
	testenv.Root(t)
	testenv.NeedsLong(t)
	agenttest.UnderKernels(t, agenttest.DefaultKernel, underKernel)
}

func underKernel(t *testing.T, k kernel.Kernel) {
	column := column{kernel: k.Release, book: map[string]outcome{}}
	defer func() { guests = append(guests, column) }()
	said, code := agenttest.RunInGuest(t, vm.Config{Kernel: k, Memory: 3 << 10}, suiteArgs())
	if book := hear(said); book != nil {
		column.book = book
	}
	ranAny := false
	for _, o := range column.book {
		ranAny = ranAny || o == ran
	}
	switch {
	case code != 0:
		t.Errorf("the suite ended with code %d:\n%s", code, said)
	case !ranAny:
		t.Errorf("nothing ran in the guest:\n%s", said)
	}
}

// suiteArgs choose what runs in a guest. Tests about single drivers and their daemons
// are in no part: they are alike under any kernel.
func suiteArgs() []string {
	run := "TestOnTheWire"
	switch agenttest.ChosenPart() {
	case agenttest.SuiteOnly:
		run += "|TestTraffic"
	case agenttest.AllTests:
		run += "|TestTraffic|TestTrafficBehindServices|TestVariants|TestFourMachines|TestHostTwice|TestTunnelsAskNobody"
	}
	return agenttest.RunArgs(run)
}

// sumUp says which driver ran under which kernel, when TestKernels looked, and
// gives 1 if one ran under none though all were tried.
func sumUp() (code int) {
	if len(guests) == 0 {
		return 0
	}
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	text, nowhere := matrix(append([]column{{strings.TrimSpace(string(release)) + " (here)", suite.book}}, guests...))
	switch where := strings.Join(nowhere, ", "); {
	case len(nowhere) == 0:
	case len(suite.book) == 0: // somebody chose only TestKernels
		text += fmt.Sprintf("not tried under this machine's own kernel, and run under none of the others: %s\n", where)
	default:
		code = 1
		text += fmt.Sprintf("FAILED: under none of these kernels ran %s\n", where)
	}
	fmt.Print(text)
	if file := os.Getenv(matrixEnv); file != "" {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}
