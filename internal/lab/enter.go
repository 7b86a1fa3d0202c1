package lab

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/venturi-net/venturi/internal/netcfg"
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
		return verr.New(verr.Usage, what, "there is no such lab, or it is incomplete",
			"list labs with `venturi lab ls`, or raise one with `venturi lab up`")
	}
	namespace, err := l.find(what, where)
	if err != nil {
		return err
	}
	w, err := netcfg.Owned(name)
	if err != nil {
		return err
	}
	base := filepath.Base(namespace)
	machine, _, _ := strings.Cut(strings.TrimPrefix(base, w.Name("")), ".")
	err = w.Exec(base, l.Cores[machine], args)
	if errors.Is(err, netcfg.ErrNoProgram) {
		return verr.Wrap(verr.Missing, what, err, "install it, or give the path of its file")
	}
	return verr.Wrap(verr.Failed, what, err, "if the namespace is gone, take the lab down and raise it again")
}

// find gives the namespace that a user calls m1 or m1/vxlan.
func (l *Lab) find(what, where string) (namespace string, err error) {
	var known []string
	for _, m := range l.Machines {
		for _, space := range m.Namespaces() {
			if space.Name == where {
				return space.Path, nil
			}
			known = append(known, space.Name)
		}
	}
	// A path without pods of its own, such as host, has its ends on the machine.
	for _, a := range l.Arms {
		for _, ends := range a.Ends {
			own := strings.HasPrefix(filepath.Base(ends[0].Namespace), netcfg.Mark+l.Name+".")
			if own && ends[0].Machine+"/"+a.Name == where {
				return ends[0].Namespace, nil
			}
		}
	}
	return "", verr.New(verr.Usage, what, fmt.Sprintf("it has no %q", where), "choose from: "+strings.Join(known, ", "))
}
