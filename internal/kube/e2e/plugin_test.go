package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/cluster"
	"github.com/venturi-net/venturi/internal/testenv/clustertest"
	"github.com/venturi-net/venturi/result"
)

// label finds what runs have made.
const label = "?labelSelector=app.kubernetes.io/managed-by%3Dventuri"

// plugin is the program as kubectl finds it, for one cluster.
type plugin struct {
	*cluster.Raised
	file, folder string
}

func newPlugin(t testing.TB) *plugin { return newPluginFor(t, clustertest.Shared(t)) }

func newPluginFor(t testing.TB, c *cluster.Raised) *plugin {
	t.Helper()
	p := &plugin{Raised: c, file: program(t), folder: t.TempDir()}
	await(t, "all nodes are ready", func() bool { return p.readyNodes(t) == len(p.Nodes) }) // one whose kubelet was killed is not for a moment
	t.Cleanup(func() { p.nothingLeft(t, removal, "pods", "jobs") })
	return p
}

func (p *plugin) readyNodes(t testing.TB) (ready int) {
	t.Helper()
	var list struct {
		Items []struct {
			Status struct {
				Conditions []struct{ Type, Status string }
			}
		}
	}
	testenv.Must(t, p.Request(t.Context(), http.MethodGet, "/api/v1/nodes", nil, &list))
	for _, n := range list.Items {
		for _, c := range n.Status.Conditions {
			if c.Type == "Ready" && c.Status == "True" {
				ready++
			}
		}
	}
	return ready
}

var (
	buildOnce   sync.Once
	buildFolder string
	binary      string
)

// program builds it, once for all tests.
func program(t testing.TB) string {
	t.Helper()
	buildOnce.Do(func() {
		var err error
		if buildFolder, err = os.MkdirTemp("", "venturi-e2e"); err != nil {
			t.Error(err)
			return
		}
		file := filepath.Join(buildFolder, "kubectl-venturi")
		build := exec.Command("go", "build", "-buildvcs=false", "-o", file, "github.com/venturi-net/venturi/cmd/venturi")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
			return
		}
		binary = file
	})
	if binary == "" {
		t.Fatal("the program was not built")
	}
	return binary
}

// command is one of the plugin; short keeps what it measures small.
func (p *plugin) command(args ...string) (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.Command(p.file, args...)
	var said bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.folder, &said, &said
	cmd.Env = append(os.Environ(), "KUBECONFIG="+p.Kubeconfig, "VENTURI_IMAGE="+clustertest.VenturiImage)
	return cmd, &said
}

// link gives the program another name, also where it starts itself anew.
func (p *plugin) link(t testing.TB, name string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), name)
	testenv.Must(t, os.Link(p.file, file))
	return file
}

var short = []string{"--load", "tcp_lat,udp_lat,tcp_bw", "--series", "2", "--rounds", "6", "--slice", "20ms"}

// run runs a command to its end, and gives its exit code.
func (p *plugin) run(args ...string) (code int, said string) {
	cmd, out := p.command(args...)
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), out.String()
	}
	if err != nil {
		return -1, err.Error()
	}
	return 0, out.String()
}

// compare runs a short comparison that must work, and gives its record.
func (p *plugin) compare(t testing.TB, args ...string) *result.Record {
	t.Helper()
	began := time.Now()
	rec, _ := p.compareFor(t, append(slices.Clone(args), short...)...)
	t.Logf("%v took %v", args, time.Since(began).Round(100*time.Millisecond))
	return rec
}

// compareFor is the same of any length, and gives what it printed, too.
func (p *plugin) compareFor(t testing.TB, args ...string) (rec *result.Record, said string) {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "run")
	code, said := p.run(append([]string{"compare", "--out", folder}, args...)...)
	if code != 0 {
		t.Fatalf("%v: exit code %d:\n%s", args, code, said)
	}
	rec, err := result.Open(folder)
	testenv.Must(t, err)
	return rec, said
}

// arms wants every arm of a record to have carried at least half of its slices.
func arms(t testing.TB, rec *result.Record, want ...string) {
	t.Helper()
	good := map[string]int{}
	for _, s := range rec.Slices {
		if s.Failed == "" && (s.Latency != nil && s.Latency.Replies > 0 || s.Stream != nil && s.Stream.RecvBytes > 0) {
			good[s.Arm]++
		}
	}
	const all = 2 * 6 * 3
	for _, arm := range want {
		if good[arm] < all/2 { // on a busy machine, all of 20 ms may pass without a packet
			t.Errorf("%d of %d slices of %s carried something; warnings: %+v", good[arm], all, arm, rec.Warnings)
		}
	}
	if len(good) != len(want) {
		t.Errorf("arms %v, want %v", good, want)
	}
}

// count counts the objects that runs have made, and gives their kinds.
func (p *plugin) count(t testing.TB, kinds ...string) (n int) {
	t.Helper()
	paths := map[string]string{"pods": "/api/v1/pods", "services": "/api/v1/services", "namespaces": "/api/v1/namespaces", "jobs": "/apis/batch/v1/jobs"}
	for _, kind := range kinds {
		var list struct{ Items []any }
		if err := p.Request(context.Background(), http.MethodGet, paths[kind]+label, nil, &list); err != nil {
			t.Error(err)
		}
		n += len(list.Items)
	}
	return n
}

// await asks until the answer is yes, for longer than a busy machine takes.
func await(t testing.TB, what string, ask func() bool) {
	t.Helper()
	const limit = 3 * time.Minute
	for end := time.Now().Add(limit); !ask(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, limit)
		}
	}
}

// removal is how long what a run has made may stay after it on a busy machine: twice as long as
// on others.
const removal = 2 * time.Minute

func (p *plugin) nothingLeft(t testing.TB, limit time.Duration, kinds ...string) {
	t.Helper()
	began := time.Now()
	for p.count(t, kinds...) > 0 {
		if time.Since(began) > limit {
			t.Errorf("%d %v are left after %v", p.count(t, kinds...), kinds, limit)
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
}

var everything = []string{"pods", "services", "namespaces", "jobs"}

// namespace makes one with a standard of PodSecurity.
func (p *plugin) namespace(t testing.TB, standard string) string {
	t.Helper()
	name := strings.ToLower(testenv.LabName())
	testenv.Must(t, p.Request(t.Context(), http.MethodPost, "/api/v1/namespaces", map[string]any{
		"metadata": map[string]any{"name": name, "labels": map[string]any{"pod-security.kubernetes.io/enforce": standard}}}, nil))
	t.Cleanup(func() {
		if err := p.Request(context.Background(), http.MethodDelete, "/api/v1/namespaces/"+name, nil, nil); err != nil {
			t.Error(err)
		}
	})
	await(t, "the new namespace takes pods", func() bool {
		return p.Request(t.Context(), http.MethodGet, "/api/v1/namespaces/"+name+"/serviceaccounts/default", nil, nil) == nil
	})
	return name
}

// node is the one of a name.
func (p *plugin) node(t testing.TB, name string) cluster.Node {
	t.Helper()
	for _, n := range p.Nodes {
		if n.Name == name {
			return n
		}
	}
	t.Fatalf("there is no node %s", name)
	return cluster.Node{}
}

// onNode runs a program on a node, and gives what it printed.
func (p *plugin) onNode(t testing.TB, node string, args ...string) string {
	t.Helper()
	out, err := p.node(t, node).Enter(t.Context(), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v on %s: %v: %s", args, node, err, out)
	}
	return string(out)
}

// toolPod is the specification of a pod whose image has nothing of ours, and which every standard of
// PodSecurity admits. The scheduler chooses a node if none is named.
func toolPod(node string) map[string]any {
	spec := map[string]any{"terminationGracePeriodSeconds": 1, "automountServiceAccountToken": false,
		"securityContext": map[string]any{"runAsNonRoot": true, "seccompProfile": map[string]any{"type": "RuntimeDefault"}},
		"containers": []any{map[string]any{"name": "c", "image": cluster.ToolImage, "imagePullPolicy": "Never",
			"securityContext": map[string]any{"allowPrivilegeEscalation": false, "capabilities": map[string]any{"drop": []string{"ALL"}}}}}}
	if node != "" {
		spec["nodeName"] = node
	}
	return spec
}

// toolPods makes pods on the nodes in turn, each with its name as a label, and waits until they run.
func (p *plugin) toolPods(t testing.TB, namespace string, names ...string) {
	t.Helper()
	for i, name := range names {
		testenv.Must(t, p.Request(t.Context(), http.MethodPost, "/api/v1/namespaces/"+namespace+"/pods", map[string]any{
			"metadata": map[string]any{"name": name, "labels": map[string]any{"app": name}}, "spec": toolPod(p.Nodes[i%len(p.Nodes)].Name)}, nil))
	}
	await(t, "the pods run", func() bool { return len(p.running(t, namespace, "")) == len(names) })
}

// runningPod is a pod that runs.
type runningPod struct {
	Metadata struct{ Name, Namespace string }
	Spec     struct {
		NodeName    string
		HostNetwork bool
	}
	Status struct{ PodIP netip.Addr }
}

// running are the pods of a namespace that run, with more of a query.
func (p *plugin) running(t testing.TB, namespace, query string) []runningPod {
	t.Helper()
	var list struct{ Items []runningPod }
	testenv.Must(t, p.Request(context.Background(), http.MethodGet, "/api/v1/namespaces/"+namespace+"/pods?fieldSelector=status.phase%3DRunning"+query, nil, &list))
	return list.Items
}

// asUser gives a kubeconfig of somebody who may do what the text of a Role says, and nothing else.
func (p *plugin) asUser(t testing.TB, user, roles string) string {
	t.Helper()
	for decoder := yaml.NewDecoder(strings.NewReader(roles)); ; {
		var object map[string]any
		if decoder.Decode(&object) != nil {
			break
		}
		meta, _ := object["metadata"].(map[string]any)
		kind, _ := object["kind"].(string)
		version, _ := object["apiVersion"].(string)
		path := "/apis/" + version + "/"
		if version == "v1" {
			path = "/api/v1/"
		}
		if in, ok := meta["namespace"].(string); ok {
			path += "namespaces/" + in + "/"
		}
		path += strings.ToLower(kind) + "s"
		testenv.Must(t, p.Request(t.Context(), http.MethodPost, path, object, nil))
		name, _ := meta["name"].(string)
		t.Cleanup(func() { _ = p.Request(context.Background(), http.MethodDelete, path+"/"+name, nil, nil) }) // its namespace may be gone
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	writeKubeconfig(t, p.Kubeconfig, file, "users", "user", func(u map[string]any) { u["as"] = user })
	return file
}
