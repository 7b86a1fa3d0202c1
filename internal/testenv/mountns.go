package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// hideEnv is the folder that a role of the test binary hides before it begins.
const hideEnv = "VENTURI_TEST_HIDE"

// RunIsolated runs a role of the test binary in a mount namespace of its own, where an
// empty file system lies over a folder: /run is there as after a start of the
// machine. It gives what the role wrote, and an error if that failed.
func RunIsolated(t testing.TB, folder, role string, args ...string) (out string, err error) {
	t.Helper()
	Root(t)
	command := append(RoleCommand(t, role), args...)
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Env = append(os.Environ(), hideEnv+"="+folder)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// hideFolder lays an empty file system over the folder that this process is to hide. What
// it starts hides nothing again.
func hideFolder() error {
	folder := os.Getenv(hideEnv)
	if folder == "" {
		return nil
	}
	if err := unix.Mount("tmpfs", folder, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("hide %s: %w", folder, err)
	}
	return os.Unsetenv(hideEnv)
}
