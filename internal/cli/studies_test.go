package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/study"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

// shortForms say how a study is cut to a size that is over in minutes: the text of its file,
// and what its options need.
var shortForms = map[string]struct {
	cut  *strings.Replacer
	args []string
}{
	"calico-bgp-vs-ovs": {strings.NewReplacer("8:256K:*2", "8,4K,256K", "budget: 5m", "budget: 50s"), nil},
	"cilium-tuning":     {strings.NewReplacer("budget: 4m", "budget: 15s"), nil},
	"kube-ovn-tuning":   {strings.NewReplacer("budget: 5m", "budget: 50s", `"1,1K,4K"`, `"1,1K"`, `"1K,4K"`, "1K"), nil},
	"ovs-vxlan-latency": {strings.NewReplacer("budget: 12m", "budget: 90s"), nil},
	// Nothing but a kernel with modules has its paths.
	"qinq": {strings.NewReplacer("budget: 10m", "budget: 160s", "640", "10", "20G", "100M", "1G", "50M"), []string{"--kernel", "6.12"}},
}

// TestStudies runs every study that comes with Venturi to its tables, in a short form.
func TestStudies(t *testing.T) {
	testenv.NeedsLong(t)
	testenv.Root(t)
	venturi := ownCopy(t)
	for _, name := range study.Names() {
		t.Run(name, func(t *testing.T) {
			form, ok := shortForms[name]
			if !ok {
				t.Fatal("the study has no short form here: add a line")
			}
			text, err := os.ReadFile(filepath.Join("..", "..", "studies", name+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			file := filepath.Join(dir, name+".yaml")
			if err := os.WriteFile(file, []byte(form.cut.Replace(string(text))), 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := study.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			var out, errs bytes.Buffer
			cmd := exec.CommandContext(t.Context(), venturi, append([]string{"study", "run", file, "--wait", "--out", filepath.Join(dir, "run")}, form.args...)...)
			cmd.Stdout, cmd.Stderr = &out, &errs
			if err := cmd.Run(); cmd.ProcessState == nil || err != nil && cmd.ProcessState.ExitCode() != verr.Partial {
				t.Fatalf("%v\n%s", err, &errs)
			}
			for _, table := range s.Tables {
				for _, path := range table.Paths {
					if !strings.Contains(out.String(), path) {
						t.Errorf("no row of %s in:\n%s", path, &out)
					}
				}
			}
		})
	}
}

// ownCopy is this test binary under the name by which it is venturi, for itself and for the
// agents that it starts.
func ownCopy(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "venturi")
	if err := os.WriteFile(name, program, 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}
