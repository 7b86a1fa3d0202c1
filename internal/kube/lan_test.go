package kube_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/kube"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

// lanCluster is a fake cluster whose nodes are namespaces on one bridge, with a real agent for each.
// It sees the network of its node, and no process but its own.
type lanCluster struct {
	*tuned
	program string
	netns   map[string]*netcfg.Namespace // by node
}

// startsAtOnce is how many agents start at a time: two cores play all nodes.
const startsAtOnce = 4

func newLANCluster(t *testing.T, nodes int) *lanCluster {
	t.Helper()
	c := &lanCluster{tuned: &tuned{t: t}, program: filepath.Join(t.TempDir(), "venturi"), netns: map[string]*netcfg.Namespace{}}
	c.APIServer, c.kubeconfig = kube.NewAPIServer(t, nodes)
	binary, err := os.Executable()
	testenv.Must(t, err)
	testenv.Must(t, os.Symlink(binary, c.program))
	for i, in := range testenv.LAN(t, "192.0.2", nodes) {
		c.netns[c.Node(i).Name] = in
	}
	c.StartSlowly(startsAtOnce)
	c.RunAgents(c.agent)
	return c
}

// agent is what the container of an agent does. When it is ready, one more may start.
func (c *lanCluster) agent(node string, command []string, in io.Reader, out io.Writer) {
	var once sync.Once
	next := func() { once.Do(c.RunPending) }
	defer next()
	run := exec.Command("unshare", append([]string{"--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private",
		"sh", "-c", `mount -t tmpfs none /run/netns && exec "$@"`, "sh", c.program}, command[1:]...)...)
	run.Stdout, run.Stderr = writerFunc(func(b []byte) (int, error) { next(); return out.Write(b) }), os.Stderr
	stdin, err := run.StdinPipe() // not Stdin: Wait would wait for the end of the stream
	if err != nil || host.Do(c.netns[node].Path(), run.Start) != nil {
		return
	}
	go func() {
		_, _ = io.Copy(stdin, in)
		_ = stdin.Close()
	}()
	_ = run.Wait()
}

type writerFunc func([]byte) (int, error)

// Write is of [io.Writer].
func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// Fifty nodes are examined, each by the agent that has its address, and nothing is left.
func TestDoctorOnFiftyNodes(t *testing.T) {
	testenv.NeedsLong(t)
	const count = 50
	c := newLANCluster(t, count)
	cmd, said := c.plugin("doctor", "--json", "--interval", "0")
	var out bytes.Buffer
	cmd.Stdout = &out
	_ = cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != verr.OK && code != verr.Findings {
		t.Fatalf("exit code %d:\n%s", code, said)
	}
	var r struct {
		Machines []string
		Cluster  struct {
			Nodes []struct {
				Name, Address, Uplink string
				MTU                   int
			}
			Unreached []struct{ Name, Reason string }
		}
	}
	testenv.Must(t, json.Unmarshal(out.Bytes(), &r))
	if len(r.Cluster.Nodes) != count || len(r.Machines) != count || len(r.Cluster.Unreached) > 0 {
		t.Errorf("%d nodes, %d of them examined, not reached: %+v", len(r.Cluster.Nodes), len(r.Machines), r.Cluster.Unreached)
	}
	seen := map[string]bool{}
	for _, n := range r.Cluster.Nodes {
		seen[n.Address] = true
		if n.Uplink != "eth0" || n.MTU != 1500 {
			t.Errorf("node %+v", n)
		}
	}
	if len(seen) != count {
		t.Errorf("%d addresses", len(seen))
	}
	if left := c.Remaining(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
