package netcfg

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/nlmsg"
)

// Card is a device that shares a network card of this host with it: a macvlan, or an
// ipvlan in mode l2 where the network allows only one MAC address per card. It asks things of the
// card, such as promiscuous mode, until it is deleted: see [Writer.DeleteCards].
type Card struct {
	Name   string
	IPVLAN bool
	MAC    net.HardwareAddr // of a macvlan
	MTU    int              // bytes; at most the card's
	// Senders are the MACs that it takes frames from, whatever MAC they are for: for a
	// bridge or a switch behind a macvlan, which makes the card promiscuous. None: it takes frames
	// for its own MAC.
	Senders []net.HardwareAddr
}

// AddCard makes a device on a network card, in this namespace, and brings it up. The card is
// in another namespace, or with nil in the caller's own.
func (n *Namespace) AddCard(in *Namespace, device string, c Card) error {
	what := "share card " + device
	var h *netlink.Handle
	if in != nil {
		h = in.h
	} else {
		own, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("open netlink: %w", err)
		}
		defer own.Close()
		h = own
	}
	under, err := h.LinkByName(device)
	if err != nil {
		return n.Wrap(what, err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.ParentIndex = c.Name, c.MTU, under.Attrs().Index
	attrs.Namespace = netlink.NsFd(int(n.file.Fd()))
	var link netlink.Link = &netlink.IPVlan{LinkAttrs: attrs, Mode: netlink.IPVLAN_MODE_L2}
	if !c.IPVLAN {
		attrs.HardwareAddr = c.MAC
		macvlan := &netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_BRIDGE}
		if c.Senders != nil {
			macvlan.Mode = netlink.MACVLAN_MODE_SOURCE
		}
		link = macvlan
	}
	if err := h.LinkAdd(link); err != nil {
		return n.Wrap(what, err)
	}
	if c.Senders == nil {
		return n.Up(c.Name)
	}
	if link, err = n.link(c.Name); err != nil {
		return err
	}
	if err := n.h.MacvlanMACAddrSet(link, c.Senders); err != nil {
		return n.Wrap(what+": name the senders", err)
	}
	return n.Up(c.Name)
}

// DeleteCards deletes the devices in a namespace that share cards of another, so that the cards are
// as they were when it returns. With its namespace such a device goes too, but only once the kernel
// gets to it, which takes many seconds on a busy machine. A namespace that cannot be entered is left
// to that.
func (w *Writer) DeleteCards(name string) error {
	n, err := w.Open(name)
	if err != nil {
		return w.owns(name)
	}
	defer n.Close()
	links, err := nlmsg.Dump(n.h.LinkList) // other devices of the lab disappear meanwhile
	if err != nil {
		return n.Wrap("list devices", err)
	}
	var failed []error
	for _, link := range links {
		shares := link.Type() == "macvlan" || link.Type() == "ipvlan"
		if !shares || link.Attrs().NetNsID < 0 { // -1: the card is here as well
			continue
		}
		if err := n.h.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
			failed = append(failed, n.Wrap("delete "+link.Attrs().Name, err))
		}
	}
	return errors.Join(failed...)
}
