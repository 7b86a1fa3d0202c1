package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/venturi-net/venturi/internal/netcfg"
)

// Netns makes a network namespace that lasts as long as the test.
func Netns(t testing.TB) *netcfg.Namespace {
	t.Helper()
	w, err := netcfg.Owned(Claim(t))
	if err != nil {
		t.Fatal(err)
	}
	n, err := w.Create(w.Name("m1"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

// FindProgram finds a program, or skips the test.
func FindProgram(t testing.TB, name string) string {
	t.Helper()
	file, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("there is no %s here", name)
	}
	return file
}

// Load gives a ruleset to a program such as nft -f - in a namespace.
func Load(t testing.TB, n *netcfg.Namespace, ruleset, program string, args ...string) error {
	t.Helper()
	_, err := n.Run(t.Context(), netcfg.Command{Args: append([]string{FindProgram(t, program)}, args...), Env: os.Environ()}, ruleset)
	return err
}

// Shell runs a shell script in a namespace, and fails the test if the script does.
func Shell(t testing.TB, namespace, script string) {
	t.Helper()
	InNetns(t, namespace, func() error {
		out, err := exec.Command("sh", "-e", "-c", script).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
}
