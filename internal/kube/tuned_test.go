package kube_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/kube"
	"github.com/venturi-net/venturi/internal/testenv"
)

const (
	ciliumPath = "/api/v1/namespaces/kube-system/configmaps/cilium-config"
	agentPath  = "/apis/apps/v1/namespaces/kube-system/daemonsets/kube-ovn-cni"
)

// tuned is a fake cluster to be tuned, with a real agent in a machine of its own for each node.
type tuned struct {
	*kube.APIServer
	t          *testing.T
	kubeconfig string
	machines   []*testenv.SSHMachine
	links      []string // features of their devices
	cilium     map[string]any
	leaseMu    sync.Mutex
	lease      *os.Process // of the pod that ends a trial; nil: it does not run
}

func newTuned(t *testing.T, nodes int) *tuned {
	t.Helper()
	c := &tuned{t: t}
	c.APIServer, c.kubeconfig = kube.NewAPIServer(t, max(nodes, 1))
	c.AddObject(ciliumPath, "helm", map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "cilium-config", "namespace": "kube-system"},
		"data": map[string]any{"routing-mode": "native", "kube-proxy-replacement": "true", "enable-bpf-masquerade": "false", "enable-hubble": "true", "enable-host-legacy-routing": "true",
			"auto-direct-node-routes": "true", "ipv4-native-routing-cidr": "10.244.0.0/16", "cluster-pool-ipv4-cidr": "10.244.0.0/16", "identity-allocation-mode": "crd"}})
	c.cilium = c.Object(ciliumPath)
	program, err := os.Executable()
	testenv.Must(t, err)
	for i := range nodes {
		m := testenv.NewSSHMachine(t, fmt.Sprintf("n%d", i+1))
		m.Install(t, program)
		c.machines = append(c.machines, m)
	}
	for i := 0; i+1 < nodes; i += 2 {
		testenv.Join(t, c.machines[i], c.machines[i+1])
	}
	for _, m := range c.machines {
		m.Do(t, "ethtool", "-K", "eth0", "tso", "off", "gso", "off", "gro", "off")
		c.links = append(c.links, m.Output(t, "ethtool", "-k", "eth0"))
	}
	c.RunAgents(c.agent)
	c.OnPod(c.runLease)
	return c
}

// runLease does with the pod that has a service account what its Job does: it runs the program, again
// if that fails. At its end the Job is removed.
func (c *tuned) runLease(pod *corev1.Pod) {
	if pod.Spec.ServiceAccountName == "" {
		return
	}
	out := &testenv.Output{}
	over := make(chan struct{})
	ended := make(chan struct{})
	c.t.Cleanup(func() {
		close(over)
		c.signalLease(syscall.SIGKILL)
		<-ended
		if c.t.Failed() {
			c.t.Logf("the pod of the trial: %s", out)
		}
	})
	go func() {
		defer close(ended)
		for c.runsLease(over) {
			cmd, _ := c.command("venturi", pod.Spec.Containers[0].Command[1:]...)
			cmd.Stdout, cmd.Stderr = out, out
			c.leaseMu.Lock()
			if err := cmd.Start(); err != nil {
				c.t.Error(err)
			}
			c.lease = cmd.Process
			c.leaseMu.Unlock()
			if cmd.Wait() == nil {
				c.FinishJob(kube.TrialName, kube.TrialName)
			}
		}
	}()
}

// runsLease tells whether there is a Job of a trial, a moment later, until over is closed.
func (c *tuned) runsLease(over <-chan struct{}) bool {
	select {
	case <-over:
		return false
	case <-time.After(100 * time.Millisecond):
		return slices.Contains(c.Remaining(), trialJob)
	}
}

const trialJob = "job " + kube.TrialName + "/" + kube.TrialName

// signalLease sends a signal to the program of the pod that ends a trial.
func (c *tuned) signalLease(s os.Signal) {
	c.leaseMu.Lock()
	defer c.leaseMu.Unlock()
	if c.lease != nil {
		_ = c.lease.Signal(s) // an error: it has ended
	}
}

// agent is what the container of an agent does: it has the node's processes and network, and
// files of its own.
func (c *tuned) agent(node string, command []string, in io.Reader, out io.Writer) {
	i := slices.IndexFunc(c.machines, func(m *testenv.SSHMachine) bool { return m.Name == node })
	if i < 0 {
		return
	}
	run := c.machines[i].Command(append([]string{"unshare", "--mount", "--propagation", "private", "sh", "-c",
		`mount -t tmpfs none /var/lib && exec /usr/local/bin/venturi "$@"`, "sh"}, command[1:]...)...)
	run.Stdout, run.Stderr = out, os.Stderr
	stdin, err := run.StdinPipe() // not Stdin: Wait would wait for the end of the stream
	if err != nil || run.Start() != nil {
		return
	}
	go func() {
		_, _ = io.Copy(stdin, in)
		_ = stdin.Close()
	}()
	_ = run.Wait()
}

// plugin is one command line of the plugin.
func (c *tuned) plugin(args ...string) (*exec.Cmd, *testenv.Output) {
	return c.command("kubectl-venturi", args...)
}

// command is one command line of the program that is called so.
func (c *tuned) command(name string, args ...string) (*exec.Cmd, *testenv.Output) {
	program, err := os.Executable()
	testenv.Must(c.t, err)
	out := &testenv.Output{}
	cmd := &exec.Cmd{Path: program, Args: append([]string{name}, append(args, "--kubeconfig", c.kubeconfig)...), Stdout: out, Stderr: out,
		Env: append(os.Environ(), "VENTURI_IMAGE=x"), SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}}
	return cmd, out
}

// run wants an exit code, and gives what was said.
func (c *tuned) run(code int, args ...string) string {
	c.t.Helper()
	cmd, out := c.plugin(args...)
	_ = cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != code {
		c.t.Fatalf("%v: exit code %d, want %d:\n%s", args, got, code, out)
	}
	return out.String()
}

// runKilled runs a command that is killed before its first write to the API's settings.
func (c *tuned) runKilled(args ...string) {
	c.t.Helper()
	cmd, _ := c.plugin(args...)
	var once sync.Once
	c.BeforeCall(func(right string) {
		if right == "patch /configmaps" {
			once.Do(func() { _ = cmd.Process.Kill() })
		}
	})
	_ = cmd.Run()
}

// want wants parts in a text.
func want(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("there is no %q in:\n%s", p, text)
		}
	}
}

// asBefore wants the API and the nodes as they were, with nothing of ours but the nodes' journals.
func (c *tuned) asBefore() {
	c.t.Helper()
	was, is := c.cilium, c.Object(ciliumPath)
	if !reflect.DeepEqual(is["data"], was["data"]) || !reflect.DeepEqual(managersOf(is), managersOf(was)) {
		c.t.Errorf("the ConfigMap was\n%v %v\nand is\n%v %v", was["data"], managersOf(was), is["data"], managersOf(is))
	}
	if left := c.Remaining(); len(left) > 0 {
		c.t.Errorf("left: %v", left)
	}
	c.nodesAsBefore()
}

// nodesAsBefore wants the nodes as they were.
func (c *tuned) nodesAsBefore() {
	c.t.Helper()
	for i, m := range c.machines {
		deadline := time.Now().Add(host.ScaleTimeout(10*time.Second) + 10*time.Second)
		for len(m.Processes()) > 0 && time.Now().Before(deadline) {
			time.Sleep(50 * time.Millisecond)
		}
		if now := m.Output(c.t, "ethtool", "-k", "eth0"); now != c.links[i] || len(m.Processes()) > 0 {
			c.t.Errorf("%s was\n%s\nand is\n%s with processes %v", m.Name, c.links[i], now, m.Processes())
		}
		h, err := journal.ReadHistory(m.Root() + journal.Folder)
		testenv.Must(c.t, err)
		for _, txn := range h.Txns {
			if txn.Open() {
				c.t.Errorf("transaction %d of %s is open", txn.ID, m.Name)
			}
		}
	}
}

// managersOf gives the fields of an object that each manager has.
func managersOf(object map[string]any) map[string]any {
	all := map[string]any{}
	metadata, _ := object["metadata"].(map[string]any)
	entries, _ := metadata["managedFields"].([]any)
	for _, e := range entries {
		entry := e.(map[string]any)
		all[fmt.Sprint(entry["manager"], "/", entry["operation"])] = entry["fieldsV1"]
	}
	return all
}

func (c *tuned) data() map[string]any { return c.Object(ciliumPath)["data"].(map[string]any) }
