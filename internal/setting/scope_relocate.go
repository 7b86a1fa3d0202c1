package setting

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/nlmsg"
)

// A device that is not where it was may be in another namespace. A card goes back to
// the machine's own when its namespace ends. It takes its settings along.

// candidate is a device in a namespace that may be the one that is looked for.
type candidate struct {
	netns  string // a file of it
	device *DeviceID
}

// identifiable tells whether the device can be told from all others in whichever
// namespace it is: a card, by its address. What software makes has none of its own.
func (d *DeviceID) identifiable() bool {
	return d.Kind == "device" && len(d.MAC) == len("00:00:00:00:00:00")
}

// relocate gives a file of the namespace that the device is in now, and its number
// there. Gone is why it is not where it was: that is the error where it is found
// nowhere else, or where it is not certain that what is found is the same, and
// says where that is.
func (s Scope) relocate(gone error) (netns string, now *DeviceID, err error) {
	seen, unseen := s.findElsewhere()
	switch {
	case s.Device.identifiable() && unseen != nil:
		return "", nil, fmt.Errorf("find device %s: it is not where it was, and not all other namespaces could be looked at: %w", s.Device.Name, unseen)
	case len(seen) == 1 && s.Device.identifiable():
		return seen[0].netns, seen[0].device, nil
	case len(seen) == 1:
		return "", nil, fmt.Errorf("%w; %s has a %s of that name, which may be it", gone, seen[0].netns, s.Device.Kind)
	}
	return "", nil, gone
}

// findElsewhere looks for the device in all namespaces but the scope's own.
func (s Scope) findElsewhere() (seen []candidate, unseen error) {
	unseen = s.searchElsewhere(func(path string) error {
		found, err := s.Device.candidates()
		for _, d := range found {
			seen = append(seen, candidate{path, d})
		}
		return err
	})
	return seen, unseen
}

// searchElsewhere runs look in all namespaces but the scope's own, with a file of each.
func (s Scope) searchElsewhere(look func(path string) error) (unseen error) {
	files, unseen := namespaceFiles(0)
	var known []host.NamespaceID
	for _, path := range files {
		own, err := s.Netns.isFile(path)
		unseen = errors.Join(unseen, ignorePermission(err))
		id, none := host.ID(path)
		if own || err != nil || none != nil || slices.Contains(known, id) {
			continue
		}
		known = append(known, id)
		err = host.Do(path, func() error { return look(path) })
		if _, there := host.ID(path); there == nil {
			unseen = errors.Join(unseen, ignorePermission(err))
		}
	}
	return unseen
}

// ignorePermission passes over what another's process does not show us.
func ignorePermission(err error) error {
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		return nil
	}
	return err
}

// candidates lists the devices of the calling thread's namespace that may be this one.
func (d *DeviceID) candidates() (all []*DeviceID, err error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	var links []netlink.Link
	if d.identifiable() {
		links, err = nlmsg.Dump(h.LinkList)
	} else if link, missing := h.LinkByName(d.Name); missing == nil {
		links = append(links, link)
	}
	for _, link := range links {
		if now := deviceID(link); now.Kind == d.Kind && now.MAC == d.MAC {
			all = append(all, now)
		}
	}
	return all, err
}
