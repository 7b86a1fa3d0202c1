package setting

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// TestHolderOfOthers: who holds a file must be a process of our user.
func TestHolderOfOthers(t *testing.T) {
	other := 1 // which is root's
	if os.Geteuid() == 0 {
		const nobody = 65534
		cmd := exec.Command("/bin/sleep", "60")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}()
		other = cmd.Process.Pid
	}
	if (pmqosHolder{other, 5}).isOurs() {
		t.Error("a process of another user is taken for ours")
	}
	if !(pmqosHolder{os.Getpid(), 5}).isOurs() {
		t.Error("this process is not taken for ours")
	}
}
