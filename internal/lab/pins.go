package lab

import (
	"errors"
	"io/fs"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/node"
	"github.com/venturi-net/venturi/internal/host"
)

// PinsOf gives the folder where the fast path keeps its tables that carries what a network
// namespace sends, given by its file: that of a path of any lab here, or of the node whose pod it
// is; empty: there is none.
func PinsOf(namespace string) string {
	id, err := host.ID(namespace)
	if err != nil {
		return ""
	}
	all, _ := names() // none: there is no lab
	for _, name := range all {
		l, err := Load(name)
		if err != nil {
			continue
		}
		for _, arm := range l.Arms {
			for i, ends := range arm.Ends {
				for _, e := range ends {
					if found, err := host.ID(e.Namespace); i < len(arm.Pins) && err == nil && found == id {
						return arm.Pins[i]
					}
				}
			}
		}
	}
	return node.PinsOf(namespace)
}

// FastPathState reads the state of the fast path whose tables are in a folder; nil: it has left
// none.
func FastPathState(pins string) (*fastpath.State, error) {
	state, err := fastpath.ReadState(fastpath.StateFile(pins))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return state, err
}
