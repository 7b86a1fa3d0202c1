package topology

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Changes says what has changed in the network of a namespace.
type Changes uint8

// What can change.
const (
	RulesChanged    Changes = 1 << iota // how packets are judged: nftables, routes, policy rules, addresses, forwarding, IPsec, bridges
	TopologyChanged                     // how they get there: devices and what stands at them, neighbours, forwarding entries
)

// Event is what is told of a change.
type Event struct {
	Changes
	// Neighbour is the one that alone it is about: packets that do not go to it go as
	// before. Zero: there is more to it.
	Neighbour Neighbour
}

// Watch tells what changes in the calling thread's namespace from when it returns,
// until ctx ends: it calls tell soon after each change, on one goroutine, and with
// both where the kernel had to leave some out. Programs of BPF come and go without
// such news. What is only said again, such as a neighbour that was confirmed, is no
// change. The channel gets the error that ended it, if one did, and is closed.
func Watch(ctx context.Context, tell func(Event)) (<-chan error, error) {
	route, err := subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH, unix.RTNLGRP_IPV4_IFADDR,
		unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV4_NETCONF, unix.RTNLGRP_NEXTHOP, unix.RTNLGRP_TC)
	if err != nil {
		return nil, err
	}
	rules, err := subscribe(unix.NETLINK_NETFILTER, unix.NFNLGRP_NFTABLES)
	if err != nil {
		route.Close()
		return nil, err
	}
	ipsec, err := subscribe(unix.NETLINK_XFRM, nl.XFRMNLGRP_POLICY)
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		ipsec, err = nil, nil // nor has this kernel policies
	}
	if err != nil {
		route.Close()
		rules.Close()
		return nil, err
	}
	ended, events := make(chan error, 3), make(chan Event)
	known := newRtnlFilter()
	known.resync()
	go receive(ctx, route, known.event, known.resync, events, ended)
	go receive(ctx, rules, nftEvent, func() {}, events, ended)
	if ipsec != nil {
		go receive(ctx, ipsec, func(netlink.Message) Event { return Event{Changes: RulesChanged} }, func() {}, events, ended)
	}
	done := make(chan error, 1)
	go func() {
		defer close(done)
		defer route.Close()
		defer rules.Close()
		if ipsec != nil {
			defer ipsec.Close()
		}
		for {
			select {
			case <-ctx.Done():
				return
			case err := <-ended:
				done <- err
				return
			case n := <-events:
				tell(n)
			}
		}
	}()
	return done, nil
}

func subscribe(family int, groups ...uint32) (*netlink.Conn, error) {
	c, err := netlink.Dial(family, nil)
	if err != nil {
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

// receive hands on what is judged to be a change. When the kernel has left something
// out, it goes on to do so until it has no more to hand out, and says that only once:
// until then everything may have changed, and what was known is to be forgotten.
func receive(ctx context.Context, c *netlink.Conn, judge func(netlink.Message) Event, forget func(), events chan<- Event, ended chan<- error) {
	lost := false
	for ctx.Err() == nil {
		var what Changes
		messages, err := c.Receive()
		switch {
		case errors.Is(err, unix.ENOBUFS):
			lost, err = true, nil
		case lost && errors.Is(err, os.ErrDeadlineExceeded):
			// Where this thread was held up, time is over before all was read.
			if lost, err = hasPending(c); !lost && err == nil {
				forget()
				err = c.SetReadDeadline(time.Time{})
			}
			what = RulesChanged | TopologyChanged
		}
		if lost && err == nil {
			err = c.SetReadDeadline(time.Now().Add(drainTimeout))
			what = RulesChanged | TopologyChanged
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

// hasPending tells whether there is something to be received.
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

// drainTimeout is how long nothing comes when there is no more.
const drainTimeout = 5 * time.Millisecond

// nftEvent: each commit of rules ends with news of a generation.
func nftEvent(m netlink.Message) (n Event) {
	if m.Header.Type == netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWGEN) {
		n.Changes = RulesChanged
	}
	return n
}
