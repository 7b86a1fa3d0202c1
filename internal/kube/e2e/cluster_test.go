// Package e2e_test measures a real cluster as a user would. `make test-cluster` runs it.
package e2e_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/cluster"
	"github.com/venturi-net/venturi/internal/testenv/clustertest"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

func TestMain(m *testing.M) {
	code := testenv.Run(m)
	os.RemoveAll(buildFolder)
	os.Exit(code)
}

// With the printed Role and nothing else, unprivileged pods are measured in a namespace that
// is restricted; without it the error names what is missing.
func TestClusterPlain(t *testing.T) { checkPlain(t, newPlugin(t)) }

func checkPlain(t *testing.T, p *plugin) {
	t.Helper()
	in := p.namespace(t, "restricted")
	nobody := p.asUser(t, "nobody", "")
	if code, said := p.run("compare", "-n", in, "--kubeconfig", nobody); code != verr.Permission || !strings.Contains(said, "create pods/exec in namespace "+in) {
		t.Errorf("without rights: exit code %d:\n%s", code, said)
	}
	code, roles := p.run("rbac", "-n", in, "--user", "jane")
	if code != 0 {
		t.Fatal(roles)
	}
	jane := p.asUser(t, "jane", roles)
	if code, said := p.run("compare", "-n", in, "--kubeconfig", jane, "--node-agents"); code != verr.Permission || !strings.Contains(said, "violates PodSecurity") {
		t.Errorf("agents on nodes: exit code %d:\n%s", code, said)
	}
	rec := p.compare(t, "-n", in, "--kubeconfig", jane)
	arms(t, rec, "pod", "pod.copy", "pod-local", "service", "nodeport")
	p.nothingLeft(t, 0, "pods", "services", "jobs")
}

// With its ClusterRole and nothing else, agents on two nodes measure all paths against the
// host network, in a namespace of their own.
func TestClusterNodeAgents(t *testing.T) { checkNodeAgents(t, newPlugin(t)) }

func checkNodeAgents(t *testing.T, p *plugin) {
	t.Helper()
	_, roles := p.run("rbac", "--node-agents", "--user", "joe")
	rec := p.compare(t, "--node-agents", "--nodes", "n2,n1", "--kubeconfig", p.asUser(t, "joe", roles))
	arms(t, rec, "host", "host.copy", "pod", "pod-local", "service", "nodeport")
	if len(rec.Facts) != 2 || rec.Facts[0].Machine != "n2" || rec.Facts[1].Machine != "n1" {
		t.Errorf("facts: %+v", rec.Facts)
	}
	if host := rec.Plan.Arms[0]; host.From != p.Nodes[1].IP || host.To != p.Nodes[0].IP || host.Options != "from=n2,to=n1" {
		t.Errorf("host: %+v", host)
	}
	metered := false
	for _, m := range rec.Meters {
		metered = metered || m.Name == "cpu" && m.Arm == "pod"
	}
	if !metered {
		t.Error("no agent counted CPU time")
	}
	p.nothingLeft(t, 0, everything...)
}

// Pods' packets without a tunnel, and Services by nftables: the same holds at both levels, and for the fast path. A
// third node is lost in the middle of a mesh.
func TestClusterHostGateway(t *testing.T) {
	c := clustertest.Raise(t, cluster.Options{Nodes: 3, Backend: "host-gw", ProxyMode: "nftables"})
	t.Run("plain", func(t *testing.T) { checkPlain(t, newPluginFor(t, c)) })
	t.Run("node", func(t *testing.T) { checkNodeAgents(t, newPluginFor(t, c)) })
	t.Run("fast path", func(t *testing.T) { checkFlannelHostGateway(t, newFastPaths(t, newPluginFor(t, c))) })
	t.Run("mesh", func(t *testing.T) { checkMeshLoses(t, newPluginFor(t, c), "n3") })
}

// Between pods that are there, whose images have nothing of ours.
func TestClusterNamedPods(t *testing.T) {
	p := newPlugin(t)
	in := p.namespace(t, "restricted")
	p.toolPods(t, in, "cart", "db")
	rec := p.compare(t, "--node-agents", "--from", in+"/cart", "--to", in+"/db")
	arms(t, rec, "host", "host.copy", "pod")
	if pod := rec.Plan.Arms[2]; pod.Options != "from="+in+"/cart,to="+in+"/db" {
		t.Errorf("pod: %+v", pod)
	}
	p.nothingLeft(t, 0, everything...)
}

// start begins a long run, and returns when it measures.
func (p *plugin) start(t *testing.T) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	cmd, said := p.command("compare", "pod", "--load", "tcp_lat", "--series", "200", "--rounds", "12")
	testenv.Must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	await(t, "it measures", func() bool { return p.measured() > 0 })
	return cmd, said
}

// measured is the length of the newest record.
func (p *plugin) measured() (size int64) {
	files, _ := filepath.Glob(filepath.Join(p.folder, "venturi-runs", "*", result.FileName))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		if bytes.Contains(text, []byte("\n{\"slice\":")) {
			size = int64(len(text))
		}
	}
	return size
}

// However the client ends, nothing is left after a minute but an empty namespace, which the
// next run removes.
func TestClusterClientEnds(t *testing.T) {
	t.Run("Ctrl-C", func(t *testing.T) {
		p := newPlugin(t)
		cmd, said := p.start(t)
		testenv.Must(t, cmd.Process.Signal(os.Interrupt))
		_ = cmd.Wait()
		if cmd.ProcessState.ExitCode() != verr.Interrupted || !strings.Contains(said.String(), "tcp_lat") {
			t.Errorf("exit code %d:\n%s", cmd.ProcessState.ExitCode(), said)
		}
		p.nothingLeft(t, 0, everything...)
	})
	t.Run("kill -9", func(t *testing.T) {
		p := newPlugin(t)
		cmd, _ := p.start(t)
		testenv.Must(t, cmd.Process.Kill())
		_ = cmd.Wait()
		if code, said := p.run("compare", "pod", "--load", "tcp_lat"); code != verr.Busy {
			t.Errorf("at once: exit code %d:\n%s", code, said)
		}
		p.nothingLeft(t, removal, "pods", "services", "jobs")
		if code, said := p.run("compare", "pod", "--load", "tcp_lat", "--series", "1", "--rounds", "2"); code != 0 {
			t.Errorf("the next run: exit code %d:\n%s", code, said)
		}
		p.nothingLeft(t, removal, everything...)
	})
	t.Run("cleanup", func(t *testing.T) {
		p := newPlugin(t)
		cmd, _ := p.start(t)
		testenv.Must(t, cmd.Process.Kill())
		_ = cmd.Wait()
		if code, said := p.run("cleanup"); code != 0 || !strings.Contains(said, "removed namespace venturi-") {
			t.Errorf("exit code %d:\n%s", code, said)
		}
		p.nothingLeft(t, 0, everything...)
	})
}

// When the API server does not answer for 30 s in the middle of a run, what was measured is
// reported, and nothing is left.
func TestClusterAPIServerAway(t *testing.T) {
	p := newPlugin(t)
	pids, err := p.PIDs("", "kube-apiserver")
	if err != nil || len(pids) != 1 {
		t.Fatalf("API servers: %v, %v", pids, err)
	}
	cmd, said := p.start(t)
	resume := func() { _ = syscall.Kill(pids[0], syscall.SIGCONT) }
	t.Cleanup(resume)
	testenv.Must(t, syscall.Kill(pids[0], syscall.SIGSTOP))
	time.AfterFunc(30*time.Second, resume)
	_ = cmd.Wait()
	if cmd.ProcessState.ExitCode() != verr.Partial || !strings.Contains(said.String(), "tcp_lat") {
		t.Errorf("exit code %d:\n%s", cmd.ProcessState.ExitCode(), said)
	}
	p.nothingLeft(t, removal, everything...)
}
