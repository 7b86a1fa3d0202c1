package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/cluster"
	"github.com/venturi-net/venturi/internal/testenv/fastpathtest"
)

// On the nodes of a cluster, plan explains every pod and peer, and the fast path carries nearly all packets
// between pods, also through a Service. Whatever happens to the cluster meanwhile, connections to the
// Service go on; a policy that cuts a pod off takes hold; and when the daemons have gone, killed
// or not, the nodes are as before.
func TestClusterFastPathFollows(t *testing.T) {
	f := newFastPaths(t, newPlugin(t))
	for _, name := range []string{"server", "other", "guarded"} {
		f.pods[name].serve(t)
	}
	service, guarded := f.service(t, "server"), f.service(t, "guarded")
	before := f.settledStates(t)
	long := f.carry(t, service)
	for _, c := range []struct {
		name   string
		change func(*testing.T)
	}{
		{"pods come and go", func(t *testing.T) { f.replacePods(t, service) }},
		{"a node is drained", f.drain},
		{"a thousand Services", f.rewriteServices},
		{"flanneld restarts", f.restartFlannel},
		{"a policy cuts a pod off", func(t *testing.T) { f.cutOff(t, guarded) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.change(t)
			f.checkCarried(t, long)
		})
	}
	t.Run("killed and undone", func(t *testing.T) { f.end(t, before, long) })
}

// replacePods makes pods and removes them, again and again: each has its flows carried.
func (f *fastPaths) replacePods(t *testing.T, service netip.Addr) {
	guests := f.plugin.namespace(t, "restricted")
	for round := range 3 {
		f.toolPods(t, guests, "guest1", "guest2")
		t.Run(fmt.Sprint("round ", round), func(t *testing.T) {
			pods := f.podNets(t, guests)
			f.untilCarried(t, pods["guest1"], pods["guest1"].datagrams(t, netip.AddrPortFrom(service, udpPort)))
			f.untilCarried(t, pods["guest2"], pods["guest2"].datagrams(t, netip.AddrPortFrom(f.pods["other"].addr, udpPort)))
		})
		testenv.Must(t, f.Request(t.Context(), http.MethodDelete, "/api/v1/namespaces/"+guests+"/pods", nil, nil))
		f.awaitNoPods(t, guests)
	}
}

// awaitNoPods waits until a namespace has none, whatever their state.
func (p *plugin) awaitNoPods(t *testing.T, namespace string) {
	t.Helper()
	await(t, "the pods are gone", func() bool {
		var list struct{ Items []any }
		testenv.Must(t, p.Request(t.Context(), http.MethodGet, "/api/v1/namespaces/"+namespace+"/pods", nil, &list))
		return len(list.Items) == 0
	})
}

// drain moves all pods of a Deployment away from the node of the server, as `kubectl drain
// --pod-selector` does.
func (f *fastPaths) drain(t *testing.T) {
	in, node := f.plugin.namespace(t, "restricted"), f.pods["server"].node
	labels := map[string]any{"app": "moving"}
	const replicas = 4
	testenv.Must(t, f.Request(t.Context(), http.MethodPost, "/apis/apps/v1/namespaces/"+in+"/deployments", map[string]any{
		"metadata": map[string]any{"name": "moving"},
		"spec": map[string]any{"replicas": replicas, "selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": toolPod("")}}}, nil))
	onNode := func(pod runningPod) bool { return pod.Spec.NodeName == node }
	await(t, "the Deployment has pods on the node", func() bool {
		pods := f.running(t, in, "")
		return len(pods) == replicas && slices.ContainsFunc(pods, onNode)
	})
	f.cordon(t, node, true)
	t.Cleanup(func() { f.cordon(t, node, false) })
	for _, pod := range f.running(t, in, "") {
		if onNode(pod) {
			testenv.Must(t, f.Request(t.Context(), http.MethodPost, "/api/v1/namespaces/"+in+"/pods/"+pod.Metadata.Name+"/eviction", map[string]any{
				"apiVersion": "policy/v1", "kind": "Eviction", "metadata": map[string]any{"name": pod.Metadata.Name}}, nil))
		}
	}
	await(t, "the node is drained", func() bool {
		pods := f.running(t, in, "")
		return len(pods) == replicas && !slices.ContainsFunc(pods, onNode)
	})
	testenv.Must(t, f.Request(t.Context(), http.MethodDelete, "/apis/apps/v1/namespaces/"+in+"/deployments/moving", nil, nil))
	f.awaitNoPods(t, in)
}

// cordon keeps new pods from a node, or no longer.
func (f *fastPaths) cordon(t *testing.T, name string, on bool) {
	t.Helper()
	f.changeNode(t, name, func(node map[string]any) { node["spec"].(map[string]any)["unschedulable"] = on })
}

// changeNode changes a node. Whatever else has changed it is kept.
func (p *plugin) changeNode(t *testing.T, name string, change func(node map[string]any)) {
	t.Helper()
	var err error
	defer func() {
		if t.Failed() {
			t.Logf("the change of node %s: %v", name, err)
		}
	}()
	await(t, "the node is changed", func() bool {
		var node map[string]any
		if err = p.Request(context.Background(), http.MethodGet, "/api/v1/nodes/"+name, nil, &node); err != nil {
			return false
		}
		change(node)
		err = p.Request(context.Background(), http.MethodPut, "/api/v1/nodes/"+name, node, nil)
		return err == nil
	})
}

// rewriteServices has kube-proxy write the rules of a thousand Services, each with an endpoint, and remove
// them.
func (f *fastPaths) rewriteServices(t *testing.T) {
	const count, workers = 1000, 8
	before := f.serviceChains(t)
	began, numbers, errs := time.Now(), make(chan int), make([]error, workers)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := range numbers {
				service := serviceOf(fmt.Sprint("many-", i), "server", "http")
				service["metadata"].(map[string]any)["labels"] = map[string]any{"many": "yes"}
				errs[w] = errors.Join(errs[w], f.Request(t.Context(), http.MethodPost, f.path("services"), service, nil))
			}
		})
	}
	for i := range count {
		numbers <- i
	}
	close(numbers)
	all.Wait()
	testenv.Must(t, errors.Join(errs...))
	t.Logf("%d Services were made in %v", count, time.Since(began).Round(time.Millisecond))
	awaitChains := func(what string, more int) {
		var now []int
		defer func() {
			t.Logf("%s: nodes have chains of %v Services after %v", what, now, time.Since(began).Round(time.Millisecond))
		}()
		await(t, what, func() bool {
			now = f.serviceChains(t)
			return !slices.ContainsFunc(now, func(n int) bool { return n != before[0]+more })
		})
	}
	awaitChains("kube-proxy has written them", count)
	await(t, "they are deleted", func() bool { // which may take longer than a request
		return f.Request(t.Context(), http.MethodDelete, f.path("services")+"?labelSelector=many%3Dyes", nil, nil) == nil
	})
	awaitChains("kube-proxy has removed them", 0)
}

// serviceChains counts, on each node, the Services that kube-proxy has written chains of.
func (f *fastPaths) serviceChains(t *testing.T) (counts []int) {
	t.Helper()
	for _, n := range f.Nodes {
		count, err := strconv.Atoi(strings.TrimSpace(f.onNode(t, n.Name, "sh", "-c", "iptables-save -t nat | grep -c '^:KUBE-SVC-'")))
		testenv.Must(t, err)
		counts = append(counts, count)
	}
	return counts
}

// restartFlannel kills flanneld on each node, and waits until it has started again and configured the
// node anew.
func (f *fastPaths) restartFlannel(t *testing.T) {
	for _, n := range f.Nodes {
		pids, err := f.PIDs(n.Name, "flanneld")
		testenv.Must(t, err)
		if len(pids) != 1 {
			t.Fatalf("flanneld runs as %v on %s", pids, n.Name)
		}
		killed := time.Now()
		testenv.Must(t, syscall.Kill(pids[0], syscall.SIGKILL))
		await(t, "flanneld is back on "+n.Name, func() bool {
			subnet, err := os.Stat(fmt.Sprintf("/proc/%d/root/run/flannel/subnet.env", n.PID))
			return err == nil && subnet.ModTime().After(killed)
		})
	}
}

// loadRules has a program on a node load rules.
func loadRules(n cluster.Node, rules string, program ...string) error {
	cmd := n.Enter(context.Background(), program...)
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v on %s: %w: %s", program, n.Name, err, out)
	}
	return nil
}

// cutOff has a policy admit the client to a pod, and then cut the pod off: its flow ends, though it was
// carried, and goes on when the policy is gone.
func (f *fastPaths) cutOff(t *testing.T, service netip.Addr) {
	pod := f.pods["guarded"]
	engines := fastpathtest.PolicyEngines()
	engine := engines[slices.IndexFunc(engines, func(e fastpathtest.PolicyEngine) bool { return e.Name == "kube-router with nftables" })]
	load := func(rules string) (loaded time.Time) {
		t.Helper()
		if err := loadRules(f.node(t, pod.node), rules, engine.Program...); err != nil {
			t.Error(err)
		}
		return time.Now()
	}
	const absent = "table ip kube-router\ndelete table ip kube-router\n"
	t.Cleanup(func() { load(absent) })
	exchange := f.pods["client"].datagrams(t, netip.AddrPortFrom(service, udpPort))
	admit := func() {
		load(absent)
		load(engine.Rules(pod.addr, "") + "add element " + engine.ClientSet + " { " + f.pods["client"].addr.String() + " }\n")
		f.untilCarried(t, pod, exchange)
	}
	f.untilCarried(t, pod, exchange)
	admit()
	checkCut(t, exchange, func() time.Time { return load(engine.Cut(pod.addr, "")) }, admit)
	load(absent)
	f.untilCarried(t, pod, exchange)
}

// end kills the daemon of one node and undoes what it has left, and ends the other's by a signal.
func (f *fastPaths) end(t *testing.T, before []string, long []*connection) {
	killed, ended := f.Nodes[0], f.Nodes[1]
	f.signal(t, killed.Name, syscall.SIGKILL)
	f.advance(t, long)
	if s := f.status(t, killed.Name); s.Running {
		t.Errorf("after it was killed: %+v", s)
	}
	f.onNode(t, killed.Name, f.program, "fastpath", "disable")
	f.signal(t, ended.Name, syscall.SIGTERM)
	await(t, "the daemon has ended", func() bool { return len(f.daemons(t, ended.Name)) == 0 })
	f.wantStates(t, before)
	f.advance(t, long)
	for _, c := range long {
		t.Logf("%s: %d exchanges, of which the longest took %v", c.name, c.exchanges.Load(), time.Duration(c.longest.Load()).Round(time.Millisecond))
	}
}
