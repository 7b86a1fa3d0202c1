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
	service, guarded := f.service(t, "server"), f.service(t, "guarded")
	f.checkFollows(t, service, append(f.changes(service),
		clusterChange{"flanneld restarts", f.restartFlannel},
		clusterChange{"a policy cuts a pod off", func(t *testing.T) { f.cutOff(t, guarded) }})...)
}

// checkFlannelHostGateway does so where no tunnel is in the way, and where kube-proxy writes rules of nftables:
// it adds elements to maps, and so does not write its rules anew for each change.
func checkFlannelHostGateway(t *testing.T, f *fastPaths) {
	service, guarded := f.service(t, "server"), f.service(t, "guarded")
	f.service(t, "other") // to wait for which lets the third node know the first one's MAC
	from, to := f.pods["client"], f.pods["server"]
	if route := f.onNode(t, from.node, "ip", "route", "get", to.addr.String()); !strings.Contains(route, " via "+f.node(t, to.node).IP+" ") {
		t.Errorf("packets do not go to the other node: %s", route)
	}
	f.onNode(t, from.node, "nft", "list", "table", "ip", "kube-proxy")
	f.checkFollows(t, service,
		clusterChange{"a hundred Services", func(t *testing.T) { f.rewriteServices(t, 100) }},
		clusterChange{"a policy cuts a pod off", func(t *testing.T) { f.cutOff(t, guarded) }})
}

// clusterChange is one of a cluster that the fast path must follow.
type clusterChange struct {
	name  string
	apply func(*testing.T)
}

// changes are those that every wiring has.
func (f *fastPaths) changes(service netip.Addr) []clusterChange {
	return []clusterChange{
		{"pods come and go", func(t *testing.T) { f.replacePods(t, service) }},
		{"a node is drained", f.drain},
		{"a thousand Services", func(t *testing.T) { f.rewriteServices(t, 1000) }},
	}
}

// checkFollows wants the fast path to carry, also through a Service, after each of the changes too, and to leave
// the nodes as they were.
func (f *fastPaths) checkFollows(t *testing.T, service netip.Addr, changes ...clusterChange) {
	t.Helper()
	before := f.settledStates(t)
	long := f.carry(t, service)
	for _, c := range changes {
		t.Run(c.name, func(t *testing.T) {
			c.apply(t)
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

// rewriteServices has kube-proxy write the rules of many Services, each with an endpoint, and remove them.
func (f *fastPaths) rewriteServices(t *testing.T, count int) {
	const workers = 8
	before := f.proxiedServices(t)
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
	awaitRules := func(what string, more int) {
		var now []int
		defer func() {
			t.Logf("%s: nodes have rules of %v Services after %v", what, now, time.Since(began).Round(time.Millisecond))
		}()
		await(t, what, func() bool {
			now = f.proxiedServices(t)
			return !slices.ContainsFunc(now, func(n int) bool { return n != before[0]+more })
		})
	}
	awaitRules("kube-proxy has written them", count)
	await(t, "they are deleted", func() bool { // which may take longer than a request
		return f.Request(t.Context(), http.MethodDelete, f.path("services")+"?labelSelector=many%3Dyes", nil, nil) == nil
	})
	awaitRules("kube-proxy has removed them", 0)
}

// proxiedServices counts, on each node, the ports of Services that kube-proxy leads to pods: by chains of iptables,
// or by elements of a map of nftables, whose chains stay for a while.
func (f *fastPaths) proxiedServices(t *testing.T) (counts []int) {
	t.Helper()
	const rules = "(iptables-save -t nat; nft list map ip kube-proxy service-ips) 2>/dev/null | grep -oE '^:KUBE-SVC-|goto service-' | wc -l"
	for _, n := range f.Nodes {
		count, err := strconv.Atoi(strings.TrimSpace(f.onNode(t, n.Name, "sh", "-c", rules)))
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

// cutLimit is within what time a cut takes hold: the best of a few tries must, as this machine may have other
// things to do meanwhile.
const (
	cutLimit = 100 * time.Millisecond
	cutTries = 5
)

// checkCut has rules cut a flow off, which ends it soon, though it was carried. cut loads them, and says when
// it had; restore has the flow carried again.
func checkCut(t *testing.T, exchange func(time.Duration) error, cut func() (loaded time.Time), restore func()) {
	t.Helper()
	var took []time.Duration
	for range cutTries {
		took = append(took, untilCut(t, exchange, cut))
		if took[len(took)-1] <= cutLimit {
			t.Logf("from the loaded rules to the last answer: %v", took)
			return
		}
		restore()
	}
	t.Errorf("from the loaded rules to the last answer it took %v, always more than %v", took, cutLimit)
}

// untilCut waits until a flow that rules cut off has ended. It gives the time from the loaded rules to the
// last answer.
func untilCut(t *testing.T, exchange func(time.Duration) error, cut func() (loaded time.Time)) time.Duration {
	t.Helper()
	cutAt := make(chan time.Time, 1)
	go func() { cutAt <- cut() }()
	loaded := time.Time{}
	answered, began := time.Now(), time.Now()
	for quiet := time.Second; loaded.IsZero() || time.Since(answered) < quiet || time.Since(loaded) < quiet; time.Sleep(time.Millisecond) {
		if exchange(20*time.Millisecond) == nil {
			answered = time.Now()
		}
		select {
		case loaded = <-cutAt: // a busy machine may leave a pod without answers before that
		default:
		}
		if time.Since(began) > 3*time.Minute {
			t.Fatalf("the pod answers though its policy has cut it off; the rules are loaded since %v", loaded)
		}
	}
	for range 100 {
		if exchange(10*time.Millisecond) == nil {
			t.Fatal("the pod answers again")
		}
	}
	return answered.Sub(loaded).Round(10 * time.Microsecond)
}

// end kills the daemon of one node and undoes what it has left, and ends those of others by a signal.
func (f *fastPaths) end(t *testing.T, before []string, long []*connection) {
	killed := f.Nodes[0]
	f.signal(t, killed.Name, syscall.SIGKILL)
	f.advance(t, long)
	if s := f.status(t, killed.Name); s.Running {
		t.Errorf("after it was killed: %+v", s)
	}
	f.onNode(t, killed.Name, f.program, "fastpath", "disable")
	for _, ended := range f.Nodes[1:] {
		f.signal(t, ended.Name, syscall.SIGTERM)
		await(t, "the daemon has ended", func() bool { return len(f.daemons(t, ended.Name)) == 0 })
	}
	f.wantStates(t, before)
	f.advance(t, long)
	for _, c := range long {
		t.Logf("%s: %d exchanges, of which the longest took %v", c.name, c.exchanges.Load(), time.Duration(c.longest.Load()).Round(time.Millisecond))
	}
}
