package kube_test

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/kube"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

const journalPath = "/api/v1/namespaces/" + kube.LedgerNamespace + "/configmaps/" + kube.LedgerName

// A proof tries changes on two nodes, and on no other. However it ends, they are undone, or undo
// knows where.
func TestProveOnNodes(t *testing.T) {
	testenv.Root(t)
	for name, cut := range map[string]func(t *testing.T, c *tuned, cmd *exec.Cmd){
		"interrupted": func(t *testing.T, c *tuned, cmd *exec.Cmd) {
			_ = cmd.Process.Signal(os.Interrupt)
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != verr.Interrupted {
				t.Errorf("exit code %d", code)
			}
		},
		"killed": func(t *testing.T, c *tuned, cmd *exec.Cmd) {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			c.nodesAsBefore()
			c.EndJobs()
			want(t, c.run(verr.OK, "undo"), "node n1: nothing to undo", "node n2: nothing to undo")
		},
		"pod killed": func(t *testing.T, c *tuned, cmd *exec.Cmd) {
			for pid := range c.machines[1].Processes() {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			_ = cmd.Wait()
			out := cmd.Stdout.(*testenv.Output).String()
			if code := cmd.ProcessState.ExitCode(); code == verr.OK {
				t.Errorf("it ended well:\n%s", out)
			}
			want(t, out, "n2 may still have some of it", "kubectl venturi undo 1")
			want(t, c.run(verr.OK, "undo"), "node n2: ")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTuned(t, 4)
			cmd, out := c.plugin("tune", "--profile", "throughput", "--dev", "eth0", "--host", "--nodes", "n1,n2", "--prove", "--budget", "30m")
			testenv.Must(t, cmd.Start())
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			for end := time.Now().Add(host.ScaleTimeout(time.Minute)); !strings.Contains(out.String(), "measuring the path against itself"); time.Sleep(50 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("it measures nothing:\n%s", out)
				}
			}
			for i, m := range c.machines {
				h, err := journal.ReadHistory(m.Root() + journal.Folder)
				if tried := len(h.Txns) == 1 && len(h.Txns[0].Entries) > 0; err != nil || tried != (i < 2) {
					t.Errorf("%s has tried something: %v, %v, %+v", m.Name, tried, err, h.Txns)
				}
			}
			kept, _ := c.Object(journalPath)["data"].(map[string]any)
			text, _ := kept["transaction-1"].(string)
			want(t, text, `"nodes":["n1","n2"]`, "--prove")
			cut(t, c, cmd)
			c.asBefore()
			checkRole(t, c)
		})
	}
}
