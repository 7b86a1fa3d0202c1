// Package attachment finds the ends of a network that somebody else built: the network
// namespace that a user names, its address, and the route from there to another
// end. It reads, and writes nothing.
package attachment

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/verr"
)

// Attachment is one end of what somebody else built.
type Attachment struct {
	Option string // the option that names it: from or to
	Text   string // the namespace, as the user named it; see [host.NamespaceFile]
	Path   string // file of the namespace
	ID     host.NamespaceID
	host.Address
	Route host.ResolvedRoute // to the other end, once [End.Reach] found it
}

// Selector says which of several addresses is meant. The zero value: the only one.
type Selector struct {
	Addr   string
	Device string // that has the address
}

// Find opens the namespace of an end, and chooses its address. hold is told of the
// namespace's file and gives the path to use from there. Errors are for a user.
func Find(option, text string, wanted Selector, hold func(path string) (string, error)) (e Attachment, err error) {
	e = Attachment{Option: option, Text: text}
	if err := e.open(hold); err != nil {
		return e, err
	}
	return e, e.choose(wanted)
}

// Join finds how two ends reach each other. Errors are for a user.
func Join(from, to *Attachment) error {
	if from.ID == to.ID {
		return from.refuse(fmt.Sprintf("%s is the same namespace, and traffic in it would cross no network", to.Text),
			"name two that differ")
	}
	if err := from.Reach(to.Addr, to.Text, to.Option); err != nil {
		return err
	}
	return to.Reach(from.Addr, from.Text, from.Option)
}

// open makes sure that the end's namespace is one that the user can mean.
func (e *Attachment) open(hold func(string) (string, error)) error {
	file, err := host.NamespaceFile(e.Text)
	if err != nil { // a container's: all others were refused when they were read
		return e.refuse(err.Error(), "give its id, or a process in it: pid:N, such as `docker inspect -f '{{.State.Pid}}' NAME` or `crictl inspect` prints")
	}
	if e.Path, err = hold(file); err == nil {
		e.ID, err = host.ID(e.Path)
	}
	switch {
	case errors.Is(err, os.ErrNotExist) && strings.HasPrefix(e.Text, "pid:"):
		return e.refuse("there is no such process",
			"give the number of a process in the container, such as `docker inspect -f '{{.State.Pid}}' NAME` or `crictl inspect` prints")
	case errors.Is(err, os.ErrNotExist):
		return e.refuse("there is no "+file, "see which there are with `ip netns ls`, or give a process in the container: pid:N")
	case err != nil:
		return e.refuse(err.Error(), "give the file of a network namespace, or a process in it: pid:N")
	}
	if own, err := host.ID("/proc/self/ns/net"); err == nil && own == e.ID && e.Text != host.OwnNetwork {
		return e.refuse("that is the machine's own network",
			"give "+e.Option+"="+host.OwnNetwork+" if that is what you mean, or else a process in a container with a network of its own")
	}
	return nil
}

// choose finds the end's address: the only one, or the one that was asked for.
func (e *Attachment) choose(wanted Selector) error {
	var all []host.Address
	err := host.Do(e.Path, func() (err error) {
		all, err = host.Addresses()
		return err
	})
	if err != nil {
		return e.refuse(err.Error(), "see that it is a network namespace, and still there")
	}
	var names []string
	var fit []host.Address
	for _, a := range all {
		if (wanted.Addr == "" || wanted.Addr == a.Addr.String()) && (wanted.Device == "" || wanted.Device == a.Device) {
			fit = append(fit, a)
		}
		names = append(names, a.String())
	}
	if len(fit) == 1 {
		e.Address = fit[0]
		return nil
	}
	list := strings.Join(names, ", ")
	switch {
	case len(all) == 0:
		return e.refuse("it has no IPv4 address on a device that is up", "connect it to a network first")
	case wanted.Addr != "":
		return e.refuse(fmt.Sprintf("it does not have the address %s on a device that is up", wanted.Addr),
			fmt.Sprintf("give %s-addr= one of %s", e.Option, list))
	case wanted.Device != "" && len(fit) == 0:
		return e.refuse(fmt.Sprintf("it has no device %s that is up and has an IPv4 address", wanted.Device),
			"name one of the devices of "+list)
	}
	return e.refuse("it has several addresses", fmt.Sprintf("give %s-addr= one of %s", e.Option, list))
}

// Reach finds the route from the end to the address of another, which the user named
// by text, as the value of an option.
func (e *Attachment) Reach(addr netip.Addr, text, option string) error {
	err := host.Do(e.Path, func() (err error) {
		e.Route, err = host.RouteTo(addr, e.Addr)
		return err
	})
	switch {
	case err != nil:
		return e.refuse(fmt.Sprintf("it has no route from %s to %s, the address of %s: %v", e.Addr, addr, text, err),
			"join the two with a network, or choose other addresses with from-addr= and to-addr=")
	case e.Route.Local:
		return e.refuse(fmt.Sprintf("it has the address %s of %s itself", addr, text),
			"choose another address with "+option+"-addr=")
	}
	return nil
}

// refuse is the error for a user whose end cannot be attached to.
func (e *Attachment) refuse(why, do string) error {
	return verr.New(verr.Usage, fmt.Sprintf("cannot attach to %s=%s", e.Option, e.Text), why, do)
}
