package kube

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/venturi-net/venturi/internal/testenv"
)

// APIServer is the fake for tests outside of this package.
type APIServer = apiServer

// NewAPIServer starts one, with nodes n1, n2, ... that are ready, and gives a kubeconfig for it.
func NewAPIServer(t *testing.T, nodes int) (s *APIServer, kubeconfig string) {
	t.Helper()
	s, _ = newAPIServer(t)
	s.addNodes(nodes + 1)
	s.nodes = s.nodes[:nodes] // the last one is not ready
	s.addNamespace("kube-system")
	s.addNamespace(TrialName)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	testenv.Must(t, os.WriteFile(kubeconfig, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"c",
"clusters":[{"name":"c","cluster":{"server":%q}}],"users":[{"name":"u","user":{}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}]}`, s.URL), 0o600))
	return s, kubeconfig
}

// AddNode makes one more node, which is ready, but for what change does.
func (s *apiServer) AddNode(name string, change func(*corev1.Node)) {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	change(&n)
	s.nodes = append(s.nodes, n)
}

// Node gives one of the nodes.
func (s *apiServer) Node(i int) *corev1.Node { return &s.nodes[i] }

// EndJobs ends the Jobs that there are, as their controller does when their pods have ended.
func (s *apiServer) EndJobs() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	}
}

// RemoveNamespace removes a namespace, of which nothing else is looked at.
func (s *apiServer) RemoveNamespace(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.namespaces, name)
}

// FinishJob ends a Job, and removes it with all that it owns, as the controllers do after a while.
func (s *apiServer) FinishJob(namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeJob(namespace, name)
}

// AdvanceClock has the server's clock be ahead of ours.
func (s *apiServer) AdvanceClock(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clockSkew = by
}

// OnPod is called with each pod that is made.
func (s *apiServer) OnPod(fn func(*corev1.Pod)) { s.spoil = fn }

// Forbid refuses a right, such as "patch /configmaps".
func (s *apiServer) Forbid(right string) { s.forbidden[right] = true }

// BeforeCall is called before each call, with the right that it takes.
func (s *apiServer) BeforeCall(fn func(right string)) { s.before = fn }

// RunAgents gives what runs commands in the containers of the agents on nodes.
func (s *apiServer) RunAgents(run func(node string, command []string, in io.Reader, out io.Writer)) {
	s.agent = run
}

// StartSlowly has so many pods run as soon as they are made; each further one waits for [RunPending].
func (s *apiServer) StartSlowly(most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	made := 0
	s.spoil = func(p *corev1.Pod) {
		if made++; made > most {
			p.Status.Phase = corev1.PodPending
		}
	}
}

// RunPending has one more pod run, if there is one that waits.
func (s *apiServer) RunPending() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pods {
		if p.Status.Phase == corev1.PodPending {
			p.Status.Phase = corev1.PodRunning
			return
		}
	}
}

// Remaining lists what there is of ours, but for namespaces of others.
func (s *apiServer) Remaining() []string {
	left := slices.DeleteFunc(s.leftovers(), func(name string) bool {
		return name == "namespace kube-system" || name == "namespace "+TrialName
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stored[ledgerPath] != nil {
		left = append(left, "the journal")
	}
	return left
}

const ledgerPath = "/api/v1/namespaces/" + LedgerNamespace + "/configmaps/" + LedgerName

// Calls are the calls so far, each as "verb group/resource", of those with a name with it.
func (s *apiServer) Calls() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for call := range s.calls {
		all = append(all, call)
	}
	return all
}
