package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/venturi-net/venturi/internal/kube/cni"
	"github.com/venturi-net/venturi/internal/verr"
)

// UnreadObject is an object of the API that could not be read, and why.
type UnreadObject struct{ Object, Reason string }

// ReadConfig reads the objects by which network plugins and kube-proxy are known. One that is
// not there is no error.
func (c *Client) ReadConfig(ctx context.Context) (found cni.APIObjects, unread []UnreadObject) {
	found = cni.APIObjects{}
	for _, o := range configObjects() {
		object, err := c.GetObject(ctx, o)
		var said *verr.Error
		switch {
		case err == nil:
			found[o] = object
		case apierrors.IsNotFound(err):
		case errors.As(err, &said):
			unread = append(unread, UnreadObject{o.String(), said.Reason})
		default:
			unread = append(unread, UnreadObject{o.String(), err.Error()})
		}
	}
	return found, unread
}

// configObjects are all that [Client.ReadConfig] looks for.
func configObjects() (all []cni.Object) {
	for _, p := range append([]cni.Plugin{cni.KubeProxy}, cni.Table...) {
		for _, o := range p.Objects {
			if !slices.Contains(all, o) {
				all = append(all, o)
			}
		}
	}
	return all
}

// GetObject reads an object, or a list of them, of any kind. Errors are for people.
func (c *Client) GetObject(ctx context.Context, o cni.Object) (map[string]any, error) {
	verb := "list"
	if o.Name != "" {
		verb = "get"
	}
	ctx, cancel := context.WithTimeout(ctx, CallLimit)
	defer cancel()
	return c.decodeObject(o, verb, c.rest[""].Get().AbsPath(objectPath(o)).Do(ctx))
}

// objectPath is where the API server has an object, or a list.
func objectPath(o cni.Object) string {
	path := []string{"/apis", o.Group, o.Version}
	if o.Group == "" {
		path = []string{"/api", o.Version}
	}
	if o.Namespace != "" {
		path = append(path, "namespaces", o.Namespace)
	}
	path = append(path, o.Resource)
	if o.Name != "" {
		path = append(path, o.Name)
	}
	return strings.Join(path, "/")
}

// decodeObject reads an answer that has an object of any kind.
func (c *Client) decodeObject(o cni.Object, verb string, reply rest.Result) (object map[string]any, err error) {
	if err := reply.Error(); err != nil { // that of Raw does not say what the server said
		return nil, c.failure(verb, resourceType{o.Group, o.Resource}, o.Namespace, err)
	}
	text, err := reply.Raw()
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, fmt.Errorf("read %s: %w", o, err)
	}
	return object, nil
}
