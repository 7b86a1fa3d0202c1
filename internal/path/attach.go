package path

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/venturi-net/venturi/internal/attachment"

	"github.com/venturi-net/venturi/internal/host"
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
	Summary: "two existing network namespaces: containers, pods, machines of another lab",
	Example: "any two containers or pods on this machine, whatever joins them",
	Options: []Option{
		namespace("from", "where the client is"),
		namespace("to", "where the server is"),
		address("from-addr", "the client's address; that of the route to the server when not given"),
		address("to-addr", "the server's address; one that the client has a route to when not given"),
		{Name: nameOption, Value: "NAME", Help: "name of the path; attach:NAME,from=... is short for it", read: func(text string) (string, error) {
			if !validName(text) {
				return "", fmt.Errorf("name is %q, not up to %d of a-z, 0-9 and -", text, MaxName)
			}
			return text, nil
		}},
	},
	Resolve: func(v Values) error {
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
		made, err := attachTo(s.Options, s.HoldNetns)
		if err != nil {
			return nil, err
		}
		var ends Ends
		for i, end := range made {
			ends = append(ends, []host.Endpoint{{
				Machine: s.Machines[i].Name, Namespace: end.Path, Device: end.Device, Addr: end.Addr, MTU: end.Route.MTU,
			}})
		}
		return ends, nil
	},
}

// nameOption is the option that names a path of its driver; it may be given without a key.
const nameOption = "name"

// namespace is an option that takes a network namespace.
func namespace(name, help string) Option {
	return Option{
		Name: name, Value: "ns:NAME|pid:N|container:NAME|" + host.OwnNetwork, Required: true,
		Help: help + ": a namespace's name in " + host.NamespaceFolder + " or the path of its file; or a process in it; or a running container, by its name, its id or its pod; or " +
			host.OwnNetwork + ", the machine's own network",
		read: func(text string) (string, error) {
			if err := host.CheckNamespaceName(text); err != nil {
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

// attachTo finds both ends, in the order of from and to, and how they reach
// each other. hold is told of each namespace and gives the path to use from
// there. Errors are for a user.
func attachTo(v Values, hold func(end int, path string) (string, error)) (ends [2]attachment.Attachment, err error) {
	for i, option := range []string{"from", "to"} {
		ends[i], err = attachment.Find(option, v[option], attachment.Selector{Addr: v[option+"-addr"]}, func(path string) (string, error) { return hold(i, path) })
		if err != nil {
			return ends, err
		}
	}
	return ends, attachment.Join(&ends[0], &ends[1])
}
