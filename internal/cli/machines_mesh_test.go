package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
)

// A mesh of machines that ssh reaches is measured, kept and printed again. An interruption leaves
// what was measured, and nothing on the machines; one of them that another run has costs itself.
func TestMeshOfMachines(t *testing.T) {
	testenv.Root(t)
	p := newMachinePair(t)
	kept := filepath.Join(t.TempDir(), "mesh.json")
	p.run([]int{0}, []string{"2 nodes: measured, not judged", "between machines, 3 passes in 3 rounds", "tcp_lat", "It takes 6 nodes"},
		"mesh", "--load", "tcp_lat", "--passes", "3", "--out", kept)
	p.run([]int{0}, []string{"<svg", "1.00x of what its nodes lead to expect"}, "mesh", "--read", kept, "--format", "html")

	c := p.start("mesh", "--load", "tcp_lat", "--passes", "100000", "--budget", "10m")
	p.await(host.ScaleTimeout(2*time.Minute), "measuring", func() bool { return strings.Contains(c.output(), "pass 4;") })
	p.run([]int{5}, []string{"cannot measure any pair of nodes", "mesh --load tcp_lat --passes 100000"}, "mesh", "--load", "tcp_lat")
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	if code := c.ProcessState.ExitCode(); code != 130 || !strings.Contains(c.output(), "2 nodes: measured") {
		t.Errorf("interrupted: exit code %d: %s", code, c.output())
	}
	for _, m := range p.machines {
		m.WantNothingLeft(t, restoredWithin)
	}
}
