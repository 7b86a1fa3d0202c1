package kube

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// apiServer is as much of an API server, its controllers and kubelets as a run needs. It
// notes what was asked of it.
type apiServer struct {
	*httptest.Server
	mu         sync.Mutex
	calls      map[string]bool // "verb group/resource"
	named      map[string]bool // of those that read an object by its name, with the name
	forbidden  map[string]bool // likewise; SelfSubjectAccessReviews tell of hidden ones only
	unreviewed bool            // reviews allow all
	noSockets  bool            // WebSocket is refused
	namespaces map[string]*corev1.Namespace
	jobs       map[string]*batchv1.Job // by namespace/name
	pods       map[string]*corev1.Pod
	services   map[string]*corev1.Service
	nodes      []corev1.Node
	objects    map[string]string                                                // JSON of any other object, or of a list, by its path
	spoil      func(*corev1.Pod)                                                // what happens to a pod that was made
	before     func(right string)                                               // what happens before a call
	clockSkew  time.Duration                                                    // of its clock, to ours
	stored     map[string]*storedObject                                         // by their paths
	agent      func(node string, command []string, in io.Reader, out io.Writer) // nil: echo
	execs      int
	next       int
}

func newAPIServer(t *testing.T) (*apiServer, *Client) {
	t.Helper()
	s := &apiServer{calls: map[string]bool{}, named: map[string]bool{}, forbidden: map[string]bool{}, namespaces: map[string]*corev1.Namespace{},
		jobs: map[string]*batchv1.Job{}, pods: map[string]*corev1.Pod{}, services: map[string]*corev1.Service{}, spoil: func(*corev1.Pod) {}, before: func(string) {}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	c, err := newClient(&rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

// leftovers lists what there is.
func (s *apiServer) leftovers() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.namespaces {
		names = append(names, "namespace "+name)
	}
	for name := range s.jobs {
		names = append(names, "job "+name)
	}
	for name := range s.pods {
		names = append(names, "pod "+name)
	}
	for name := range s.services {
		names = append(names, "service "+name)
	}
	slices.Sort(names)
	return names
}

// apiCall is a request's path, taken apart.
type apiCall struct{ verb, group, resource, namespace, name string }

func parseCall(r *http.Request) (c apiCall) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if parts[0] == "api" {
		parts = parts[2:]
	} else {
		c.group, parts = parts[1], parts[3:]
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		c.namespace, parts = parts[1], parts[2:]
	}
	c.resource = parts[0]
	if len(parts) > 1 {
		c.name = parts[1]
	}
	if len(parts) > 2 {
		c.resource += "/" + parts[2]
	}
	c.verb = map[string]string{"POST": "create", "DELETE": "delete", "GET": "list", "PATCH": "patch", "PUT": "update"}[r.Method]
	if r.Method == http.MethodGet && c.name != "" {
		c.verb = "get"
	}
	return c
}

func (c apiCall) right() string { return c.verb + " " + c.group + "/" + c.resource }

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, text string) {
	reply(w, code, &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: int32(code), Reason: reason, Message: text})
}

func reply(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := parseCall(r)
	s.before(c.right())
	s.mu.Lock()
	w.Header().Set("Date", time.Now().Add(s.clockSkew).UTC().Format(http.TimeFormat))
	s.calls[c.right()] = true
	if c.verb == "get" {
		s.named[c.right()+" "+c.name] = true
	}
	forbidden := s.forbidden[c.right()]
	s.mu.Unlock()
	if forbidden {
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, fmt.Sprintf("%s is forbidden: User \"jane\" cannot %s resource %q in API group %q", c.resource, c.verb, c.resource, c.group))
		return
	}
	if c.resource == "pods/exec" {
		s.exec(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serveStored(w, r, c, body) {
		return
	}
	switch c.verb {
	case "create":
		s.create(w, c, body, r.URL.Query().Has("dryRun"))
	case "delete":
		s.delete(w, c, body)
	default:
		s.read(w, r.URL.Path, c, r.URL.Query().Get("labelSelector"))
	}
}

func (s *apiServer) create(w http.ResponseWriter, c apiCall, body []byte, dryRun bool) {
	if c.resource == "selfsubjectaccessreviews" {
		var review struct {
			Spec struct {
				ResourceAttributes struct{ Verb, Group, Resource, Subresource string }
			}
		}
		_ = json.Unmarshal(body, &review)
		a := review.Spec.ResourceAttributes
		asked := apiCall{verb: a.Verb, group: a.Group, resource: strings.TrimSuffix(a.Resource+"/"+a.Subresource, "/")}
		reply(w, http.StatusCreated, map[string]any{"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
			"status": map[string]bool{"allowed": s.unreviewed || !s.forbidden[asked.right()]}})
		return
	}
	if c.namespace != "" && s.namespaces[c.namespace] == nil {
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, "namespace "+c.namespace+" not found")
		return
	}
	taken := c.resource == "namespaces" && s.namespaces[objectName(body)] != nil || c.resource == "jobs" && s.jobs[c.namespace+"/"+objectName(body)] != nil
	if taken {
		refuse(w, http.StatusConflict, metav1.StatusReasonAlreadyExists, c.resource+" \""+objectName(body)+"\" already exists")
		return
	}
	s.next++
	created := metav1.NewTime(time.Now().Add(s.clockSkew))
	uid := types.UID(fmt.Sprintf("0a1b2c3d-0000-0000-0000-%012d", s.next))
	switch c.resource {
	case "namespaces":
		n := &corev1.Namespace{}
		_ = json.Unmarshal(body, n)
		n.CreationTimestamp, n.UID = created, uid
		s.namespaces[n.Name] = n
		reply(w, http.StatusCreated, n)
	case "jobs":
		j := &batchv1.Job{}
		_ = json.Unmarshal(body, j)
		j.CreationTimestamp, j.UID = created, uid
		s.jobs[c.namespace+"/"+j.Name] = j
		pod := &corev1.Pod{ObjectMeta: j.Spec.Template.ObjectMeta, Spec: j.Spec.Template.Spec}
		pod.Name, pod.Namespace, pod.UID, pod.CreationTimestamp = j.Name+"-x7xk2", c.namespace, uid, created
		pod.Labels = maps.Clone(pod.Labels)
		pod.Labels[batchv1.ControllerUidLabel] = string(uid)
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: j.Name, UID: j.UID, Controller: new(true)}}
		s.run(pod)
		reply(w, http.StatusCreated, j)
	case "pods":
		p := &corev1.Pod{}
		_ = json.Unmarshal(body, p)
		if s.namespaces[c.namespace].Labels[securityLabel] == "restricted" && violatesRestricted(p) != "" {
			refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, "pods \""+p.Name+"\" is forbidden: violates PodSecurity \"restricted:latest\": "+violatesRestricted(p))
			return
		}
		if !dryRun {
			p.UID, p.CreationTimestamp = uid, created
			s.run(p)
		}
		reply(w, http.StatusCreated, p)
	case "services":
		v := &corev1.Service{}
		_ = json.Unmarshal(body, v)
		v.Spec.ClusterIP = "10.96.0.7"
		for i := range v.Spec.Ports {
			if v.Spec.Type == corev1.ServiceTypeNodePort {
				v.Spec.Ports[i].NodePort = 30000 + v.Spec.Ports[i].Port%100
			}
		}
		s.services[c.namespace+"/"+v.Name] = v
		reply(w, http.StatusCreated, v)
	}
}

// run is what scheduler and kubelet do with a pod.
func (s *apiServer) run(p *corev1.Pod) {
	node, host := "n1", "192.0.2.1"
	if role := p.Labels[roleLabel]; role == serverRole || role == serverNodeRole {
		node, host = "n2", "192.0.2.2"
	}
	if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		node = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0]
	}
	for _, n := range s.nodes {
		if n.Name == node && len(n.Status.Addresses) > 0 {
			host = n.Status.Addresses[0].Address
		}
	}
	p.Spec.NodeName, p.Status.HostIP, p.Status.Phase = node, host, corev1.PodRunning
	p.Status.PodIP = fmt.Sprintf("10.244.0.%d", s.next)
	if p.Spec.HostNetwork {
		p.Status.PodIP = host
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	s.spoil(p)
	s.pods[p.Namespace+"/"+p.Name] = p
}

func objectName(body []byte) string {
	var o metav1.PartialObjectMetadata
	_ = json.Unmarshal(body, &o)
	return o.Name
}

func (s *apiServer) delete(w http.ResponseWriter, c apiCall, body []byte) {
	var options metav1.DeleteOptions
	_ = json.Unmarshal(body, &options)
	var is types.UID
	if n := s.namespaces[c.name]; c.resource == "namespaces" && n != nil {
		is = n.UID
	}
	if j := s.jobs[c.namespace+"/"+c.name]; c.resource == "jobs" && j != nil {
		is = j.UID
	}
	if options.Preconditions == nil || options.Preconditions.UID == nil || *options.Preconditions.UID != is {
		refuse(w, http.StatusConflict, metav1.StatusReasonConflict, "it is not the object of this UID")
		return
	}
	switch c.resource {
	case "namespaces":
		delete(s.namespaces, c.name)
		s.collect(c.name, func(metav1.ObjectMeta) bool { return true })
	case "jobs":
		j := s.jobs[c.namespace+"/"+c.name]
		if j == nil {
			refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, "no such job")
			return
		}
		s.removeJob(c.namespace, c.name)
	}
	reply(w, http.StatusOK, &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Success"})
}

// removeJob removes a Job, if it is there, and what it owns.
func (s *apiServer) removeJob(namespace, name string) {
	j := s.jobs[namespace+"/"+name]
	if j == nil {
		return
	}
	delete(s.jobs, namespace+"/"+name)
	s.collect(namespace, func(m metav1.ObjectMeta) bool {
		return strings.HasPrefix(m.Name, j.Name) || len(m.OwnerReferences) > 0 && m.OwnerReferences[0].UID == j.UID
	})
}

// collect is the garbage collector.
func (s *apiServer) collect(namespace string, gone func(metav1.ObjectMeta) bool) {
	for name, p := range s.pods {
		if strings.HasPrefix(name, namespace+"/") && gone(p.ObjectMeta) {
			delete(s.pods, name)
		}
	}
	for name, v := range s.services {
		if strings.HasPrefix(name, namespace+"/") && gone(v.ObjectMeta) {
			delete(s.services, name)
		}
	}
	for name := range s.jobs {
		if s.namespaces[namespace] == nil && strings.HasPrefix(name, namespace+"/") {
			delete(s.jobs, name)
		}
	}
}

func selected(selector string, labels map[string]string) bool {
	for term := range strings.SplitSeq(selector, ",") {
		key, value, exact := strings.Cut(term, "=")
		if has, ok := labels[key]; term != "" && (!ok || exact && has != value) {
			return false
		}
	}
	return true
}

func (s *apiServer) read(w http.ResponseWriter, path string, c apiCall, selector string) {
	if text, known := s.objects[path]; known {
		reply(w, http.StatusOK, json.RawMessage(text))
		return
	}
	if c.name != "" {
		if p := s.pods[c.namespace+"/"+c.name]; p != nil {
			reply(w, http.StatusOK, p)
			return
		}
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, c.resource+" \""+c.name+"\" not found")
		return
	}
	items := []any{}
	add := func(namespace string, labels map[string]string, object any) {
		if (c.namespace == "" || namespace == c.namespace) && selected(selector, labels) {
			items = append(items, object)
		}
	}
	switch c.resource {
	case "nodes":
		for _, n := range s.nodes {
			add("", n.Labels, n)
		}
	case "namespaces":
		for _, n := range s.namespaces {
			add("", n.Labels, n)
		}
	case "jobs":
		for _, j := range s.jobs {
			add(j.Namespace, j.Labels, j)
		}
	case "pods":
		for _, p := range s.pods {
			add(p.Namespace, p.Labels, p)
		}
	}
	reply(w, http.StatusOK, map[string]any{"items": items})
}
