package lab

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/venturi-net/venturi/internal/change"
	"github.com/venturi-net/venturi/internal/verr"
)

// Exec turns the calling process into a command inside a lab. where is a
// machine, or a machine and a path joined by a slash: the path's pod there. It
// returns only if that fails, with an error for a user.
func Exec(name, where string, args []string) error {
	what := fmt.Sprintf("cannot run %s in %s of lab %s", args[0], where, name)
	if err := needRoot(what); err != nil {
		return err
	}
	l, err := Load(name)
	if err != nil {
		return verr.New(verr.Usage, what, "there is no such lab, or it is not complete",
			"see which there are with `venturi lab ls`, or raise one with `venturi lab up`")
	}
	namespace, err := l.find(what, where)
	if err != nil {
		return err
	}
	w, err := change.Owned(name)
	if err != nil {
		return err
	}
	err = w.Exec(filepath.Base(namespace), args)
	if errors.Is(err, change.ErrNoProgram) {
		return verr.Wrap(verr.Missing, what, err, "install it, or give the path of its file")
	}
	return verr.Wrap(verr.Failed, what, err, "if the namespace is gone, take the lab down and raise it again")
}

// find gives the namespace that a user calls m1 or m1/vxlan.
func (l *Lab) find(what, where string) (namespace string, err error) {
	machine, arm, pod := strings.Cut(where, "/")
	var known []string
	for _, m := range l.Machines {
		known = append(known, m.Name)
		if m.Name == machine && !pod {
			return m.Namespace, nil
		}
	}
	for _, a := range l.Arms {
		for _, end := range []struct{ machine, namespace string }{
			{a.From.Machine, a.From.Namespace}, {a.To.Machine, a.To.Namespace},
		} {
			if end.machine == machine && a.Name == arm {
				return end.namespace, nil
			}
			known = append(known, end.machine+"/"+a.Name)
		}
	}
	return "", verr.New(verr.Usage, what, fmt.Sprintf("it has no %q", where), "choose from: "+strings.Join(known, ", "))
}
