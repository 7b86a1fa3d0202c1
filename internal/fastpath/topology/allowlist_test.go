package topology_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/testenv"
)

// Each row of the allowlist names an existing test.
func TestProofs(t *testing.T) {
	out, err := exec.Command("grep", "-rhoE", "^func Test[A-Za-z0-9]+", "--include=*_test.go", "..").Output()
	testenv.Must(t, err)
	tests := map[string]bool{}
	for _, line := range strings.Fields(string(out)) {
		tests[line] = true
	}
	rows := map[string]bool{}
	for _, p := range append(audit.Allowlist(), topology.Allowlist()...) {
		if !tests[p.Test] || len(p.Names) == 0 || rows[p.Kind] {
			t.Errorf("%s: its test %s is none, or it names nothing, or is there twice: %q", p.Kind, p.Test, p.Names)
		}
		rows[p.Kind] = true
	}
}
