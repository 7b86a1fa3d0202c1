package knob

import (
	"errors"

	"github.com/venturi-net/venturi/internal/verr"
)

// inVariable is a setting that is a variable in a container's environment.
type inVariable struct {
	f  *manifest
	at nodeAt // of the mapping with its name and value
}

// variableOf finds a variable of a container of a workload.
func (f *manifest) variableOf(kind, name, container, variable string) (inVariable, error) {
	o, err := f.the(kind, name)
	if err != nil {
		return inVariable{}, err
	}
	at, err := f.container(o, container)
	if err != nil {
		return inVariable{}, err
	}
	if i := indexOf(f.node(at), "env"); i >= 0 {
		for k, v := range f.node(at).Content[i+1].Content {
			if scalarAt(v, "name") == variable {
				return inVariable{f, at.below(i+1, k)}, nil
			}
		}
	}
	return inVariable{}, verr.New(verr.Missing, "cannot find variable "+variable, "container "+container+" has none of that name in this file", "add it to its env")
}

func (s inVariable) get(string) (string, bool) {
	n := lookupKey(s.f.node(s.at), "value")
	if n == nil {
		return "", false
	}
	return n.Value, true
}

func (s inVariable) set(_, text string) error {
	if lookupKey(s.f.node(s.at), "valueFrom") != nil {
		return errors.New("its value is taken from elsewhere (valueFrom)")
	}
	return s.f.set(s.at, []string{"value"}, scalar{text: text})
}
