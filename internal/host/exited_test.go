package host_test

import (
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
)

// A process that was killed has exited before anybody asks for its status, and afterwards.
func TestHasExited(t *testing.T) {
	if exited, err := host.HasExited(os.Getpid()); exited || err != nil {
		t.Errorf("this process: %v, %v", exited, err)
	}
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if exited, err := host.HasExited(cmd.Process.Pid); exited || err != nil {
		t.Errorf("one that sleeps: %v, %v", exited, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if exited, err := host.HasExited(cmd.Process.Pid); !exited || err != nil {
		t.Errorf("one that was killed: %v, %v", exited, err)
	}
	_ = cmd.Wait()
	if exited, err := host.HasExited(cmd.Process.Pid); !exited || err != nil {
		t.Errorf("one that is gone: %v, %v", exited, err)
	}
}
