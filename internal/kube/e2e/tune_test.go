package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/kube"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

const (
	ciliumConfig = "/api/v1/namespaces/kube-system/configmaps/cilium-config"
	ledger       = "/api/v1/namespaces/" + kube.LedgerNamespace + "/configmaps/" + kube.LedgerName
)

// tunables are what a tuning of the cluster changes.
type tunables struct {
	*plugin
	before []string
}

// newTunables gives the cluster Cilium's settings, which is all of Cilium that a tuning touches, and
// has segmentation be off on each node.
func newTunables(t *testing.T, p *plugin) *tunables {
	t.Helper()
	testenv.Must(t, p.Request(t.Context(), http.MethodPost, "/api/v1/namespaces/kube-system/configmaps?fieldManager=helm", map[string]any{
		"metadata": map[string]any{"name": "cilium-config"},
		"data": map[string]any{"routing-mode": "native", "kube-proxy-replacement": "true", "enable-bpf-masquerade": "false", "enable-host-legacy-routing": "true",
			"auto-direct-node-routes": "true", "ipv4-native-routing-cidr": "10.244.0.0/16", "identity-allocation-mode": "crd"},
	}, nil))
	t.Cleanup(func() {
		if err := p.Request(context.Background(), http.MethodDelete, ciliumConfig, nil, nil); err != nil {
			t.Error(err)
		}
	})
	all := &tunables{plugin: p}
	for _, n := range p.Nodes {
		all.onNode(t, n.Name, "ethtool", "-K", "eth0", "tso", "off", "gso", "off")
		t.Cleanup(func() {
			if out, err := n.Enter(context.Background(), "ethtool", "-K", "eth0", "tso", "on", "gso", "on").CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	all.before = all.read(t)
	return all
}

// read gives all bytes of what can be changed: the object without the server's count of its
// versions and its times, and how the device of each node is set.
func (s *tunables) read(t *testing.T) (texts []string) {
	t.Helper()
	var object map[string]any
	testenv.Must(t, s.Request(t.Context(), http.MethodGet, ciliumConfig, nil, &object))
	metadata := object["metadata"].(map[string]any)
	delete(metadata, "resourceVersion")
	for _, entry := range metadata["managedFields"].([]any) {
		delete(entry.(map[string]any), "time")
	}
	text, err := json.MarshalIndent(object, "", " ")
	testenv.Must(t, err)
	texts = append(texts, string(text))
	for _, n := range s.Nodes {
		texts = append(texts, s.onNode(t, n.Name, "sh", "-c", "ethtool -k eth0; ip -details link show eth0; tc qdisc show dev eth0; sysctl -a --pattern '^net\\.(core|ipv4\\.(tcp|udp))' 2>/dev/null"))
	}
	return texts
}

// asBefore wants every byte as it was, and nothing of ours but the nodes' journals, all closed.
func (s *tunables) asBefore(t *testing.T) {
	t.Helper()
	for i, now := range s.read(t) {
		if now != s.before[i] {
			t.Errorf("it was\n%s\nand is\n%s", s.before[i], now)
		}
	}
	if err := s.Request(t.Context(), http.MethodGet, ledger, nil, nil); err == nil || !strings.Contains(err.Error(), "NotFound") {
		t.Errorf("the cluster's journal: %v", err)
	}
	for _, n := range s.Nodes {
		if open := s.openOn(t, n.PID); open > 0 {
			t.Errorf("%d transactions are open on %s", open, n.Name)
		}
	}
	s.nothingLeft(t, 0, everything...)
}

// openOn counts the open transactions in the journal of a node.
func (*plugin) openOn(t *testing.T, pid int) (open int) {
	t.Helper()
	h, err := journal.ReadHistory(fmt.Sprintf("/proc/%d/root%s", pid, journal.Folder))
	testenv.Must(t, err)
	for _, txn := range h.Txns {
		if txn.Open() {
			open++
		}
	}
	return open
}

func wantSaid(t *testing.T, said string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(said, part) {
			t.Errorf("there is no %q in:\n%s", part, said)
		}
	}
}

// With the printed rights and nothing else, a tuning is planned, made in the API and on every node,
// and undone to the byte.
func TestClusterTune(t *testing.T) {
	p := newPlugin(t)
	s := newTunables(t, p)
	code, roles := p.run("rbac", "tune", "--user", "tim")
	if code != 0 {
		t.Fatal(roles)
	}
	as := []string{"--kubeconfig", p.asUser(t, "tim", roles)}
	run := func(want int, args ...string) string {
		t.Helper()
		code, said := p.run(append(args, as...)...)
		if code != want {
			t.Fatalf("%v: exit code %d:\n%s", args, code, said)
		}
		return said
	}
	tune := []string{"tune", "--profile", "balanced", "--cluster", "--dev", "eth0"}
	wantSaid(t, run(0, append(tune, "--plan")...), "cil.masq: off -> on", `+    enable-bpf-masquerade: "true"`, "fields that helm manages", "nodes n1, n2:", "nic.seg", "Nothing was changed")
	s.asBefore(t)
	wantSaid(t, run(0, append(tune, "--apply")...), `data.enable-bpf-masquerade: "false" -> "true"`, "nodes n1, n2:", "undo with: kubectl venturi undo 1")
	changed := s.read(t)
	for i := range changed {
		if changed[i] == s.before[i] {
			t.Errorf("this is as before:\n%s", changed[i])
		}
	}
	var kept struct{ Data map[string]string }
	testenv.Must(t, p.Request(t.Context(), http.MethodGet, ledger, nil, &kept))
	wantSaid(t, kept.Data["transaction-1"], `{"path":["data","enable-bpf-masquerade"],"old":"false","new":"true","owner":"helm"}`, `"nodes":["n1","n2"]`)
	for _, n := range p.Nodes {
		if open := s.openOn(t, n.PID); open != 1 {
			t.Errorf("%d transactions are open on %s", open, n.Name)
		}
	}
	p.nothingLeft(t, 0, everything...)
	wantSaid(t, run(0, append(tune, "--apply")...), "nothing had to be changed")
	wantSaid(t, run(0, "undo"), "restored", "node n1: restored", "node n2: restored")
	s.asBefore(t)
	wantSaid(t, run(0, "undo"), "nothing to undo")
}

// When the command is killed in the midst of it, the nodes undo their changes by themselves, and
// undo does the rest.
func TestClusterTuneKilled(t *testing.T) {
	p := newPlugin(t)
	s := newTunables(t, p)
	said := s.killWhileWriting(t, p.Kubeconfig, "tune", "--profile", "balanced", "--cluster", "--dev", "eth0", "--apply")
	s.awaitNodesBefore(t)
	p.nothingLeft(t, removal, "pods", "jobs")
	if code, undone := p.run("undo"); code != 0 {
		t.Errorf("exit code %d:\n%s\nafter:\n%s", code, undone, said)
	}
	s.asBefore(t)
}

// killWhileWriting kills a command that has changed the nodes and the API, and has not said yet that the
// changes stay: the API server's answer never came.
func (s *tunables) killWhileWriting(t *testing.T, kubeconfig string, args ...string) (said string) {
	t.Helper()
	file, hung := s.hangAt(t, kubeconfig, func(r *http.Request) bool {
		return r.Method == http.MethodPatch && r.URL.Path == ciliumConfig && !r.URL.Query().Has("dryRun")
	})
	cmd, out := s.command(append(args, "--kubeconfig", file)...)
	testenv.Must(t, cmd.Start())
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	select {
	case <-hung:
	case <-ended:
	case <-time.After(changeLimit):
	}
	for i, now := range s.read(t) {
		if now == s.before[i] {
			t.Errorf("this is as before:\n%s", now)
		}
	}
	_ = cmd.Process.Kill()
	<-ended
	if t.Failed() {
		t.Fatalf("it said:\n%s", out)
	}
	return out.String()
}

// changeLimit is how long a busy machine may take to change what a tuning changes.
const changeLimit = 3 * time.Minute

// awaitNodesBefore waits until the nodes have undone their changes.
func (s *tunables) awaitNodesBefore(t *testing.T) {
	t.Helper()
	await(t, "the nodes have undone their changes", func() bool {
		now := s.read(t)
		return now[1] == s.before[1] && now[2] == s.before[2] && s.openOn(t, s.Nodes[0].PID)+s.openOn(t, s.Nodes[1].PID) == 0
	})
}

// With the printed rights, a proof between pods tries changes on both nodes; interrupted, it has
// undone them.
func TestClusterProve(t *testing.T) {
	p := newPlugin(t)
	s := newTunables(t, p)
	_, roles := p.run("rbac", "tune", "--user", "pia")
	cmd, _ := p.command("tune", "--profile", "throughput", "--dev", "eth0", "--prove", "--path", "pod", "--budget", "30m", "--kubeconfig", p.asUser(t, "pia", roles))
	out := &testenv.Output{}
	cmd.Stdout, cmd.Stderr = out, out
	testenv.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		if t.Failed() {
			t.Log(out)
		}
	})
	await(t, "it measures", func() bool { return strings.Contains(out.String(), "measuring the path against itself") })
	for _, n := range p.Nodes {
		h, err := journal.ReadHistory(fmt.Sprintf("/proc/%d/root%s", n.PID, journal.Folder))
		testenv.Must(t, err)
		if len(h.Txns) == 0 || !h.Txns[len(h.Txns)-1].OfProof() || len(h.Txns[len(h.Txns)-1].Entries) == 0 {
			t.Errorf("%s has tried nothing: %+v", n.Name, h.Txns)
		}
	}
	testenv.Must(t, p.Request(t.Context(), http.MethodGet, ledger, nil, nil))
	testenv.Must(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != verr.Interrupted {
		t.Errorf("exit code %d", code)
	}
	s.asBefore(t)
}

// awaitRights waits until the API server heeds roles that were just made: the plan of a command that
// has what it may read then.
func (s *tunables) awaitRights(t *testing.T, plan ...string) {
	t.Helper()
	await(t, "the roles are in force", func() bool {
		code, said := s.run(plan...)
		return code == 0 && strings.Contains(said, "would be written to configmaps/kube-system/cilium-config")
	})
}

// With the printed rights, what is on trial comes back by itself, on the nodes and in the API, though
// the pod of a node is lost and the pod that ends the trial has to start again. Confirmed, it
// stays until it is undone.
func TestClusterTrial(t *testing.T) {
	p := newPlugin(t)
	s := newTunables(t, p)
	_, roles := p.run("rbac", "tune", "--trial", "--user", "tess")
	as := []string{"--kubeconfig", p.asUser(t, "tess", roles)}
	s.awaitRights(t, append([]string{"tune", "--profile", "balanced", "--cluster"}, as...)...)
	await(t, "the new namespace takes pods", func() bool {
		return p.Request(t.Context(), http.MethodGet, "/api/v1/namespaces/"+kube.TrialName+"/serviceaccounts/default", nil, nil) == nil
	})
	run := func(args ...string) string {
		t.Helper()
		code, said := p.run(append(args, as...)...)
		if code != 0 {
			t.Fatalf("%v: exit code %d:\n%s", args, code, said)
		}
		return said
	}
	changed := func() {
		t.Helper()
		for i, now := range s.read(t) {
			if now == s.before[i] {
				t.Errorf("this is as before:\n%s", now)
			}
		}
	}
	apply := []string{"tune", "--profile", "balanced", "--cluster", "--dev", "eth0", "--apply", "--trial"}
	wantSaid(t, run(append(apply, "20s")...), "on trial for 20s", "kubectl venturi confirm")
	changed()
	for _, role := range []string{"node-0", "lease"} {
		testenv.Must(t, p.Request(t.Context(), http.MethodDelete, "/api/v1/namespaces/"+kube.TrialName+"/pods?labelSelector=venturi.io%2Frole%3D"+role, nil, nil))
	}
	await(t, "all of it is undone", s.noLedger)
	p.nothingLeft(t, removal, everything...)
	s.asBefore(t)

	wantSaid(t, run(append(apply, "30m")...), "on trial for 30m0s")
	wantSaid(t, run("confirm"), "stays")
	p.nothingLeft(t, removal, everything...)
	changed()
	run("undo")
	s.asBefore(t)
}

// Where the command is killed before all changes are made, the nodes undo theirs by themselves, and the pod
// of the trial undoes the rest, when the time for making them is over.
func TestClusterTrialKilled(t *testing.T) {
	p := newPlugin(t)
	s := newTunables(t, p)
	in := p.namespace(t, "privileged")
	code, roles := p.run("rbac", "tune", "--trial", "-n", in, "--user", "kim")
	if code != 0 {
		t.Fatal(roles)
	}
	kim := p.asUser(t, "kim", roles)
	tune := []string{"tune", "--profile", "balanced", "--cluster", "-n", in}
	s.awaitRights(t, append(tune, "--kubeconfig", kim)...)
	said := s.killWhileWriting(t, kim, append(tune, "--dev", "eth0", "--apply", "--trial", "30m")...)
	s.awaitNodesBefore(t)
	var object, entry map[string]any
	testenv.Must(t, p.Request(t.Context(), http.MethodGet, ledger, nil, &object))
	data := object["data"].(map[string]any)
	testenv.Must(t, json.Unmarshal([]byte(data["transaction-1"].(string)), &entry))
	lease := entry["lease"].(map[string]any)
	until, err := time.Parse(time.RFC3339, lease["until"].(string))
	testenv.Must(t, err)
	if left := time.Until(until); left <= 0 || left > 15*time.Minute {
		t.Errorf("it would be undone in %v; the command said %s", left, said)
	}
	lease["until"] = time.Now().UTC().Truncate(time.Second) // as if that were over
	text, err := json.Marshal(entry)
	testenv.Must(t, err)
	data["transaction-1"] = string(text)
	testenv.Must(t, p.Request(t.Context(), http.MethodPut, ledger, object, nil))
	await(t, "all of it is undone", s.noLedger)
	p.nothingLeft(t, removal, everything...)
	s.asBefore(t)
}

// noLedger tells whether the cluster's journal is gone.
func (s *tunables) noLedger() bool {
	err := s.Request(context.Background(), http.MethodGet, ledger, nil, nil)
	return err != nil && strings.Contains(err.Error(), "NotFound")
}

// Where the pod that ends a trial lacks its rights, the error says so, and nothing is changed.
func TestClusterTrialRights(t *testing.T) {
	p := newPlugin(t)
	s := newTunables(t, p)
	in := p.namespace(t, "privileged")
	_, roles := p.run("rbac", "tune", "--trial", "-n", in, "--user", "tom")
	account := "subjects: [{kind: ServiceAccount, name: "
	less := strings.ReplaceAll(roles, account+kube.TrialName, account+"nobody")
	if less == roles {
		t.Fatalf("the service account has no rights in:\n%s", roles)
	}
	tune := []string{"tune", "--profile", "cilium", "--cluster", "-n", in, "--kubeconfig", p.asUser(t, "tom", less)}
	s.awaitRights(t, tune...)
	code, said := p.run(append(tune, "--apply", "--trial", "10m")...)
	if code != verr.Failed {
		t.Errorf("exit code %d", code)
	}
	wantSaid(t, said, "has failed", "system:serviceaccount:"+in+":"+kube.TrialName, "rbac tune --trial")
	s.asBefore(t)
}

// Without one of the printed rights, the error names it, and nothing is made.
func TestClusterRightMissing(t *testing.T) {
	p := newPlugin(t)
	for _, c := range []struct {
		command, role string
		with, without string // in the role
		missing       string
	}{
		{"mesh", "mesh", "resources: [nodes]\n  verbs: [list]", "resources: [nodes]\n  verbs: [watch]", "list nodes in the whole cluster"},
		{"mesh --node-agents", "mesh --node-agents", "verbs: [create, get] # the streams", "verbs: [get] # the streams", "create pods/exec in the whole cluster"},
		{"doctor", "doctor", "verbs: [create, list] # the ends", "verbs: [list] # the ends", "create pods in the whole cluster"},
		{"tune --profile balanced --dev eth0", "tune", "resources: [nodes]\n  verbs: [list]", "resources: [nodes]\n  verbs: [watch]", "list nodes in the whole cluster"},
		{"tune --profile balanced --cluster --dev eth0 --apply", "tune", "verbs: [get, update, delete]", "verbs: [get, delete]", "update configmaps/venturi-tune in namespace kube-system"},
	} {
		t.Run(c.command, func(t *testing.T) {
			_, roles := p.run(append([]string{"rbac", "--user", "ned"}, strings.Fields(c.role)...)...)
			less := strings.Replace(roles, c.with, c.without, 1)
			if less == roles {
				t.Fatalf("there is no %q in:\n%s", c.with, roles)
			}
			code, said := p.run(append(strings.Fields(c.command), "--kubeconfig", p.asUser(t, "ned", less))...)
			if code != verr.Permission || !strings.Contains(said, "you lack the rights to "+c.missing) {
				t.Errorf("exit code %d:\n%s", code, said)
			}
			p.nothingLeft(t, 0, everything...)
		})
	}
}
