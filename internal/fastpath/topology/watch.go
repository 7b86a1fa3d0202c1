package topology

import (
	"context"
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Changes is a set of the kinds of changes in a namespace.
type Changes uint8

// Kinds of changes.
const (
	RulesChanged    Changes = 1 << iota // rules that packets meet: nftables, routes, policy rules, addresses, forwarding, IPsec, bridges
	TopologyChanged                     // the way to pods and peers: devices, tc, neighbours, forwarding entries
)

// Event is a notification of a change.
type Event struct {
	Changes
	// Neighbour is set if the change concerns only packets to this neighbour. Zero means that it
	// concerns more.
	Neighbour Neighbour
}

// Watch reports changes in the calling thread's namespace, from its return until ctx ends. It calls
// tell soon after each change, on one goroutine, and with all kinds of changes if the kernel
// dropped notifications. BPF programs come and go without notification. Repeated notifications,
// such as of a confirmed neighbour, are not reported. The channel receives the error that ended the
// watch, if any, and is closed.
//
// It also reports changes of the devices in other namespaces that the namespace knows by number, as
// those of pods, unless the kernel refuses to announce them: then pods is false.
func Watch(ctx context.Context, owns ProgramOwner, tell func(Event)) (done <-chan error, pods bool, err error) {
	route, err := subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH, unix.RTNLGRP_IPV4_IFADDR,
		unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV4_NETCONF, unix.RTNLGRP_NEXTHOP, unix.RTNLGRP_TC)
	if err != nil {
		return nil, false, err
	}
	rules, err := subscribe(unix.NETLINK_NETFILTER, unix.NFNLGRP_NFTABLES)
	if err != nil {
		route.Close()
		return nil, false, err
	}
	ipsec, err := subscribe(unix.NETLINK_XFRM, nl.XFRMNLGRP_POLICY)
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		ipsec, err = nil, nil // this kernel has no IPsec policies either
	}
	if err != nil {
		route.Close()
		rules.Close()
		return nil, false, err
	}
	others, err := subscribeAllNamespaces()
	if err != nil {
		others = nil
	}
	ended, events := make(chan error, 4), make(chan Event)
	known := newRtnlFilter(owns)
	known.resync()
	go receive(ctx, route, known.event, known.resync, events, ended)
	go receive(ctx, rules, nftEvent, func() {}, events, ended)
	if ipsec != nil {
		go receive(ctx, ipsec, func(netlink.Message) Event { return Event{Changes: RulesChanged} }, func() {}, events, ended)
	}
	if others != nil {
		ends := podEnds{}
		go receive(ctx, others, ends.event, func() { clear(ends) }, events, ended)
	}
	failed := make(chan error, 1)
	go func() {
		defer close(failed)
		defer route.Close()
		defer rules.Close()
		if ipsec != nil {
			defer ipsec.Close()
		}
		if others != nil {
			defer others.Close()
		}
		for {
			select {
			case <-ctx.Done():
				return
			case err := <-ended:
				failed <- err
				return
			case n := <-events:
				tell(n)
			}
		}
	}()
	return failed, others != nil, nil
}

// subscribeAllNamespaces subscribes to devices of all namespaces that this one has a number for. It
// takes CAP_NET_BROADCAST.
func subscribeAllNamespaces() (*netlink.Conn, error) {
	c, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(c.SetOption(netlink.ListenAllNSID, true), c.JoinGroup(unix.RTNLGRP_LINK)); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// podEnds are the MAC, the MTU and the XDP program of the ends of pairs, as last announced. The
// namespace of an announcement is unknown, so an end is known by its index and that of its other
// end. Two ends may have both in common, but not their MACs: then what follows an announcement of
// the other counts as a change, and no change is missed.
type podEnds map[[2]uint32]string

func (p podEnds) event(m netlink.Message) (n Event) {
	if len(m.Data) < unix.SizeofIfInfomsg {
		return n
	}
	attrs, err := nl.ParseRouteAttr(m.Data[unix.SizeofIfInfomsg:])
	if err != nil {
		return n
	}
	data := nlmsg.ByNumber(attrs)
	if data[unix.IFLA_LINK_NETNSID] == nil {
		return n
	}
	end := [2]uint32{nlmsg.NativeUint32(m.Data[4:8]), nlmsg.NativeUint32(data[unix.IFLA_LINK])}
	gone := m.Header.Type == unix.RTM_DELLINK // its other end goes with it, which is announced
	if _, again := dedup(p, end, fmt.Sprint(data[unix.IFLA_ADDRESS], data[unix.IFLA_MTU], data[unix.IFLA_XDP]), gone); !again && !gone {
		n.Changes = TopologyChanged
	}
	return n
}

// newsBuffer is the room for notifications that wait, bytes. Probing a thousand pods causes that
// many at once: if they did not fit, everything would count as changed, and be probed again.
const newsBuffer = 2 << 20

func subscribe(family int, groups ...uint32) (*netlink.Conn, error) {
	c, err := netlink.Dial(family, nil)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	if err := c.SetReadBuffer(newsBuffer); err != nil {
		c.Close()
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	for _, g := range groups {
		if err := c.JoinGroup(g); err != nil {
			c.Close()
			return nil, fmt.Errorf("listen to the kernel's news: %w", err)
		}
	}
	return c, nil
}

// receive forwards notifications that are changes. After an overrun, the kernel keeps dropping
// notifications until its queue is drained, and reports that only once. Until then anything may
// have changed, so the stored state is discarded.
func receive(ctx context.Context, c *netlink.Conn, judge func(netlink.Message) Event, forget func(), events chan<- Event, ended chan<- error) {
	lost := false
	for ctx.Err() == nil {
		var what Changes
		messages, err := c.Receive()
		if errors.Is(err, unix.ENOBUFS) {
			lost, err = true, nil
		}
		if err != nil {
			ended <- fmt.Errorf("listen to the kernel's news: %w", err)
			return
		}
		var news []Event
		for _, m := range messages {
			if n := judge(m); n.Neighbour != (Neighbour{}) {
				news = append(news, n)
			} else {
				what |= n.Changes
			}
		}
		if lost {
			what = RulesChanged | TopologyChanged
			if lost, err = hasPending(c); err != nil {
				ended <- fmt.Errorf("listen to the kernel's news: %w", err)
				return
			}
			if !lost { // after the last message that is older than what is read now
				forget()
			}
		}
		if what != 0 {
			news = append(news, Event{Changes: what})
		}
		for _, n := range news {
			select {
			case events <- n:
			case <-ctx.Done():
				return
			}
		}
	}
}

// hasPending reports whether a notification is queued.
func hasPending(c *netlink.Conn) (is bool, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return false, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		for {
			if _, _, failed = unix.Recvfrom(int(fd), nil, unix.MSG_PEEK|unix.MSG_DONTWAIT); !errors.Is(failed, unix.EINTR) {
				return
			}
		}
	})
	return !errors.Is(failed, unix.EAGAIN), err
}

// nftEvent recognizes the end of an nftables transaction: each commit ends with a new generation.
func nftEvent(m netlink.Message) (n Event) {
	if m.Header.Type == netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWGEN) {
		n.Changes = RulesChanged
	}
	return n
}
