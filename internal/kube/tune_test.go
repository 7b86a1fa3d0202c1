package kube_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"

	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

// A plan changes nothing. Applied, the settings of the API are there once and those of the nodes on
// each that takes new pods; undo restores all of it, and who manages it, to the byte. The calls are
// those of the printed Role, and no others.
func TestTuneCluster(t *testing.T) {
	testenv.Root(t)
	c := newTuned(t, 2)
	c.APIServer.AddNode("n3", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	flags := []string{"tune", "--profile", "balanced", "--cluster", "--dev", "eth0"}
	said := c.run(verr.OK, flags...)
	want(t, said, "the cluster:", "cil.masq: off -> on", "configmaps/kube-system/cilium-config", "-    enable-bpf-masquerade: \"false\"", "+    enable-bpf-masquerade: \"true\"",
		"fields that helm manages", "kubectl -n kube-system rollout restart daemonset/cilium", "nodes n1, n2:", "nic.seg", "Nothing was changed")
	c.asBefore()
	for _, call := range c.Calls() {
		if strings.HasPrefix(call, "patch ") || strings.HasPrefix(call, "create /configmaps") {
			t.Errorf("a plan has called %s", call)
		}
	}
	said = c.run(verr.OK, append(flags, "--apply")...)
	want(t, said, `data.enable-bpf-masquerade: "false" -> "true"`, "nodes n1, n2:", "kubectl -n kube-system rollout restart daemonset/cilium", "undo with: kubectl venturi undo 1")
	if c.data()["enable-bpf-masquerade"] != "true" || c.data()["enable-hubble"] != "true" || managersOf(c.Object(ciliumPath))["venturi-tune-1/Apply"] == nil {
		t.Errorf("applied: %v", c.Object(ciliumPath))
	}
	for i, m := range c.machines {
		if m.Output(t, "ethtool", "-k", "eth0") == c.links[i] {
			t.Errorf("nothing has changed on %s", m.Name)
		}
		h, err := journal.ReadHistory(m.Root() + journal.Folder)
		if err != nil || len(h.Txns) != 1 || !h.Txns[0].Open() {
			t.Errorf("the journal on %s: %+v, %v", m.Name, h.Txns, err)
		}
	}
	if left := c.Remaining(); !slices.Equal(left, []string{"the journal"}) {
		t.Errorf("left: %v", left)
	}
	want(t, c.run(verr.OK, append(flags, "--apply")...), "nothing had to be changed")
	want(t, c.run(verr.Usage, "undo", "7"), "the open ones are 1 (")
	want(t, c.run(verr.OK, "undo"), "restored", "node n1: restored", "node n2: restored")
	c.asBefore()
	want(t, c.run(verr.OK, "undo"), "nothing to undo")
	checkRole(t, c)
}

// checkRole wants the calls so far to be in the printed Role.
func checkRole(t *testing.T, c *tuned) {
	t.Helper()
	allowed := map[string]bool{"create authorization.k8s.io/selfsubjectaccessreviews": true}
	for d := yaml.NewDecoder(strings.NewReader(c.run(verr.OK, "rbac", "tune", "--trial"))); ; {
		var role struct {
			Kind  string
			Rules []struct {
				APIGroups     []string `yaml:"apiGroups"`
				Resources     []string
				ResourceNames []string `yaml:"resourceNames"`
				Verbs         []string
			}
		}
		if d.Decode(&role) != nil {
			break
		}
		for _, r := range role.Rules {
			for _, verb := range r.Verbs {
				allowed[verb+" "+r.APIGroups[0]+"/"+r.Resources[0]] = true
				if verb == "*" || r.Resources[0] == "*" || r.Resources[0] == "secrets" || r.Resources[0] == "configmaps" && verb != "create" && len(r.ResourceNames) == 0 {
					t.Errorf("too much: %+v", r)
				}
			}
		}
	}
	for _, call := range c.Calls() {
		if !allowed[call] {
			t.Errorf("the call %q is in no Role", call)
		}
	}
}

// What somebody else has changed or claimed since is reported, with who, and stays.
func TestUndoConflict(t *testing.T) {
	c := newTuned(t, 0)
	c.run(verr.OK, "tune", "--profile", "cilium", "--cluster", "--apply")
	c.UpdateObject(t, ciliumPath, "argocd", func(o map[string]any) { o["data"].(map[string]any)["enable-hubble"] = "maybe" })
	said := c.run(verr.Partial, "undo", "1")
	want(t, said, "conflict   configmaps/kube-system/cilium-config: data.enable-hubble", "argocd (", `it was "true", we wrote "false", it is "maybe"`, "restored   configmaps/kube-system/cilium-config: data.enable-bpf-masquerade")
	if c.data()["enable-hubble"] != "maybe" || c.data()["enable-bpf-masquerade"] != "false" {
		t.Errorf("after the undo: %v", c.data())
	}
	want(t, c.run(verr.Partial, "undo", "1"), "conflict")
	want(t, c.run(verr.OK, "undo", "1", "--force"), "restored")
	c.asBefore()

	c.run(verr.OK, "tune", "--profile", "cilium", "--cluster", "--apply")
	c.UpdateObject(t, ciliumPath, "argocd", func(o map[string]any) { delete(o["data"].(map[string]any), "enable-hubble") })
	want(t, c.run(verr.Partial, "undo"), "conflict", "it is absent")
	want(t, c.run(verr.OK, "undo", "--leave"), "left")
	if _, there := c.data()["enable-hubble"]; there || len(c.Remaining()) > 0 {
		t.Errorf("left: %v, %v", c.data(), c.Remaining())
	}
}

// Where one node fails, nothing is changed on any, nor in the API.
func TestTuneNodeFails(t *testing.T) {
	testenv.Root(t)
	c := newTuned(t, 2)
	b := c.machines[1]
	b.Do(t, "sh", "-c", "mkdir -p -m 700 /var/lib/venturi/journal; touch /var/lib/venturi/journal/journal; (flock /var/lib/venturi/journal/journal sleep 1000 >/dev/null 2>&1 &)")
	said := c.run(verr.Failed, "tune", "--profile", "balanced", "--cluster", "--dev", "eth0", "--apply")
	want(t, said, "n2: ")
	for pid := range b.Processes() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	c.asBefore()
	for _, call := range c.Calls() {
		if call == "patch /configmaps" {
			t.Error("the API was written to before all nodes were ready")
		}
	}

	// Nor where a node has no agent, which is told by its name.
	c.Node(1).Status.Conditions[0].Status = corev1.ConditionUnknown
	want(t, c.run(verr.Failed, "tune", "--profile", "balanced", "--cluster", "--dev", "eth0", "--apply"), "n2: the node is not ready", "--nodes")
	c.asBefore()
	c.Node(1).Status.Conditions[0].Status = corev1.ConditionTrue

	// Nor where a right is missing; then not even a pod is made.
	c.Forbid("patch /configmaps")
	before := len(c.Calls())
	want(t, c.run(verr.Permission, "tune", "--profile", "balanced", "--cluster", "--dev", "eth0", "--apply"), "patch configmaps/cilium-config in namespace kube-system")
	if calls := c.Calls()[before:]; slices.ContainsFunc(calls, func(call string) bool { return strings.HasSuffix(call, "/jobs") }) {
		t.Errorf("the calls were %v", calls)
	}
	c.asBefore()
}

// Ctrl-C in the midst of it: nothing stays changed.
func TestTuneInterrupted(t *testing.T) {
	testenv.Root(t)
	c := newTuned(t, 2)
	cmd, out := c.plugin("tune", "--profile", "balanced", "--cluster", "--dev", "eth0", "--apply")
	var once sync.Once
	changed := false
	c.BeforeCall(func(right string) {
		if right != "patch /configmaps" {
			return
		}
		once.Do(func() {
			changed = c.machines[0].Output(t, "ethtool", "-k", "eth0") != c.links[0]
			_ = cmd.Process.Signal(os.Interrupt)
			time.Sleep(time.Second) // it is on its way when the write comes
		})
	})
	_ = cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != verr.Interrupted || !changed {
		t.Errorf("exit code %d, with n1 changed: %v:\n%s", code, changed, out)
	}
	c.asBefore()
}

// Where the command is killed, the nodes undo their changes by themselves, and undo does the rest.
func TestTuneKilled(t *testing.T) {
	testenv.Root(t)
	c := newTuned(t, 2)
	c.runKilled("tune", "--profile", "balanced", "--cluster", "--dev", "eth0", "--apply")
	c.nodesAsBefore()
	c.EndJobs()
	want(t, c.run(verr.OK, "undo"), "data.enable-bpf-masquerade", "node n1: nothing to undo", "node n2: nothing to undo")
	c.asBefore()
}

// Where the API server does not say what became of a write, the journal keeps it, and undo sees to it.
func TestTuneInDoubt(t *testing.T) {
	c := newTuned(t, 0)
	c.BeforeCall(func(right string) {
		if right == "patch /configmaps" {
			panic(http.ErrAbortHandler) // the connection breaks
		}
	})
	want(t, c.run(verr.Failed, "tune", "--profile", "cilium", "--cluster", "--apply"), "did not say whether", "kubectl venturi undo 1")
	c.BeforeCall(func(string) {})
	want(t, c.run(verr.OK, "undo"), "unchanged")
	c.asBefore()
}

// The file of the published script is read: the API once, and host and device of every node.
func TestTuneConfig(t *testing.T) {
	testenv.Root(t)
	c := newTuned(t, 2)
	file := filepath.Join(t.TempDir(), "config")
	config := func(cilium string) {
		testenv.Must(t, os.WriteFile(file, []byte("DEVICE=eth0\nCILIUM_NAMESPACE=kube-system\nTUNING_CILIUM="+cilium+"\n"), 0o600))
	}
	config("true")
	want(t, c.run(verr.OK, "tune", "--profile", "cilium", "--config", file, "--all"), "cil.hubble: on -> off", "nodes n1, n2:", "CPU governor", "rings to the maximum")
	config("false")
	said := c.run(verr.OK, "tune", "--profile", "cilium", "--config", file, "--cluster")
	want(t, said, "TUNING_CILIUM is not true", "nodes n1, n2:")
	if strings.Contains(said, "cil.hubble") {
		t.Errorf("the API is in the plan:\n%s", said)
	}
	c.asBefore()
}

// What would restart pods by itself is left to a person, with the command for it; where it would
// not, it is written, and undone.
func TestTuneDaemonSet(t *testing.T) {
	for strategy, written := range map[string]bool{"RollingUpdate": false, "OnDelete": true} {
		c := newTuned(t, 0)
		var agent map[string]any
		testenv.Must(t, json.Unmarshal([]byte(`{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"kube-ovn-cni","namespace":"kube-system"},
"spec":{"selector":{"matchLabels":{"app":"kube-ovn-cni"}},"updateStrategy":{"type":"`+strategy+`"},"template":{"spec":{"containers":[
{"name":"sidecar","args":["--x"]},{"name":"cni-server","image":"i","args":["--enable-mirror=true","--mtu=1400"]}]}}}}`), &agent))
		c.AddObject(agentPath, "kubectl-client-side-apply", agent)
		before := c.Object(agentPath)
		said := c.run(verr.OK, "tune", "--profile", "balanced", "--cluster", "--apply")
		args := func() any {
			return c.Object(agentPath)["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["containers"].([]any)[1].(map[string]any)["args"]
		}
		if got := fmt.Sprint(args()); (got == "[--enable-mirror=false --mtu=1400]") != written {
			t.Errorf("%s: %v:\n%s", strategy, got, said)
		}
		plan := c.run(verr.OK, "tune", "--profile", "balanced", "--cluster")
		if written {
			want(t, said, "delete pod -l app=kube-ovn-cni", "spec.template.spec.containers[cni-server].args")
		} else {
			want(t, plan, "left to you", "kubectl -n kube-system patch daemonset kube-ovn-cni --type json -p", "/spec/template/spec/containers/1/args")
		}
		c.run(verr.OK, "undo")
		if after := c.Object(agentPath); !reflect.DeepEqual(after["spec"], before["spec"]) || !reflect.DeepEqual(managersOf(after), managersOf(before)) {
			t.Errorf("%s: it was\n%v\nand is\n%v", strategy, before, after)
		}
		c.asBefore()
	}
}

// What cannot be done in a cluster is refused before anything is asked of it.
func TestTuneRefused(t *testing.T) {
	c := newTuned(t, 0)
	for args, said := range map[string]string{
		"--cluster --prove":             "when its pods restart",
		"--cluster --host --prove":      "when its pods restart",
		"--host --prove --path vxlan":   "the paths between two nodes are host and pod",
		"--host --prove --nodes n1":     "two nodes",
		"--host --prove --budget 1s":    "give at least --budget",
		"--host --prove --apply":        "prove",
		"--host --budget 5m":            "nothing is measured without --prove",
		"--cluster --trial 60s":         "nothing is changed without --apply",
		"--cluster --apply --trial 1ms": "shorter than a second",
		"--host --prove --trial 60s":    "prove",
		"":                              "no target is given",
		"--cluster --nodes n1":          "no node is touched",
		"--host --nodes n1,n1":          "twice",
		"--cluster --plan --apply":      "plan",
		"--cluster --apply --all":       "all",
	} {
		want(t, c.run(verr.Usage, append([]string{"tune", "--profile", "cilium"}, strings.Fields(args)...)...), said)
	}
	if calls := c.Calls(); len(calls) > 0 {
		t.Errorf("calls: %v", calls)
	}
}
