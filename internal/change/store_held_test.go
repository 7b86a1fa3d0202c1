package change

import (
	"os"
	"os/exec"
	"testing"
)

// TestHolderOfOthers: who holds a file must be a process of this program.
func TestHolderOfOthers(t *testing.T) {
	cmd := exec.Command("/bin/sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	if (holder{cmd.Process.Pid, 5}).isOurs() {
		t.Error("another program is taken for ours")
	}
	if !(holder{os.Getpid(), 5}).isOurs() {
		t.Error("this program is not taken for ours")
	}
}
