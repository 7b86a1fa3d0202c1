package kube

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/venturi-net/venturi/internal/verr"
)

func testRequest(level Level, namespace string) RunRequest {
	o := Options{Level: level, Image: "x", Namespace: namespace}
	paths, _ := o.Paths(nil)
	return RunRequest{Options: o, Paths: paths, Ports: 2, Deadline: time.Hour, Command: "venturi compare", Say: func(string, ...any) {}}
}

// addNamespace makes one that is not ours.
func (s *apiServer) addNamespace(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.namespaces[name] = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// addCopiedNamespace makes an old one of somebody's, from the manifest of a run's.
func (s *apiServer) addCopiedNamespace(name string) {
	s.addRunNamespace(time.Hour)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.namespaces[name] = s.namespaces[claimName]
	s.namespaces[name].Name = name
	delete(s.namespaces, claimName)
}

// rightsOf lists rights as the server notes calls.
func rightsOf(scopes []scopedRights) (all []string) {
	for _, s := range scopes {
		for _, r := range s.rights {
			for _, verb := range r.verbs {
				all = append(all, verb+" "+r.group+"/"+r.name)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Each level finds its paths, speaks to its agents, leaves nothing, and makes the calls that
// the printed Role allows: those, and no others.
func TestPlace(t *testing.T) {
	t.Parallel() // it waits, on a cluster of its own
	for _, level := range []Level{Plain, Node} {
		for _, namespace := range []string{"", "lab"} {
			t.Run(level.String()+" "+namespace, func(t *testing.T) {
				server, client := newAPIServer(t)
				server.addNamespace("lab")
				server.addCopiedNamespace("shop")
				q := testRequest(level, namespace)
				p, err := client.Place(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				checkPaths(t, p, level)
				for _, a := range p.Agents {
					checkEcho(t, a.Stream)
				}
				if err := p.Close(); err != nil {
					t.Error(err)
				}
				if left := server.leftovers(); !slices.Equal(left, []string{"namespace lab", "namespace shop"}) {
					t.Errorf("left: %v", left)
				}
				checkCalls(t, server, q.needs())
			})
		}
	}
}

// checkCalls wants the calls that were made to be those of the rights.
func checkCalls(t *testing.T, server *apiServer, needs []scopedRights) {
	t.Helper()
	rights := rightsOf(needs)
	for call := range server.calls {
		if !slices.Contains(rights, call) && !strings.Contains(call, "selfsubjectaccessreviews") {
			t.Errorf("the call %q is in no Role", call)
		}
	}
	for _, right := range rights {
		if !server.calls[right] && right != "create /pods/exec" { // that of SPDY
			t.Errorf("nobody needs the right %q", right)
		}
	}
}

func checkPaths(t *testing.T, p *Placement, level Level) {
	t.Helper()
	byName := map[string]ClusterPath{}
	for _, path := range p.Paths {
		byName[path.Name] = path
	}
	own := func(e TrafficEnd) bool { return e.Netns == "self" }
	if level == Plain {
		if pod := byName["pod"]; !own(pod.From) || !own(pod.To) || p.Agents[pod.To.Agent].Node != "n2" {
			t.Errorf("pod: %+v", pod)
		}
		if local := byName["pod-local"]; local.To.Agent < 2 || p.Agents[local.To.Agent].Node != "n1" {
			t.Errorf("pod-local: %+v", local)
		}
	} else {
		if host := byName["host"]; !own(host.From) || host.From.Addr.String() != "192.0.2.1" || host.To.Addr.String() != "192.0.2.2" || host.To.Name != "n2" {
			t.Errorf("host: %+v", host)
		}
		if pod := byName["pod"]; !strings.HasPrefix(pod.From.Netns, "pod:0a1b") || pod.From.Agent != 0 || pod.To.Agent != 1 {
			t.Errorf("pod: %+v", pod)
		}
		if local := byName["pod-local"]; local.To.Agent != 0 || !strings.HasPrefix(local.To.Netns, "pod:") {
			t.Errorf("pod-local: %+v", local)
		}
	}
	if s := byName["service"]; fmt.Sprint(s.Dial) != "[10.96.0.7:19000 10.96.0.7:19001]" || s.Port != 19000 || s.To != byName["pod"].To {
		t.Errorf("service: %+v", s)
	}
	if s := byName["nodeport"]; fmt.Sprint(s.Dial) != "[192.0.2.2:30000 192.0.2.2:30001]" || s.Port != 19500 {
		t.Errorf("nodeport: %+v", s)
	}
}

func checkEcho(t *testing.T, s *Stream) {
	t.Helper()
	_ = s.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := fmt.Fprintln(s, "hello"); err != nil {
		t.Error(err)
	}
	if line, err := bufio.NewReader(s).ReadString('\n'); line != "hello\n" {
		t.Errorf("it said %q, %v", line, err)
	}
}

// A server that knows no WebSocket is spoken to over SPDY.
func TestSPDY(t *testing.T) {
	server, client := newAPIServer(t)
	server.noSockets = true
	server.addNamespace("lab")
	s, err := client.agent(t.Context(), "lab", "p", "n1")
	if err != nil {
		t.Fatal(err)
	}
	checkEcho(t, s)
	_ = s.Close()
	if !server.calls["create /pods/exec"] || !server.calls["get /pods/exec"] {
		t.Errorf("calls: %v", server.calls)
	}
}

// Between pods that are there, agents go to their nodes, and the pods are only read.
func TestNamedPods(t *testing.T) {
	server, client := newAPIServer(t)
	for i, name := range []string{"cart", "db", "cart2"} {
		server.addNamespace("shop")
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", UID: "0a1b2c3d-aaaa"}, Spec: corev1.PodSpec{NodeName: []string{"n1", "n2", "n1"}[i]},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: fmt.Sprintf("10.244.9.%d", i)}}
		server.pods["shop/"+name] = p
	}
	q := testRequest(Node, "")
	q.From, q.To = "shop/cart", "shop/db"
	q.Paths, _ = q.Options.Paths(nil)
	p, err := client.Place(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if pod := p.Paths[1]; pod.From.Name != "shop/cart" || pod.To.Addr.String() != "10.244.9.1" || pod.To.Agent != 1 || pod.From.Netns != "pod:0a1b2c3d-aaaa" {
		t.Errorf("%+v", pod)
	}
	if len(p.Agents) != 2 || !slices.Equal(p.run.Nodes, []string{"n1", "n2"}) {
		t.Errorf("%d agents on %v", len(p.Agents), p.run.Nodes)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if len(server.pods) != 3 {
		t.Errorf("left: %v", server.leftovers())
	}
	for _, to := range []string{"shop/cart2", "shop/none"} {
		q.To = to
		if _, err := client.Place(t.Context(), q); err == nil {
			t.Errorf("to %s: no error", to)
		}
	}
}

// A right that is missing is named before anything is made; one that the server did not tell
// of is named by the call, and nothing is left.
func TestMissingRight(t *testing.T) {
	for _, scope := range testRequest(Plain, "").needs() {
		for _, r := range scope.rights {
			for _, verb := range r.verbs {
				right := verb + " " + r.group + "/" + r.name
				server, client := newAPIServer(t)
				server.forbidden[right] = true
				_, err := client.Place(t.Context(), testRequest(Plain, ""))
				if verr.Code(err) != verr.Permission || !strings.Contains(err.Error(), verb+" "+r.name) {
					t.Errorf("without %q: %v", right, err)
				}
				if len(server.leftovers()) > 0 {
					t.Errorf("without %q there is %v", right, server.leftovers())
				}
				// Nothing is removed before the end; SPDY does without get.
				if verb == "delete" || r.name == podsExec.name && verb == "get" {
					continue
				}
				server.unreviewed = true
				_, err = client.Place(t.Context(), testRequest(Plain, ""))
				if right == "create /pods/exec" {
					continue // WebSocket does not need it
				}
				if verr.Code(err) != verr.Permission || !strings.Contains(err.Error(), verb) || !strings.Contains(err.Error(), r.name) {
					t.Errorf("without %q, and without a warning: %v", right, err)
				}
			}
		}
	}
}

// A pod that cannot start ends the run with the reason, and nothing is left.
func TestPodDoesNotStart(t *testing.T) {
	for why, spoil := range map[string]func(*corev1.Pod){
		"ImagePullBackOff": func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodPending
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "not found"}}
		},
		"code 127": func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodFailed
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 127, Reason: "Error"}}
		},
		"no IPv4 address": func(p *corev1.Pod) { p.Status.PodIP = "fd00::7" },
	} {
		server, client := newAPIServer(t)
		server.spoil = func(p *corev1.Pod) {
			if p.Labels[roleLabel] == serverRole {
				spoil(p)
			}
		}
		if _, err := client.Place(t.Context(), testRequest(Plain, "")); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", why, err)
		}
		if len(server.leftovers()) > 0 {
			t.Errorf("%s: left %v", why, server.leftovers())
		}
	}
}

// PodSecurity refuses agents on nodes in a restricted namespace, and the error says so.
func TestPodSecurity(t *testing.T) {
	server, client := newAPIServer(t)
	server.addNamespace("lab")
	server.namespaces["lab"].Labels = map[string]string{securityLabel: "restricted"}
	if _, err := client.Place(t.Context(), testRequest(Node, "lab")); err == nil || !strings.Contains(err.Error(), "violates PodSecurity") || !strings.Contains(err.Error(), "enforce=privileged") {
		t.Error(err)
	}
	p, err := client.Place(t.Context(), testRequest(Plain, "lab"))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil || len(server.leftovers()) != 1 {
		t.Errorf("%v, left %v", err, server.leftovers())
	}
}

// What a dead run left is removed at the next start. One that goes on is not disturbed; and
// cleanup removes both. A namespace with a copied manifest stays.
func TestSweep(t *testing.T) {
	t.Parallel() // it waits, on a cluster of its own
	for _, namespace := range []string{"", "lab"} {
		server, client := newAPIServer(t)
		server.addNamespace("lab")
		server.addCopiedNamespace("shop")
		dead, err := client.Place(t.Context(), testRequest(Plain, namespace))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Place(t.Context(), testRequest(Plain, namespace)); verr.Code(err) != verr.Busy || !strings.Contains(err.Error(), "venturi compare") {
			t.Errorf("beside a run: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		q := testRequest(Plain, namespace)
		q.Wait = true
		if _, err := client.Place(ctx, q); err == nil || verr.Code(err) == verr.Busy {
			t.Errorf("waiting: %v", err)
		}
		cancel()
		server.mu.Lock()
		for _, j := range server.jobs { // its pod was idle
			j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
			j.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
		}
		for _, n := range server.namespaces {
			n.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
		}
		server.mu.Unlock()
		p, err := client.Place(t.Context(), testRequest(Plain, namespace))
		if err != nil {
			t.Fatal(err)
		}
		if left := strings.Join(server.leftovers(), " "); strings.Contains(left, dead.run.id) {
			t.Errorf("of the dead run there is %s", left)
		}
		removed, err := client.Cleanup(t.Context(), namespace)
		if left := server.leftovers(); err != nil || len(removed) == 0 || !slices.Equal(left, []string{"namespace lab", "namespace shop"}) {
			t.Errorf("removed %v, %v; left %v", removed, err, left)
		}
		if err := p.Close(); err != nil {
			t.Errorf("to close what is removed: %v", err)
		}
		_ = dead.Close()
	}
}

// The printed Role is YAML with every right in it, and asks for no Secret. What may be deleted is named, and
// what the rights amount to is said.
func TestRBAC(t *testing.T) {
	for _, o := range []Options{{}, {Namespace: "lab"}, {Level: Node, Namespace: "lab", From: "a/b", To: "c/d"}, {Level: Node, From: "a/b", To: "c/d"}} {
		text := o.RBAC("jane")
		for _, scope := range o.needs() {
			for _, r := range scope.rights {
				named := ""
				if slices.Contains(r.verbs, "delete") && len(r.names) == 0 {
					t.Errorf("any of %s may be deleted", r.name)
				}
				if len(r.names) > 0 {
					named = "  resourceNames: [" + strings.Join(r.names, ", ") + "]\n"
				}
				if !strings.Contains(text, fmt.Sprintf("resources: [%s]\n%s  verbs: [%s]", r.name, named, strings.Join(r.verbs, ", "))) {
					t.Errorf("%+v: %s is not in\n%s", o, r.name, text)
				}
			}
		}
		if strings.Contains(text, "secrets") || strings.Contains(text, "*") {
			t.Errorf("too much:\n%s", text)
		}
		for _, text := range []string{text, o.MeshRBAC("jane"), o.NodesRBAC("jane"), o.TuneRBAC("jane", nil, false)} {
			plain := strings.Contains(text, `at the level "plain"`)
			alone := o.Namespace != "" && plain
			if strings.Contains(text, "as good as root on every node") == alone || strings.Contains(text, "there: root on every\n# node unless") != alone ||
				strings.Contains(text, "all namespaces. With -n") != (o.Namespace == "" && plain) || strings.Contains(text, "-n NAMESPACE does not change that") != (o.Namespace == "" && !plain) {
				t.Errorf("%+v: what the rights amount to:\n%s", o, text)
			}
		}
	}
}
