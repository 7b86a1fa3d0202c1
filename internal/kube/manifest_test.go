package kube

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/venturi-net/venturi/internal/verr"
)

// violatesRestricted judges a pod by the rules of PodSecurity "restricted", as
// kubernetes.io/docs/concepts/security/pod-security-standards lists them.
func violatesRestricted(p *corev1.Pod) string {
	s := p.Spec
	switch {
	case s.HostNetwork || s.HostPID || s.HostIPC:
		return "host namespaces"
	case s.SecurityContext == nil || s.SecurityContext.RunAsNonRoot == nil || !*s.SecurityContext.RunAsNonRoot:
		return "runAsNonRoot != true"
	case s.SecurityContext.SeccompProfile == nil || s.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault:
		return "seccompProfile"
	case len(s.SecurityContext.Sysctls) > 0:
		return "sysctls"
	case len(s.InitContainers)+len(s.EphemeralContainers) > 0:
		return "containers that are not looked at"
	}
	for _, v := range s.Volumes {
		if v.ConfigMap == nil && v.Secret == nil && v.EmptyDir == nil && v.Projected == nil && v.DownwardAPI == nil {
			return "volume types"
		}
	}
	for _, c := range s.Containers {
		x := c.SecurityContext
		switch {
		case x == nil || x.AllowPrivilegeEscalation == nil || *x.AllowPrivilegeEscalation:
			return "allowPrivilegeEscalation != false"
		case x.Privileged != nil && *x.Privileged:
			return "privileged"
		case x.Capabilities == nil || !slices.Contains(x.Capabilities.Drop, "ALL") || len(x.Capabilities.Add) > 0:
			return "unrestricted capabilities"
		case x.RunAsUser != nil && *x.RunAsUser == 0 || x.RunAsNonRoot != nil && !*x.RunAsNonRoot:
			return "runs as root"
		case x.SeccompProfile != nil && x.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault:
			return "seccompProfile"
		case x.ProcMount != nil || x.SELinuxOptions != nil:
			return "procMount or SELinux"
		case slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.HostPort != 0 }):
			return "host ports"
		}
	}
	return ""
}

// randomRun is any run that a user may ask for.
func randomRun(rng *rand.Rand) *run {
	r := &run{id: fmt.Sprintf("%05x", rng.IntN(1<<20)), namespace: "lab", deadline: time.Duration(1+rng.IntN(100)) * time.Minute, ports: 1 + rng.IntN(MaxPorts),
		Options: Options{Level: Level(rng.IntN(2)), Image: "reg.example/venturi:1", Namespace: []string{"", "lab"}[rng.IntN(2)]}}
	if rng.IntN(2) == 0 {
		r.Nodes = []string{"a", "b"}
	}
	if rng.IntN(2) == 0 {
		r.PullSecret, r.NodeSelector = "pull", map[string]string{"disk": "ssd"}
		r.Tolerations = []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}}
	}
	if rng.IntN(2) == 0 {
		r.owner = &metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: r.name("run"), UID: "1"}
	}
	return r
}

// Whatever is asked for, every pod that is an end is one that PodSecurity "restricted"
// admits; a node agent has what it needs and no more; and each has its label, deadline,
// requests and limits, and no token.
func TestEveryManifest(t *testing.T) {
	for seed := range uint64(500) {
		r := randomRun(rand.New(rand.NewPCG(seed, 7)))
		for _, role := range []string{clientRole, serverRole, localRole, clientNodeRole, serverNodeRole} {
			p := r.pod(role)
			c := p.Spec.Containers[0]
			isNode := strings.HasSuffix(role, "-node")
			why := violatesRestricted(p)
			if !isNode && why != "" {
				t.Fatalf("%s: %s", role, why)
			}
			if x := c.SecurityContext; isNode && (!p.Spec.HostNetwork || !p.Spec.HostPID || p.Spec.HostIPC || *x.Privileged || *x.AllowPrivilegeEscalation ||
				!slices.Equal(x.Capabilities.Drop, []corev1.Capability{"ALL"}) || !slices.Equal(x.Capabilities.Add, []corev1.Capability{"SYS_ADMIN", "SYS_PTRACE"})) {
				t.Fatalf("%s: %+v", role, x)
			}
			switch {
			case p.Labels[managedLabel] != manager || p.Labels[runLabel] != r.id || p.Labels[roleLabel] != role:
				t.Fatalf("%s: labels %v", role, p.Labels)
			case p.Spec.ActiveDeadlineSeconds == nil || *p.Spec.ActiveDeadlineSeconds != int64(r.deadline.Seconds()):
				t.Fatalf("%s: no deadline", role)
			case *p.Spec.AutomountServiceAccountToken || !*c.SecurityContext.ReadOnlyRootFilesystem || len(p.Spec.Volumes) > 0:
				t.Fatalf("%s: a token, a root that can be written, or a volume", role)
			case c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Cpu().IsZero() || c.Resources.Limits.Memory().IsZero():
				t.Fatalf("%s: resources %+v", role, c.Resources)
			case len(p.OwnerReferences) == 0 != (r.owner == nil):
				t.Fatalf("%s: owners %v", role, p.OwnerReferences)
			case (r.PullSecret == "") != (len(p.Spec.ImagePullSecrets) == 0) || len(p.Spec.Tolerations) != len(r.Tolerations) || len(p.Spec.NodeSelector) != len(r.NodeSelector):
				t.Fatalf("%s: what was asked for is not in %+v", role, p.Spec)
			case len(p.Name) > 63:
				t.Fatalf("%s: the name %s is too long", role, p.Name)
			}
		}
		j := r.job(r.firstRole())
		if s := j.Spec; *s.ActiveDeadlineSeconds <= 0 || *s.TTLSecondsAfterFinished <= 0 || *s.BackoffLimit != 0 || s.Template.Spec.RestartPolicy != corev1.RestartPolicyNever {
			t.Fatalf("job %+v", s)
		}
		for role, kind := range map[string]corev1.ServiceType{"service": corev1.ServiceTypeClusterIP, "nodeport": corev1.ServiceTypeNodePort} {
			checkService(t, r, r.service(kind, role))
		}
		if n := r.namespaceObject(); n.Labels[securityLabel] != r.Level.PodSecurity() || n.Labels[managedLabel] != manager {
			t.Fatalf("namespace %v", n.Labels)
		}
	}
}

// checkService wants each port once for TCP and once for UDP, by names that are unique, and
// none of another Service or of the loads' own range.
func checkService(t *testing.T, r *run, s *corev1.Service) {
	t.Helper()
	names := map[string]bool{}
	for _, p := range s.Spec.Ports {
		if names[p.Name] || len(p.Name) > 15 || p.Port != p.TargetPort.IntVal || p.Port >= 20000 || p.Port < 19000 {
			t.Fatalf("port %+v", p)
		}
		names[p.Name] = true
	}
	if len(names) != 2*r.ports || s.Spec.Selector[roleLabel] != serverRole || s.Spec.Selector[runLabel] != r.id {
		t.Fatalf("service %+v", s.Spec)
	}
}

// The scheduler is told to put client and server onto different nodes, and what belongs
// together onto one.
func TestPlaces(t *testing.T) {
	r := &run{id: "1", Options: Options{Level: Node}}
	if r.affinity(clientNodeRole) != nil {
		t.Error("the first pod is not free to go anywhere")
	}
	has := func(terms []corev1.PodAffinityTerm, role string) bool {
		return len(terms) == 1 && terms[0].LabelSelector.MatchLabels[roleLabel] == role && terms[0].LabelSelector.MatchLabels[runLabel] == "1"
	}
	if a := r.affinity(serverNodeRole); !has(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, clientNodeRole) {
		t.Errorf("server's node: %+v", a)
	}
	if a := r.affinity(serverRole); !has(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, serverNodeRole) {
		t.Errorf("server: %+v", a)
	}
	if a := r.affinity(localRole); !has(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, clientNodeRole) {
		t.Errorf("local server: %+v", a)
	}
	r.Nodes = []string{"a", "b"}
	for role, node := range map[string]string{clientRole: "a", localRole: "a", clientNodeRole: "a", serverRole: "b", serverNodeRole: "b"} {
		term := r.affinity(role).NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0]
		if term.Key != "metadata.name" || !slices.Equal(term.Values, []string{node}) {
			t.Errorf("%s: %+v, want node %s", role, term, node)
		}
	}
}

func TestPaths(t *testing.T) {
	for _, c := range []struct {
		o     Options
		asked string
		want  string // empty: an error
	}{
		{Options{}, "", "pod pod-local service nodeport"},
		{Options{Level: Node}, "", "host pod pod-local service nodeport"},
		{Options{}, "service", "pod service"},
		{Options{Level: Node}, "service host", "host service"},
		{Options{Level: Node, From: "a/b", To: "c/d"}, "", "host pod"},
		{Options{Level: Node, From: "a/b", To: "c/d"}, "service", ""},
		{Options{}, "host", ""},
		{Options{}, "vxlan", ""},
		{Options{}, "pod pod", ""},
	} {
		got, err := c.o.Paths(strings.Fields(c.asked))
		if strings.Join(got, " ") != c.want || (err == nil) != (c.want != "") || err != nil && verr.Code(err) != verr.Usage {
			t.Errorf("%+v %q: %v, %v, want %q", c.o, c.asked, got, err, c.want)
		}
	}
}

func TestOptions(t *testing.T) {
	ok := Options{Image: "x"}
	for name, spoil := range map[string]func(*Options){
		"no image":           func(o *Options) { o.Image = "" },
		"one node":           func(o *Options) { o.Nodes = []string{"a"} },
		"one node twice":     func(o *Options) { o.Nodes = []string{"a", "a"} },
		"from alone":         func(o *Options) { o.Level, o.From = Node, "a/b" },
		"from without agent": func(o *Options) { o.From, o.To = "a/b", "a/c" },
		"no namespace":       func(o *Options) { o.Level, o.From, o.To = Node, "b", "a/c" },
		"nodes and pods":     func(o *Options) { o.Level, o.From, o.To, o.Nodes = Node, "a/b", "a/c", []string{"x", "y"} },
	} {
		o := ok
		spoil(&o)
		if err := o.Check(); verr.Code(err) != verr.Usage {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := ok.Check(); err != nil {
		t.Error(err)
	}
	for text, want := range map[string]corev1.Toleration{
		"a":                {Key: "a", Operator: "Exists"},
		"a=b:NoSchedule":   {Key: "a", Operator: "Equal", Value: "b", Effect: "NoSchedule"},
		"x.io/y:NoExecute": {Key: "x.io/y", Operator: "Exists", Effect: "NoExecute"},
	} {
		if got, err := ParseToleration(text); got != want || err != nil {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "=b", "a:b", "a b"} {
		if _, err := ParseToleration(bad); verr.Code(err) != verr.Usage {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// What ends a trial is in a node's network and on any node, with the rights of its service account
// and none on the node. It is started again when it fails.
func TestTrialPod(t *testing.T) {
	r := &run{id: "1", namespace: TrialName, deadline: time.Hour, trial: []string{"kube", "lease"},
		Options: Options{Level: Node, Image: "x", Nodes: []string{"a"}, Tolerations: []corev1.Toleration{toleratesAll, {Key: "k"}}}}
	j := r.job(leaseRole)
	s := j.Spec.Template.Spec
	switch c := s.Containers[0]; {
	case j.Name != TrialName || j.Labels[trialLabel] != r.id || j.Labels[runLabel] != "" || *j.Spec.BackoffLimit == 0:
		t.Errorf("the Job: %+v", j)
	case s.ServiceAccountName != TrialName || !*s.AutomountServiceAccountToken || !s.HostNetwork || s.HostPID || s.Affinity != nil || len(s.Tolerations) != 1:
		t.Errorf("the pod: %+v", s)
	case !slices.Equal(c.Command, []string{program, "kube", "lease"}) || *c.SecurityContext.Privileged || !*c.SecurityContext.RunAsNonRoot:
		t.Errorf("its container: %+v", c)
	}
	if p := r.pod(nodeRole(0)); p.Spec.ServiceAccountName != "" || *p.Spec.AutomountServiceAccountToken || len(p.Spec.Tolerations) != 2 {
		t.Errorf("the pod of an agent: %+v", p.Spec)
	}
}
