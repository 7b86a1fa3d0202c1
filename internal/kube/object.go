package kube

import (
	"context"
	"encoding/json"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/venturi-net/venturi/internal/kube/cni"
)

// ApplyObject applies a configuration to an object that is there, as a field manager, which takes
// over what of it others have. It gives the object that came of that. Errors are for people.
func (c *Client) ApplyObject(ctx context.Context, o cni.Object, fieldManager string, config map[string]any) (map[string]any, error) {
	return c.patch(ctx, o, types.ApplyYAMLPatchType, config, map[string]string{"fieldManager": fieldManager, "force": "true"})
}

// PatchOp is one operation of a JSON patch.
type PatchOp struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// PatchObject carries out a JSON patch as a field manager: all of it, or nothing. It gives the
// object that came of that. Errors are for people.
func (c *Client) PatchObject(ctx context.Context, o cni.Object, fieldManager string, ops []PatchOp) (map[string]any, error) {
	return c.patch(ctx, o, types.JSONPatchType, ops, map[string]string{"fieldManager": fieldManager})
}

func (c *Client) patch(ctx context.Context, o cni.Object, kind types.PatchType, body any, params map[string]string) (map[string]any, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, CallLimit)
	defer cancel()
	r := c.rest[""].Patch(kind).AbsPath(objectPath(o)).Body(text)
	for name, value := range params {
		r = r.Param(name, value)
	}
	return c.decodeObject(o, "patch", r.Do(ctx))
}

// IsRefusal tells whether the API server has refused a write. After any other error it may have
// carried it out, or may yet.
func IsRefusal(err error) bool {
	var said apierrors.APIStatus
	return errors.As(err, &said) && !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err)
}

// IsNotFound tells of an object that is not there.
func IsNotFound(err error) bool { return apierrors.IsNotFound(err) }
