package k8s

import (
	"errors"

	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/internal/yamledit"
)

// variableSetting is a setting that is a variable in a container's environment.
type variableSetting struct {
	f   manifest
	pos yamledit.NodePath // of the mapping with its name and value
}

// variableOf finds a variable of a container of a workload.
func (f manifest) variableOf(kind, name, container, variable string) (variableSetting, error) {
	o, err := f.findOne(kind, name)
	if err != nil {
		return variableSetting{}, err
	}
	at, err := f.container(o, container)
	if err != nil {
		return variableSetting{}, err
	}
	if i := yamledit.IndexOf(f.Node(at), "env"); i >= 0 {
		for k, v := range f.Node(at).Content[i+1].Content {
			if yamledit.ScalarAt(v, "name") == variable {
				return variableSetting{f, at.Child(i+1, k)}, nil
			}
		}
	}
	return variableSetting{}, verr.New(verr.Missing, "cannot find variable "+variable, "container "+container+" has none of that name in this file", "add it to its env")
}

func (s variableSetting) get(string) (string, bool) {
	n := yamledit.Lookup(s.f.Node(s.pos), "value")
	if n == nil {
		return "", false
	}
	return n.Value, true
}

func (s variableSetting) set(_, text string) error {
	if yamledit.Lookup(s.f.Node(s.pos), "valueFrom") != nil {
		return errors.New("its value is taken from elsewhere (valueFrom)")
	}
	return s.f.Set(s.pos, []string{"value"}, yamledit.Scalar{Text: text})
}
