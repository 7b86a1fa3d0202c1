package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/discover"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/cluster"
	"github.com/venturi-net/venturi/internal/testenv/fastpathtest"
	"github.com/venturi-net/venturi/internal/verr"
)

// fastPaths are those of a cluster's nodes, which are enabled by hand.
type fastPaths struct {
	*plugin
	program   string // under its own name
	namespace string
	pods      map[string]podNet
}

// newFastPaths makes the pods, of which all but the client serve: two on each of the first two nodes, and one
// on each other.
func newFastPaths(t *testing.T, p *plugin) *fastPaths {
	t.Helper()
	in, names := p.namespace(t, "restricted"), []string{"client", "server"}
	for _, n := range p.Nodes[2:] {
		names = append(names, "on-"+n.Name)
	}
	p.toolPods(t, in, append(names, "other", "guarded")...)
	f := &fastPaths{p, p.link(t, "venturi"), in, p.podNets(t, in)}
	for name, pod := range f.pods {
		if name != "client" {
			pod.serve(t)
		}
	}
	return f
}

// path is that of a kind of objects in the namespace.
func (f *fastPaths) path(kind string) string { return "/api/v1/namespaces/" + f.namespace + "/" + kind }

// service makes a Service of a pod's servers, gives its address, and waits until it leads to the pod from those
// of other nodes.
func (f *fastPaths) service(t *testing.T, pod string) netip.Addr {
	t.Helper()
	var made struct {
		Spec struct{ ClusterIP netip.Addr }
	}
	testenv.Must(t, f.Request(t.Context(), http.MethodPost, f.path("services"), serviceOf(pod, pod, "http", "grpc", "udp"), &made))
	for _, from := range f.pods {
		if from.node != f.pods[pod].node {
			exchange := from.datagrams(t, netip.AddrPortFrom(made.Spec.ClusterIP, udpPort))
			await(t, "the Service leads to the pod", func() bool { return exchange(time.Second) == nil })
		}
	}
	return made.Spec.ClusterIP
}

// serviceOf is a Service of a pod's servers.
func serviceOf(name, pod string, servers ...string) map[string]any {
	var ports []any
	for _, s := range servers {
		ports = append(ports, map[string]map[string]any{
			"http": {"name": "http", "port": httpPort},
			"grpc": {"name": "grpc", "port": grpcPort},
			"udp":  {"name": "udp", "port": udpPort, "protocol": "UDP"},
		}[s])
	}
	return map[string]any{"metadata": map[string]any{"name": name}, "spec": map[string]any{"selector": map[string]any{"app": pod}, "ports": ports}}
}

// connect opens connections from the client that last until the test is over.
func (f *fastPaths) connect(t *testing.T, to netip.Addr) []*connection {
	t.Helper()
	client := f.pods["client"]
	return []*connection{client.keepAlive(t, netip.AddrPortFrom(to, httpPort)), client.stream(t, netip.AddrPortFrom(to, grpcPort))}
}

// advance wants each of the connections to go on.
func (f *fastPaths) advance(t *testing.T, connections []*connection) {
	t.Helper()
	for _, c := range connections {
		c.advance(t, 200)
	}
}

// read runs the program on a node, reads what it prints, and gives its exit code.
func (f *fastPaths) read(t testing.TB, node string, into any, args ...string) (code int) {
	t.Helper()
	cmd := f.node(t, node).Enter(t.Context(), append(append([]string{f.program, "fastpath"}, args...), "--json")...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() != verr.Findings {
		t.Fatalf("%v on %s: %v: %s%s", args, node, err, out, exit.Stderr)
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("%v on %s: %v in\n%s", args, node, err, out)
	}
	return cmd.ProcessState.ExitCode()
}

// checkPlan wants a plan of a node to be about each of its pods and each other node, and to have a reason
// for what stays slow. Its exit code says whether there is such a thing.
func (f *fastPaths) checkPlan(t *testing.T, node string) {
	t.Helper()
	var plan discover.Plan
	code := f.read(t, node, &plan, "plan")
	if (code == 0) != plan.CarriesAll() {
		t.Errorf("the exit code of the plan of %s is %d: %+v", node, code, plan)
	}
	var pods, peers, plannedPeers []string
	var list struct{ Items []runningPod }
	testenv.Must(t, f.Request(t.Context(), http.MethodGet, "/api/v1/pods?fieldSelector=spec.nodeName%3D"+node, nil, &list))
	for _, pod := range list.Items {
		if !pod.Spec.HostNetwork {
			pods = append(pods, pod.Status.PodIP.String())
		}
	}
	for _, n := range f.Nodes {
		if n.Name != node {
			peers = append(peers, n.IP)
		}
	}
	explained := plan.Off == "" && len(plan.Pods) == len(pods) && !slices.ContainsFunc(plan.LeftAlone, func(r topology.Refusal) bool { return r.Reason == "" })
	for _, pod := range plan.Pods { // one that has sent nothing yet is known by its device alone
		explained = explained && (slices.Contains(pods, pod.Addr) && pod.Outlook == discover.Carried || pod.Outlook == discover.Waiting && pod.Reason != "")
	}
	for _, peer := range plan.Peers {
		plannedPeers, explained = append(plannedPeers, peer.Addr.String()), explained && peer.Outlook == discover.Carried
	}
	slices.Sort(plannedPeers)
	if !explained || !slices.Equal(peers, plannedPeers) {
		t.Errorf("%s has the pods %v and the peers %v; the plan is %+v", node, pods, peers, plan)
	}
}

// carry enables the fast path on all nodes, whose plans explain everything. It carries flows between pods,
// also of one node, and through a Service, whose connections go on until the test is over.
func (f *fastPaths) carry(t *testing.T, service netip.Addr) (long []*connection) {
	t.Helper()
	for _, n := range f.Nodes {
		f.checkPlan(t, n.Name)
	}
	f.enable(t)
	t.Run("pod to pod", func(t *testing.T) { f.checkCarried(t, f.connect(t, f.pods["server"].addr)) })
	t.Run("pods of one node", func(t *testing.T) {
		from, to := f.pods["guarded"], f.pods["server"]
		if from.node != to.node {
			t.Fatalf("the pods are on %s and %s", from.node, to.node)
		}
		f.untilCarried(t, from, from.datagrams(t, netip.AddrPortFrom(to.addr, udpPort)))
	})
	long = f.connect(t, service)
	t.Run("ClusterIP", func(t *testing.T) { f.checkCarried(t, long) })
	return long
}

// enable starts a daemon on each node, and waits until all carry. disable ends them, at the latest when the
// test is over.
func (f *fastPaths) enable(t testing.TB) (disable func()) {
	t.Helper()
	var ends []func()
	for _, n := range f.Nodes {
		ends = append(ends, f.startDaemon(t, n))
	}
	for _, n := range f.Nodes {
		await(t, "the fast path of "+n.Name+" carries", func() bool {
			s := f.status(t, n.Name)
			return s.Running && s.State != nil && s.State.Off == "" && s.State.Pods > 0 && s.State.Peers > 0
		})
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// startDaemon starts one on a node.
func (f *fastPaths) startDaemon(t testing.TB, n cluster.Node) (disable func()) {
	t.Helper()
	said := &testenv.Output{}
	cmd := n.Enter(context.Background(), f.program, "fastpath", "enable")
	cmd.Stdout, cmd.Stderr = said, said
	testenv.Must(t, cmd.Start())
	disable = sync.OnceFunc(func() {
		if out, err := n.Enter(context.Background(), f.program, "fastpath", "disable").CombinedOutput(); err != nil {
			t.Errorf("disable: %v: %s", err, out)
		}
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the daemon of %s said:\n%s", n.Name, said)
		}
	})
	t.Cleanup(disable)
	return disable
}

// fastPathStatus is what the program says of a node's fast path.
type fastPathStatus struct {
	Running bool
	State   *fastpath.State
	Packets map[string]int64
	Pods    []fastpath.PodFlows
}

func (f *fastPaths) status(t testing.TB, node string) (s fastPathStatus) {
	t.Helper()
	f.read(t, node, &s, "status")
	return s
}

// checkCarried waits until the nodes of the client and the server carry nearly all packets while their connections
// go on.
func (f *fastPaths) checkCarried(t *testing.T, connections []*connection) {
	t.Helper()
	var seen []string
	defer func() { t.Log(strings.Join(seen, ", ")) }()
	nodes := []string{f.pods["client"].node, f.pods["server"].node}
	await(t, "nearly all packets are carried", func() bool {
		var before []fastPathStatus
		for _, n := range nodes {
			before = append(before, f.status(t, n))
		}
		f.advance(t, connections)
		seen = nil
		enough := true
		for i, n := range nodes {
			all, carried := int64(0), int64(0)
			now := f.status(t, n)
			for outcome, packets := range now.Packets {
				packets -= before[i].Packets[outcome]
				all += packets
				if strings.HasPrefix(outcome, "carried_") {
					carried += packets
				}
			}
			seen = append(seen, fmt.Sprintf("%s carried %d of %d packets", n, carried, all))
			enough = enough && all > 400 && float64(carried) > 0.9*float64(all)
		}
		return enough
	})
}

// untilCarried exchanges datagrams until a flow of a pod is carried.
func (f *fastPaths) untilCarried(t *testing.T, pod podNet, exchange func(time.Duration) error) {
	t.Helper()
	var seen fastPathStatus
	defer func() {
		if t.Failed() {
			t.Logf("seen last of %s on %s: %+v", pod.addr, pod.node, seen)
		}
	}()
	await(t, "a flow of the pod is carried", func() bool {
		for range 50 {
			testenv.Must(t, exchange(testenv.Timeout))
		}
		seen = f.status(t, pod.node)
		return slices.ContainsFunc(seen.Pods, func(p fastpath.PodFlows) bool { return p.Addr == pod.addr && p.Carried > 0 })
	})
}

// daemons are the pids of the processes that carry on a node.
func (f *fastPaths) daemons(t *testing.T, node string) []int {
	t.Helper()
	pids, err := f.PIDs(node, "venturi")
	testenv.Must(t, err)
	return pids
}

func (f *fastPaths) signal(t *testing.T, node string, signal syscall.Signal) {
	t.Helper()
	pids := f.daemons(t, node)
	if len(pids) == 0 {
		t.Fatalf("no daemon runs on %s", node)
	}
	for _, pid := range pids {
		testenv.Must(t, syscall.Kill(pid, signal))
	}
}

// ruleComments are left out by kube-proxy where there are many Services, and not added again at once.
var ruleComments = regexp.MustCompile(` comment "[^"]*"`)

// staleChains are those that kube-proxy with nftables has emptied: it removes them with a later change.
var staleChains = regexp.MustCompile(`\n\tchain \S+/\S+ \{\n\t\}\n`)

// nodeStates are what a fast path could change of each node, sorted: kube-proxy writes rules in any order.
func (p *plugin) nodeStates(t *testing.T) (nodes []string) {
	t.Helper()
	for _, n := range p.Nodes {
		state := fastpathtest.NodeState(t, fmt.Sprintf("/proc/%d/ns/net", n.PID), func(script string) string {
			return p.onNode(t, n.Name, "sh", "-c", script)
		})
		lines := strings.Split(staleChains.ReplaceAllString(ruleComments.ReplaceAllString(state, ""), ""), "\n")
		slices.Sort(lines)
		nodes = append(nodes, strings.Join(lines, "\n"))
	}
	return nodes
}

// settledStates are the states of the nodes when nothing is left of earlier tests, and new devices have
// all of their addresses.
func (p *plugin) settledStates(t *testing.T) (nodes []string) {
	t.Helper()
	await(t, "the namespaces of earlier tests are gone", func() bool {
		var list struct {
			Items []struct{ Status struct{ Phase string } }
		}
		testenv.Must(t, p.Request(t.Context(), http.MethodGet, "/api/v1/namespaces", nil, &list))
		for _, n := range list.Items {
			if n.Status.Phase == "Terminating" {
				return false
			}
		}
		return true
	})
	const settle = 3 * time.Second // kube-proxy waits for a second between two changes
	await(t, "the nodes are as they were a moment ago", func() bool {
		before := p.nodeStates(t)
		time.Sleep(settle)
		nodes = p.nodeStates(t)
		return slices.Equal(nodes, before)
	})
	return nodes
}

// wantStates wants the nodes to be as before, soon: what is left of a pod or a Service may go after it.
func (p *plugin) wantStates(t *testing.T, before []string) {
	t.Helper()
	now := p.nodeStates(t)
	for end := time.Now().Add(removal); !slices.Equal(now, before) && time.Now().Before(end); now = p.nodeStates(t) {
		time.Sleep(time.Second)
	}
	for i, n := range p.Nodes {
		if now[i] != before[i] {
			t.Errorf("node %s: %s", n.Name, testenv.Difference(before[i], now[i]))
		}
		if open := p.openOn(t, n.PID); open > 0 {
			t.Errorf("%d transactions are open on %s", open, n.Name)
		}
	}
	fastpathtest.WaitUsualRCU(t)
}
