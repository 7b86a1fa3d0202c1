package cli

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The systemd unit starts the command with flags that it has, and keeps its records where
// the unit lets it write.
func TestWatchUnit(t *testing.T) {
	const file = "../../contrib/systemd/venturi-watch.service"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	started := regexp.MustCompile(`(?m)^ExecStart=\S*/venturi watch (.*)$`).FindStringSubmatch(string(text))
	if started == nil {
		t.Fatal("it starts no venturi watch")
	}
	cmd := newWatch(&Env{Stderr: io.Discard})
	if err := cmd.ParseFlags(strings.Fields(started[1])); err != nil {
		t.Error(err)
	}
	state := regexp.MustCompile(`(?m)^StateDirectory=(.*)$`).FindStringSubmatch(string(text))
	if out := cmd.Flags().Lookup("out").Value.String(); state == nil || out != "/var/lib/"+state[1] {
		t.Errorf("records go to %s, and the unit may write to %q", out, state)
	}
	program, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze here")
	}
	// It wants the program to be there.
	copied := filepath.Join(t.TempDir(), "venturi-watch.service")
	if err := os.WriteFile(copied, []byte(strings.ReplaceAll(string(text), "/usr/local/bin/venturi", "/bin/true")), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(program, "verify", copied).CombinedOutput(); err != nil {
		t.Errorf("systemd-analyze: %v\n%s", err, out)
	}
}
