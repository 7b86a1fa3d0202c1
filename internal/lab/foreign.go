package lab

import (
	"errors"
	"fmt"
	"os"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/verr"
)

// Another venturi may share the folder of namespaces with this one, and have
// another folder for its labs: in a container that mounts the one and not the
// other. Its labs are namespaces without a folder here, just as what is left of a
// killed run whose folder somebody removed. They are told apart by who uses them.

// guard locks one of the lab's namespaces itself for as long as the claim holds:
// whoever sees the namespace sees the lock.
func (c *Claim) guard(n *netcfg.Namespace) error {
	f, free, err := lockNamespace(n.Path())
	if err == nil && !free {
		err = errors.New("another process has locked it")
	}
	if err != nil {
		return fmt.Errorf("lock namespace %s: %w", n.Name(), err)
	}
	c.guarded = f
	return nil
}

// unguard lets go of the namespace, which an open file would keep alive.
func (c *Claim) unguard() {
	if c.guarded != nil {
		c.guarded.Close()
		c.guarded = nil
	}
}

// lockNamespace locks the namespace whose file is path, unless somebody else has.
func lockNamespace(path string) (f *os.File, free bool, err error) {
	f, err = os.Open(path)
	if err != nil {
		return nil, false, err
	}
	if free, err = tryLock(f); free {
		return f, true, nil
	}
	f.Close()
	return nil, false, err
}

// users tells who uses the namespaces of a lab, for people: processes in them, or
// the owner, who has locked one. Empty: nobody.
func users(name string) (string, error) {
	w, err := netcfg.Owned(name)
	if err != nil {
		return "", err
	}
	list, err := w.Namespaces()
	if err != nil {
		return "", err
	}
	var ids []host.NamespaceID
	locked := false
	for _, n := range list {
		id, err := host.ID(host.NamespacePath(n))
		if err != nil {
			continue // half-made, or gone by now
		}
		ids = append(ids, id)
		f, free, err := lockNamespace(host.NamespacePath(n))
		if err == nil && free {
			f.Close()
		}
		locked = locked || err == nil && !free
	}
	pids, err := host.Reader{}.ProcessesIn(ids...)
	switch {
	case err != nil || len(pids) == 0 && !locked:
		return "", err
	case len(pids) == 0:
		return "its owner lives", nil
	}
	return fmt.Sprintf("processes %v run in its namespaces", pids), nil
}

// foreign is why a lab without a folder is not touched; nil: it may be.
func foreign(what, name string) error {
	if _, err := os.Stat(folder(name)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	who, err := users(name)
	if err != nil || who == "" {
		return err
	}
	return verr.New(verr.Busy, what, fmt.Sprintf("%s, and it is not in %s here: another instance of venturi raised it, perhaps in a container", who, Folder),
		"take it down where it was raised; if that is no longer possible, end the processes in it and try again")
}
