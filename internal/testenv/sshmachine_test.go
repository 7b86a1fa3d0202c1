package testenv

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What root's shell does here at each login is not done by a machine of a test.
func TestSSHMachineHasNoShellSetup(t *testing.T) {
	m := NewSSHMachine(t, "plain")
	home, err := os.UserHomeDir()
	Must(t, err)
	file := filepath.Join(home, ".bashrc")
	if here, err := os.Stat(file); err != nil || here.Size() == 0 {
		t.Skipf("root's shell is not set up here: %s is not there, or empty", file)
	}
	if size := strings.TrimSpace(m.Output(t, "sh", "-c", "wc -c < ~root/.bashrc")); size != "0" {
		t.Errorf("the machine's shell reads %s bytes of this one's %s", size, file)
	}
}
