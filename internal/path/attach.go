package path

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/verr"
)

// attach measures between two namespaces that are there already. Nothing is
// written to them: sockets are opened in them and their addresses and routes
// are read. What joins them is whatever somebody else built, on this machine
// or, where the namespaces are tunnels' ends, beyond it.
//
// That a namespace is there is looked at before anything is raised. It is found
// once more when its path is, and held open from then until the lab is down. So it stays the one that was meant when its process ends and the
// number is given to another, and a container that is stopped shows as a path
// that no longer carries.
//
// The machine's own network is attached to only by that name, self: a process
// that shares it is more likely one that the user took for a container.
var attach = Driver{
	Name:    "attach",
	Summary: "two network namespaces that are there already: containers, pods, machines of another lab",
	Like:    "any two containers or pods on this machine, whatever joins them",
	Options: []Option{
		namespace("from", "where the client is"),
		namespace("to", "where the server is"),
		address("from-addr", "the client's address, where from has several"),
		address("to-addr", "the server's, where to has several"),
	},
	Settle: func(v Values) error {
		if v["from"] == "" || v["to"] == "" {
			return errors.New("it needs both from and to")
		}
		return nil
	},
	Check: func(v Values) error {
		_, err := attachTo(v, func(_ int, path string) (string, error) { return path, nil })
		return err
	},
	Up: func(_ context.Context, s *Site) (Ends, error) {
		made, err := attachTo(s.Options, s.Hold)
		if err != nil {
			return nil, err
		}
		var ends Ends
		for i, end := range made {
			ends = append(ends, []host.Endpoint{{
				Machine: s.Machines[i].Name, Namespace: end.path, Device: end.Device, Addr: end.Addr, MTU: end.way.MTU,
			}})
		}
		return ends, nil
	},
}

// namespace is an option that takes a network namespace.
func namespace(name, help string) Option {
	return Option{
		Name: name, Value: "ns:NAME|pid:N|" + host.OwnNetwork, Required: true,
		Help: help + ": a namespace's name in " + host.NamespaceFolder + " or the path of its file; or a process in it; or " +
			host.OwnNetwork + ", the machine's own network",
		read: func(text string) (string, error) {
			if _, err := host.NamespaceFile(text); err != nil {
				return "", fmt.Errorf("%s is %q: %w", name, text, err)
			}
			return text, nil
		},
	}
}

// address is an option that takes an IPv4 address.
func address(name, help string) Option {
	return Option{
		Name: name, Value: "IPv4", Help: help,
		read: func(text string) (string, error) {
			a, err := netip.ParseAddr(text)
			if err != nil || !a.Is4() {
				return "", fmt.Errorf("%s is %q, not an IPv4 address", name, text)
			}
			return a.String(), nil
		},
	}
}

// attached is one end of what somebody else built.
type attached struct {
	option string // from or to
	text   string // as the user named it
	path   string // file of the namespace
	id     host.NamespaceID
	host.Address
	way host.Way // to the other end
}

// attachTo finds both ends, in the order of from and to, and how they reach
// each other. hold is told of each namespace and gives the path to use from
// there. Errors are for a user.
func attachTo(v Values, hold func(end int, path string) (string, error)) (ends [2]attached, err error) {
	for i, option := range []string{"from", "to"} {
		e := &ends[i]
		e.option, e.text = option, v[option]
		if err := e.find(func(path string) (string, error) { return hold(i, path) }); err != nil {
			return ends, err
		}
		if err := e.choose(v[option+"-addr"]); err != nil {
			return ends, err
		}
	}
	from, to := &ends[0], &ends[1]
	if from.id == to.id {
		return ends, from.refuse(fmt.Sprintf("%s is the same namespace, and traffic in it would cross no network", to.text),
			"name two that differ")
	}
	if err := from.reach(to); err != nil {
		return ends, err
	}
	return ends, to.reach(from)
}

// find gets hold of the end's namespace, and makes sure that it is one that
// the user can mean.
func (e *attached) find(hold func(string) (string, error)) error {
	file, err := host.NamespaceFile(e.text)
	if err != nil {
		return err // refused when it was read
	}
	if e.path, err = hold(file); err == nil {
		e.id, err = host.ID(e.path)
	}
	switch {
	case errors.Is(err, os.ErrNotExist) && strings.HasPrefix(e.text, "pid:"):
		return e.refuse("there is no such process",
			"give the number of a process in the container, such as `docker inspect -f '{{.State.Pid}}' NAME` or `crictl inspect` prints")
	case errors.Is(err, os.ErrNotExist):
		return e.refuse("there is no "+file, "see which there are with `ip netns ls`, or give a process in the container: pid:N")
	case err != nil:
		return e.refuse(err.Error(), "give the file of a network namespace, or a process in it: pid:N")
	}
	if own, err := host.ID("/proc/self/ns/net"); err == nil && own == e.id && e.text != host.OwnNetwork {
		return e.refuse("that is the machine's own network",
			"give "+e.option+"="+host.OwnNetwork+" if that is what you mean, or else a process in a container with a network of its own")
	}
	return nil
}

// choose finds the end's address: the only one, or the one that was asked for.
func (e *attached) choose(want string) error {
	var all []host.Address
	err := host.Do(e.path, func() (err error) {
		all, err = host.Addresses()
		return err
	})
	if err != nil {
		return e.refuse(err.Error(), "see that it is a network namespace, and still there")
	}
	var names []string
	for _, a := range all {
		if want == a.Addr.String() || want == "" && len(all) == 1 {
			e.Address = a
			return nil
		}
		names = append(names, a.String())
	}
	list := strings.Join(names, ", ")
	switch {
	case len(all) == 0:
		return e.refuse("it has no IPv4 address on a device that is up", "connect it to a network first")
	case want != "":
		return e.refuse(fmt.Sprintf("it does not have the address %s on a device that is up", want),
			fmt.Sprintf("give %s-addr= one of %s", e.option, list))
	}
	return e.refuse("it has several addresses", fmt.Sprintf("give %s-addr= one of %s", e.option, list))
}

// reach asks how packets go from here to there.
func (e *attached) reach(there *attached) error {
	err := host.Do(e.path, func() (err error) {
		e.way, err = host.WayTo(there.Addr, e.Addr)
		return err
	})
	switch {
	case err != nil:
		return e.refuse(fmt.Sprintf("it has no route from %s to %s, the address of %s: %v", e.Addr, there.Addr, there.text, err),
			"join the two with a network, or choose other addresses with from-addr= and to-addr=")
	case e.way.Local:
		return e.refuse(fmt.Sprintf("it has the address %s of %s itself", there.Addr, there.text),
			"choose another address with "+there.option+"-addr=")
	}
	return nil
}

// refuse is the error for a user whose end cannot be attached to.
func (e *attached) refuse(why, do string) error {
	return verr.New(verr.Usage, fmt.Sprintf("cannot attach to %s=%s", e.option, e.text), why, do)
}
