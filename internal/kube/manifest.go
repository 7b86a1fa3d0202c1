package kube

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Labels of all that is created.
const (
	// Label finds all of it.
	Label = managedLabel + "=" + manager

	managedLabel = "app.kubernetes.io/managed-by"
	manager      = "venturi"
	runLabel     = "venturi.io/run"
	trialLabel   = "venturi.io/trial" // in its place, of what stays for a trial
	roleLabel    = "venturi.io/role"

	commandAnnotation = "venturi.io/command" // what to tell others of the run

	securityLabel = "pod-security.kubernetes.io/enforce"
	hostnameLabel = "kubernetes.io/hostname"
)

// program is this program in its image.
const program = "/venturi"

// How pods end that nobody speaks to: the program in them waits for idleLimit. The Job that
// they belong to goes ttl after that, and takes along all that it owns.
const (
	idleLimit = 20 * time.Second
	ttl       = 5 * time.Second
)

// roles of pods.
const (
	clientRole     = "client"
	serverRole     = "server"      // on the other node
	localRole      = "local"       // a server on the client's node
	clientNodeRole = "client-node" // node agents
	serverNodeRole = "server-node"
	leaseRole      = "lease" // undoes a trial
)

// run is what one run creates.
type run struct {
	Options
	id        string
	namespace string
	command   string
	deadline  time.Duration
	ports     int // of each Service, and of the servers behind it
	// readsFilter lets the agents on nodes read the packet filter.
	readsFilter bool
	// changesNodes lets the agents on nodes change them, as root on the node may.
	changesNodes bool
	// trial are the arguments of the program that ends a trial; none: it is none.
	trial []string
	owner *metav1.OwnerReference
}

// claimName is the name of what only one run at a time can create: a Job in the namespace that
// the user named, or a namespace of its own with such a Job in it.
const claimName = manager + "-run"

func (r *run) name(role string) string { return manager + "-" + r.id + "-" + role }

// label is the one that has the run's id.
func (r *run) label() string {
	if r.trial != nil {
		return trialLabel
	}
	return runLabel
}

// claimName is the name of what only one run, or one trial, can create.
func (r *run) claimName() string {
	if r.trial != nil {
		return TrialName
	}
	return claimName
}

// selector finds all that is of this run.
func (r *run) selector() string { return managedLabel + "=" + manager + "," + r.label() + "=" + r.id }

func (r *run) meta(role string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{
		Name: r.name(role), Namespace: r.namespace,
		Labels:      map[string]string{managedLabel: manager, r.label(): r.id, roleLabel: role},
		Annotations: map[string]string{commandAnnotation: r.command},
	}
	if r.owner != nil {
		m.OwnerReferences = []metav1.OwnerReference{*r.owner}
	}
	return m
}

// namespaceObject is a namespace of our own, which allows what the level needs and no more.
func (r *run) namespaceObject() *corev1.Namespace {
	m := r.meta("namespace")
	m.Name, m.Namespace = claimName, ""
	m.Labels[securityLabel] = r.Level.PodSecurity()
	return &corev1.Namespace{ObjectMeta: m}
}

// job owns all else. Its pod is that of a role.
func (r *run) job(role string) *batchv1.Job {
	template := r.pod(role)
	template.Name, template.Namespace = "", ""
	m := r.meta(role)
	m.Name = r.claimName()
	retries := int32(0)
	if r.trial != nil {
		retries = trialRetries
	}
	return &batchv1.Job{ObjectMeta: m, Spec: batchv1.JobSpec{
		ActiveDeadlineSeconds: seconds(r.deadline), TTLSecondsAfterFinished: new(int32(ttl.Seconds())), BackoffLimit: &retries,
		Template: corev1.PodTemplateSpec{ObjectMeta: template.ObjectMeta, Spec: template.Spec},
	}}
}

func seconds(d time.Duration) *int64 { return new(int64(d.Seconds())) }

// pod is that of a role.
func (r *run) pod(role string) *corev1.Pod {
	privileged := r.seesNode(role)
	security := restrictedContainer()
	if privileged {
		security = nodeContainer()
	}
	if privileged && r.readsFilter {
		security.Capabilities.Add = append(security.Capabilities.Add, "NET_ADMIN")
	}
	if privileged && r.changesNodes {
		security = tuningContainer()
	}
	p := &corev1.Pod{ObjectMeta: r.meta(role), Spec: corev1.PodSpec{
		ActiveDeadlineSeconds: seconds(r.deadline), TerminationGracePeriodSeconds: new(int64(1)), RestartPolicy: corev1.RestartPolicyNever,
		AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
		HostNetwork: privileged, HostPID: privileged,
		NodeSelector: maps.Clone(r.NodeSelector), Tolerations: r.Tolerations, Affinity: r.affinity(role),
		Containers: []corev1.Container{{
			Name: "agent", Image: r.Image, ImagePullPolicy: corev1.PullIfNotPresent,
			Command:         []string{program, "agent", "--linger", idleLimit.String()},
			SecurityContext: security,
			Resources:       resources(privileged),
		}},
	}}
	if !privileged {
		p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
	}
	if role == leaseRole {
		r.holdsTrial(p)
	}
	if r.PullSecret != "" {
		p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: r.PullSecret}}
	}
	return p
}

// resources keep an agent's threads from waiting behind those of all others, which made
// latencies useless. The limit of memory is above what an agent keeps while its collector
// rests; that of cores is there for quotas that ask for one, and above what its loops take,
// because a throttled loop measures its throttle.
func resources(pinned bool) corev1.ResourceRequirements {
	cores := "250m"
	if pinned { // a node agent has both ends of a path, and no other core to go to
		cores = "500m"
	}
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cores), corev1.ResourceMemory: resource.MustParse("64Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("1280Mi")},
	}
}

// nobodyID is a user without a name, a home and a file.
const nobodyID = 65532

func restrictedContainer() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		RunAsNonRoot: new(true), RunAsUser: new(int64(nobodyID)), RunAsGroup: new(int64(nobodyID)),
		AllowPrivilegeEscalation: new(false), Privileged: new(false), ReadOnlyRootFilesystem: new(true),
		Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// nodeContainer has what it takes to enter the network namespaces of a node's pods: either
// capability alone fails, one on opening /proc/N/ns/net, the other on entering it.
func nodeContainer() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		RunAsUser: new(int64(0)), AllowPrivilegeEscalation: new(false), Privileged: new(false), ReadOnlyRootFilesystem: new(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"SYS_ADMIN", "SYS_PTRACE"}},
	}
}

// tuningContainer may do what root on the node may. Less is not enough: the profiles of seccomp,
// AppArmor and SELinux that runtimes give all others bar writing to /proc/sys and /sys, and each
// runtime has its own names for doing without.
func tuningContainer() *corev1.SecurityContext {
	return &corev1.SecurityContext{RunAsUser: new(int64(0)), Privileged: new(true), ReadOnlyRootFilesystem: new(true)}
}

// seesNode tells whether the pod of a role sees its node as processes of the node do.
func (r *run) seesNode(role string) bool {
	return role == clientNodeRole || role == serverNodeRole || strings.HasPrefix(role, nodeRolePrefix) && r.Level == Node
}

// agentFlags are those of the agent in the pod of a role. One that changes a node does so with the
// node's own file system, where the journal of these changes is, and outlives the pod.
func (r *run) agentFlags(role string) []string {
	if r.changesNodes && r.seesNode(role) {
		return []string{"--host-files"}
	}
	return nil
}

// affinity places the pod of a role: the scheduler chooses nodes, unless they are named.
func (r *run) affinity(role string) *corev1.Affinity {
	if role == leaseRole {
		return nil
	}
	a := &corev1.Affinity{}
	node := map[string]int{clientRole: 0, clientNodeRole: 0, localRole: 0, serverRole: 1, serverNodeRole: 1}[role]
	if nth, isNth := strings.CutPrefix(role, nodeRolePrefix); isNth {
		node, _ = strconv.Atoi(nth)
	}
	if len(r.Nodes) > 0 {
		a.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
				{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{r.Nodes[node]}}}}}}}
		return a
	}
	term := func(other string) []corev1.PodAffinityTerm {
		return []corev1.PodAffinityTerm{{TopologyKey: hostnameLabel, LabelSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{runLabel: r.id, roleLabel: other}}}}
	}
	first := r.firstRole()
	switch {
	case role == first:
		return nil
	case node == 0:
		a.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term(first)}
	default:
		a.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term(first)}
		if role == serverRole && r.Level == Node {
			a.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term(serverNodeRole)}
		}
	}
	return a
}

// firstRole is the role of the Job's own pod.
func (r *run) firstRole() string {
	if r.Level == Node {
		return clientNodeRole
	}
	return clientRole
}

// servicePorts are the first ports of Services by their paths, and of the servers behind them.
var servicePorts = map[string]int32{"service": 19000, "nodeport": 19500}

// MaxPorts is how many ports a Service of a run may have.
const MaxPorts = 400

// service leads to the server's pod, by the address of the cluster or, with a type, by a port
// of every node.
func (r *run) service(kind corev1.ServiceType, role string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: r.meta(role), Spec: corev1.ServiceSpec{
		Type: kind, Selector: map[string]string{runLabel: r.id, roleLabel: serverRole},
	}}
	for port := servicePorts[role]; port < servicePorts[role]+int32(r.ports); port++ {
		for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP} {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{
				Name: fmt.Sprintf("p%d-%c", port, protocol[0]|0x20), Protocol: protocol, Port: port, TargetPort: intstr.FromInt32(port)})
		}
	}
	return s
}
