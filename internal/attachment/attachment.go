// Package attachment finds the ends of a network that somebody else built: the network
// namespace that a user names, its address, and the route from there to another
// end. It reads, and writes nothing.
package attachment

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
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
	Candidates []host.Address     // one of these is its address; [Attachment.Reach] chooses
	Route      host.ResolvedRoute // to the other end, once [Attachment.Reach] found it
}

// Selector says which of several addresses is meant. The zero value: the one that the
// route towards the other end leaves from.
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
	peer, err := from.Reach(to.Addrs(), to.Text, to.Option)
	if err != nil {
		return err
	}
	to.keep(peer)
	_, err = to.Reach([]netip.Addr{from.Addr}, from.Text, from.Option)
	return err
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

// choose finds the addresses that the end may have: all, or the one that was asked for.
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
	if len(fit) > 0 {
		e.Candidates, e.Address = fit, fit[0]
		return nil
	}
	list := strings.Join(names, ", ")
	switch {
	case len(all) == 0:
		return e.refuse("it has no IPv4 address on a device that is up", "connect it to a network first")
	case wanted.Addr != "":
		return e.refuse(fmt.Sprintf("it does not have the address %s on a device that is up", wanted.Addr),
			fmt.Sprintf("give %s-addr= one of %s", e.Option, list))
	case wanted.Device != "":
		return e.refuse(fmt.Sprintf("it has no device %s that is up and has an IPv4 address", wanted.Device),
			"name one of the devices of "+list)
	}
	return nil
}

// Addrs are the addresses that the end may have.
func (e *Attachment) Addrs() (addrs []netip.Addr) {
	for _, a := range e.Candidates {
		addrs = append(addrs, a.Addr)
	}
	return addrs
}

// keep leaves the end one of its addresses.
func (e *Attachment) keep(addr netip.Addr) {
	i := slices.IndexFunc(e.Candidates, func(a host.Address) bool { return a.Addr == addr })
	e.Candidates = e.Candidates[i : i+1]
	e.Address = e.Candidates[0]
}

// Reach finds the route from the end to another, which has one of some addresses, and which
// the user named by text, as the value of an option. It chooses the address of either end:
// the first pair that no gateway lies between, or else the first that there is a route for.
func (e *Attachment) Reach(peers []netip.Addr, text, option string) (peer netip.Addr, err error) {
	var chosen *host.ResolvedRoute
	var own *netip.Addr // an address of the other end that is also this one's
	err = host.Do(e.Path, func() (last error) {
		for _, p := range peers {
			r, err := e.routeTo(p)
			switch {
			case err != nil:
				last = err
			case r.Local:
				own = &p
			case chosen == nil || r.OnLink && !chosen.OnLink:
				chosen, peer = &r, p
			}
		}
		return last
	})
	switch {
	case chosen != nil:
		e.keep(chosen.Src)
		e.Route = *chosen
		return peer, nil
	case own != nil && len(peers) == 1:
		return peer, e.refuse(fmt.Sprintf("it has the address %s of %s itself", own, text),
			"choose another address with "+option+"-addr=")
	case len(peers) == 1:
		return peer, e.refuse(fmt.Sprintf("it has no route from %s to %s, the address of %s: %v", e.Addr, peers[0], text, err),
			"join the two with a network, or choose other addresses with from-addr= and to-addr=")
	}
	return peer, e.refuse(fmt.Sprintf("it has no route to any of the addresses %v of %s: %v", peers, text, err),
		"join the two with a network")
}

// routeTo finds the route to an address, from one of the end's own.
func (e *Attachment) routeTo(to netip.Addr) (r host.ResolvedRoute, err error) {
	if len(e.Candidates) > 1 {
		if r, err = host.RouteTo(to, netip.Addr{}); err == nil && (r.Local || slices.Contains(e.Addrs(), r.Src)) {
			return r, nil
		}
	}
	for _, from := range e.Addrs() {
		if r, err = host.RouteTo(to, from); err == nil {
			return r, nil
		}
	}
	return r, err
}

// refuse is the error for a user whose end cannot be attached to.
func (e *Attachment) refuse(why, do string) error {
	return verr.New(verr.Usage, fmt.Sprintf("cannot attach to %s=%s", e.Option, e.Text), why, do)
}
