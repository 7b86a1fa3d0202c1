// Package kube puts agents on the nodes of a Kubernetes cluster. The API server is the
// only way in: it creates what runs the agents, and carries the streams to them. What is
// created belongs to one Job, which ends and removes all of it by itself when nobody
// speaks to its pod any more.
package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/go-logr/logr"

	"github.com/venturi-net/venturi/internal/verr"
)

// Access says which cluster is meant, and who asks. The zero value: as kubectl would.
type Access struct {
	Kubeconfig string
	Context    string
}

// Client speaks to one API server. It knows the few kinds that are needed here: the
// client of all kinds would make the program half as large again.
type Client struct {
	config *rest.Config
	rest   map[string]*rest.RESTClient // by API group
	params runtime.ParameterCodec
	clock  *serverClock
}

// CallLimit bounds one request to the API server.
const CallLimit = 20 * time.Second

// Check refuses a kubeconfig that was named and cannot be used, or a context that it lacks: it comes before
// all that is wrong about what shall be made in the cluster.
func (a Access) Check() error {
	if a == (Access{}) {
		return nil
	}
	_, err := a.config()
	return err
}

// Open reads the kubeconfig. Nothing is asked of the cluster yet. Errors are for people.
func Open(a Access) (*Client, error) {
	config, err := a.config()
	if err != nil {
		return nil, err
	}
	c, err := newClient(config)
	return c, verr.Wrap(verr.Usage, "cannot use the kubeconfig", err, "check that `kubectl version` works with it")
}

func (a Access) config() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = a.Kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: a.Context})
	config, err := loader.ClientConfig()
	return config, verr.Wrap(verr.Usage, "cannot use the kubeconfig", err, "name one with --kubeconfig, and a context of it with --context; `kubectl config get-contexts` lists them")
}

func newClient(config *rest.Config) (*Client, error) {
	klog.SetLogger(logr.Discard()) // what the library logs, its errors say too
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, batchv1.AddToScheme, authorizationv1.AddToScheme} {
		if err := add(kinds); err != nil {
			return nil, err
		}
	}
	metav1.AddToGroupVersion(kinds, schema.GroupVersion{Version: "v1"})
	c := &Client{config: rest.CopyConfig(config), rest: map[string]*rest.RESTClient{}, params: runtime.NewParameterCodec(kinds), clock: &serverClock{}}
	c.config.Wrap(c.clock.wrap)
	c.config.QPS, c.config.Burst = 50, 100
	c.config.WarningHandler = rest.NoWarnings{}
	rest.AddUserAgent(c.config, "venturi")
	for _, group := range []schema.GroupVersion{corev1.SchemeGroupVersion, batchv1.SchemeGroupVersion, authorizationv1.SchemeGroupVersion} {
		config := rest.CopyConfig(c.config)
		config.GroupVersion, config.APIPath = &group, "/apis"
		if group.Group == "" {
			config.APIPath = "/api"
		}
		config.NegotiatedSerializer = serializer.NewCodecFactory(kinds).WithoutConversion()
		client, err := rest.RESTClientFor(config)
		if err != nil {
			return nil, err
		}
		c.rest[group.Group] = client
	}
	return c, nil
}

// Server is the API server's address.
func (c *Client) Server() string { return c.config.Host }

// resourceType is one kind of the API, as its paths name it.
type resourceType struct{ group, name string }

var (
	namespaces  = resourceType{"", "namespaces"}
	nodes       = resourceType{"", "nodes"}
	pods        = resourceType{"", "pods"}
	podsExec    = resourceType{"", "pods/exec"}
	services    = resourceType{"", "services"}
	configMaps  = resourceType{"", "configmaps"}
	jobs        = resourceType{"batch", "jobs"}
	selfReviews = resourceType{"authorization.k8s.io", "selfsubjectaccessreviews"}
)

// request names a kind, in a namespace unless it is one of the whole cluster.
func (c *Client) request(r *rest.Request, of resourceType, namespace string) *rest.Request {
	return r.NamespaceIfScoped(namespace, namespace != "").Resource(of.name)
}

// create makes an object.
func (c *Client) create(ctx context.Context, of resourceType, namespace string, object, into runtime.Object) error {
	return c.post(ctx, of, namespace, object, into, metav1.CreateOptions{FieldManager: manager})
}

// dryRun has the server judge an object, and makes none.
func (c *Client) dryRun(ctx context.Context, of resourceType, namespace string, object, into runtime.Object) error {
	options := metav1.CreateOptions{FieldManager: manager, DryRun: []string{metav1.DryRunAll}}
	return c.post(ctx, of, namespace, object, into, options)
}

func (c *Client) post(ctx context.Context, of resourceType, namespace string, object, into runtime.Object,
	options metav1.CreateOptions) error {
	ctx, cancel := context.WithTimeout(ctx, CallLimit)
	defer cancel()
	r := c.request(c.rest[of.group].Post(), of, namespace).VersionedParams(&options, c.params)
	return c.failure("create", of, namespace, r.Body(object).Do(ctx).Into(into))
}

// get reads an object by its name.
func (c *Client) get(ctx context.Context, of resourceType, namespace, name string, into runtime.Object) error {
	ctx, cancel := context.WithTimeout(ctx, CallLimit)
	defer cancel()
	err := c.request(c.rest[of.group].Get(), of, namespace).Name(name).Do(ctx).Into(into)
	return c.failure("get", of, namespace, err)
}

// list reads all objects with a label, in a namespace or, if it is empty, in all.
func (c *Client) list(ctx context.Context, of resourceType, namespace, selector string, into runtime.Object) error {
	return c.listBy(ctx, of, namespace, metav1.ListOptions{LabelSelector: selector}, into)
}

func (c *Client) listBy(ctx context.Context, of resourceType, namespace string, options metav1.ListOptions, into runtime.Object) error {
	ctx, cancel := context.WithTimeout(ctx, CallLimit)
	defer cancel()
	err := c.request(c.rest[of.group].Get(), of, namespace).VersionedParams(&options, c.params).Do(ctx).Into(into)
	return c.failure("list", of, namespace, err)
}

// remove deletes an object, and with it what it owns. One that is not there is no error, nor
// is another of the same name, which stays.
func (c *Client) remove(ctx context.Context, of resourceType, object metav1.ObjectMeta) error {
	propagation := metav1.DeletePropagationBackground
	ctx, cancel := context.WithTimeout(ctx, CallLimit)
	defer cancel()
	err := c.request(c.rest[of.group].Delete(), of, object.Namespace).Name(object.Name).
		Body(&metav1.DeleteOptions{PropagationPolicy: &propagation, Preconditions: &metav1.Preconditions{UID: &object.UID}}).Do(ctx).Error()
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return c.failure("delete", of, object.Namespace, err)
}

// failure tells a person what the server refused, or that it cannot be reached.
func (c *Client) failure(verb string, of resourceType, namespace string, err error) error {
	what := fmt.Sprintf("cannot %s %s", verb, of.name)
	if namespace != "" {
		what += " in namespace " + namespace
	}
	var said apierrors.APIStatus
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return err
	case apierrors.IsUnauthorized(err):
		return verr.Wrap(verr.Permission, what, err, "log in again: the cluster rejects the credentials in the kubeconfig")
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "violates PodSecurity"):
		return verr.Wrap(verr.Permission, what, err, "label the namespace "+securityLabel+"="+Node.PodSecurity()+", or leave out --node-agents")
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		return verr.Wrap(verr.Permission, what, err, "raise the quota, or name another namespace with -n")
	case apierrors.IsForbidden(err):
		return verr.Wrap(verr.Permission, what, err, "ask an administrator to apply what `kubectl venturi rbac` prints for this command, or name a namespace where you have these rights with -n")
	case errors.As(err, &said):
		in := cmp.Or(namespace, metav1.NamespaceDefault) // where events of objects of the whole cluster are
		return verr.Wrap(verr.Failed, what, err, "the API server refused it: see `kubectl get events -n "+in+"`")
	}
	return verr.Wrap(verr.Failed, what, err, "check that `kubectl version` reaches "+c.Server())
}
