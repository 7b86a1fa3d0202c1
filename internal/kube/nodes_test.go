package kube

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/venturi-net/venturi/internal/kube/cni"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

// addNodes makes nodes n1, n2, ...; the last is not ready.
func (s *apiServer) addNodes(count int) {
	for i := range count {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i+1)}}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("192.0.2.%d", i+1)}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if i == count-1 {
			n.Status.Conditions[0].Status = corev1.ConditionUnknown
		}
		s.nodes = append(s.nodes, n)
	}
}

func nodesRequest(namespace string, names ...string) NodesRequest {
	return NodesRequest{Options: Options{Image: "x", Namespace: namespace, Nodes: names}, Deadline: time.Hour, Command: "venturi doctor", Say: func(string, ...any) {}}
}

// Every node that is ready has an agent on it, which can read the packet filter and be spoken
// to; nothing is left; and the calls are those of the printed rights, and no others.
func TestPlaceOnNodes(t *testing.T) {
	for _, namespace := range []string{"", "lab"} {
		server, client := newAPIServer(t)
		server.addNamespace("lab")
		server.addNodes(5)
		server.spoil = func(p *corev1.Pod) {
			if !slices.Contains(p.Spec.Containers[0].SecurityContext.Capabilities.Add, "NET_ADMIN") || len(p.Spec.Tolerations) != 1 {
				t.Errorf("the pod: %+v", p.Spec)
			}
			if p.Spec.NodeName == "n3" {
				p.Status.Phase = corev1.PodFailed
			}
		}
		a, err := client.PlaceOnNodes(t.Context(), nodesRequest(namespace))
		testenv.Must(t, err)
		var on, off []string
		for i, agent := range a.Agents {
			on = append(on, agent.Node)
			checkEcho(t, agent.Stream)
			if a.Nodes[i].Name != agent.Node || !a.Nodes[i].Addr.IsValid() {
				t.Errorf("node %+v has the agent of %s", a.Nodes[i], agent.Node)
			}
		}
		for _, n := range a.Unreached {
			off = append(off, n.Name)
		}
		if !slices.Equal(on, []string{"n1", "n2", "n4"}) || !slices.Equal(off, []string{"n5", "n3"}) {
			t.Errorf("agents on %v, none on %v", on, off)
		}
		server.objects = map[string]string{"/api/v1/namespaces/kube-system/configmaps/kube-proxy": `{"data":{"config.conf":"mode: ipvs"}}`}
		if found, unread := client.ReadConfig(t.Context()); len(unread) > 0 || !cni.KubeProxy.Shows(found) || slices.ContainsFunc(cni.Table, func(p cni.Plugin) bool { return p.Shows(found) }) {
			t.Errorf("settings: %v, %v", found, unread)
		}
		testenv.Must(t, a.Close())
		if left := server.leftovers(); !slices.Equal(left, []string{"namespace lab"}) {
			t.Errorf("left: %v", left)
		}
		o := Options{Namespace: namespace}
		checkCalls(t, server, append(o.nodeNeeds(), scopedRights{"", configRights()}))
		for _, r := range configRights() {
			for _, name := range r.names {
				if call := "get " + r.group + "/" + r.name + " " + name; !server.named[call] {
					t.Errorf("nobody needs the right %q", call)
				}
				delete(server.named, "get "+r.group+"/"+r.name+" "+name)
			}
		}
		for call := range server.named {
			if !strings.Contains(call, "pods/exec") {
				t.Errorf("the call %q is in no Role", call)
			}
		}
		checkNodesRBAC(t, o)
	}
}

// checkNodesRBAC wants the printed text to have every right.
func checkNodesRBAC(t *testing.T, o Options) {
	t.Helper()
	text := o.NodesRBAC("jane")
	for _, scope := range append(o.nodeNeeds(), scopedRights{"", configRights()}) {
		for _, r := range scope.rights {
			want := fmt.Sprintf("resources: [%s]\n", r.name)
			if len(r.names) > 0 {
				want += fmt.Sprintf("  resourceNames: [%s]\n", strings.Join(r.names, ", "))
			}
			if want += fmt.Sprintf("  verbs: [%s]", strings.Join(r.verbs, ", ")); !strings.Contains(text, want) {
				t.Errorf("%+v: there is no\n%s in\n%s", o, want, text)
			}
		}
	}
	if strings.Contains(text, "secrets") || strings.Contains(text, "*") {
		t.Errorf("too much:\n%s", text)
	}
}

// What cannot be examined is refused before anything is made; a setting that may not be read
// is told.
func TestNodesRefused(t *testing.T) {
	server, client := newAPIServer(t)
	server.addNodes(3)
	for names, code := range map[string]int{"n1 n9": verr.Usage, "n3": verr.Missing} {
		if _, err := client.PlaceOnNodes(t.Context(), nodesRequest("", strings.Fields(names)...)); verr.Code(err) != code {
			t.Errorf("%s: %v", names, err)
		}
	}
	if err := nodesRequest("", "n1", "n1").Check(); verr.Code(err) != verr.Usage {
		t.Errorf("a node twice: %v", err)
	}
	server.forbidden["list /nodes"] = true
	if _, err := client.PlaceOnNodes(t.Context(), nodesRequest("")); verr.Code(err) != verr.Permission || !strings.Contains(err.Error(), "list nodes") {
		t.Errorf("without a right: %v", err)
	}
	if left := server.leftovers(); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	server.forbidden["get /configmaps"] = true
	if _, unread := client.ReadConfig(t.Context()); len(unread) == 0 || unread[0].Object != "configmaps/kube-system/kube-proxy" || !strings.Contains(unread[0].Reason, "forbidden") {
		t.Errorf("unread: %v", unread)
	}
}

// Ends of traffic are on every node, by address: unprivileged pods, or the nodes themselves, and
// neither reads the packet filter. Nodes have their zones, and a plan that is refused makes nothing.
func TestPlaceTraffic(t *testing.T) {
	for _, level := range []Level{Plain, Node} {
		server, client := newAPIServer(t)
		server.addNodes(4)
		server.nodes[1].Labels = map[string]string{"rack": "r7"}
		server.spoil = func(p *corev1.Pod) {
			c := p.Spec.Containers[0].SecurityContext.Capabilities
			if p.Spec.HostNetwork != (level == Node) || slices.Contains(c.Add, "NET_ADMIN") || len(c.Add) > 0 != (level == Node) {
				t.Errorf("%s: the pod: %+v", level, p.Spec)
			}
		}
		q := nodesRequest("")
		q.Level, q.Traffic, q.ZoneLabel = level, true, "rack"
		q.Plan = func(nodes []ClusterNode) (time.Duration, error) {
			return 0, verr.New(verr.Usage, "cannot plan", fmt.Sprint(len(nodes)), "do")
		}
		if _, err := client.PlaceOnNodes(t.Context(), q); verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), "cannot plan: 3") {
			t.Errorf("%s: the plan was refused with %v", level, err)
		}
		if left := server.leftovers(); len(left) > 0 {
			t.Errorf("%s: left %v", level, left)
		}
		q.Plan = func(nodes []ClusterNode) (time.Duration, error) { return time.Hour, nil }
		a, err := client.PlaceOnNodes(t.Context(), q)
		testenv.Must(t, err)
		for i, end := range a.Ends {
			zone := ""
			if a.Nodes[i].Name == "n2" {
				zone = "r7"
			}
			if end.Agent != i || end.Netns != "self" || !end.Addr.IsValid() || a.Nodes[i].Zone != zone {
				t.Errorf("%s: end %+v of node %+v", level, end, a.Nodes[i])
			}
			checkEcho(t, a.Agents[i].Stream)
		}
		if len(a.Ends) != 3 {
			t.Errorf("%s: ends %+v", level, a.Ends)
		}
		testenv.Must(t, a.Close())
		checkCalls(t, server, Options{Level: level}.nodeNeeds())
		if text := (Options{Level: level}).MeshRBAC("jane"); !strings.Contains(text, "resources: [nodes]") || strings.Contains(text, "secrets") || strings.Contains(text, "configmaps") {
			t.Errorf("%s:\n%s", level, text)
		}
	}
}
