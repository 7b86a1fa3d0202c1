package node_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath/node"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

// lastPID is the ID of the namespace's last process; the next one gets the one after it.
const lastPID = "/proc/sys/kernel/ns_last_pid"

// When the process that carries has ended, another that has got its ID is not killed in its place.
func TestHolderOfReusedID(t *testing.T) {
	testenv.Root(t)
	if _, err := os.Stat(lastPID); err != nil {
		t.Skipf("this kernel cannot be told which ID comes next: %v", err)
	}
	folder := t.TempDir()
	start := func() *exec.Cmd {
		t.Helper()
		f, err := os.Open(folder)
		testenv.Must(t, err)
		defer f.Close()
		cmd := exec.Command("sleep", "1000")
		cmd.ExtraFiles = []*os.File{f}
		testenv.Must(t, cmd.Start())
		return cmd
	}
	end := func(cmd *exec.Cmd) {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	first := start()
	testenv.Must(t, netcfg.ReplaceJSON(filepath.Join(folder, "process"), first.Process.Pid))
	holder := node.HolderOf(folder)
	end(first)
	if holder == nil {
		t.Fatal("the process that has the folder open is not found")
	}
	for range 1000 { // somebody else may get the ID first
		testenv.Must(t, os.WriteFile(lastPID, []byte(fmt.Sprint(holder.Pid-1)), 0))
		other := start()
		if other.Process.Pid != holder.Pid {
			end(other)
			continue
		}
		defer end(other)
		if err := holder.Kill(); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("the process that has ended was killed: %v", err)
		}
		var status syscall.WaitStatus
		if pid, err := syscall.Wait4(other.Process.Pid, &status, syscall.WNOHANG, nil); pid != 0 || err != nil {
			t.Errorf("the other process has ended: %v, %v", status, err)
		}
		return
	}
	t.Fatalf("no other process has got the ID %d", holder.Pid)
}
