package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/mdlayher/netlink"
	vnl "github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Changed says what has changed in the network of a namespace.
type Changed uint8

// What can change.
const (
	RulesChanged Changed = 1 << iota // how packets are judged: nftables, routes, policy rules, addresses, forwarding, IPsec, bridges
	WaysChanged                      // how they get there: devices and what stands at them, neighbours, forwarding entries
)

// Watch tells what changes in the calling thread's namespace from when it returns,
// until ctx ends: it calls tell soon after each change, on one goroutine, and with
// both where the kernel had to leave some out. Programs of BPF come and go without
// such news. A neighbour that was merely
// confirmed is no change. The channel gets the error that ended it, if one did,
// and is closed.
func Watch(ctx context.Context, tell func(Changed)) (<-chan error, error) {
	route, err := join(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH, unix.RTNLGRP_IPV4_IFADDR,
		unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV4_NETCONF, unix.RTNLGRP_NEXTHOP, unix.RTNLGRP_TC)
	if err != nil {
		return nil, err
	}
	rules, err := join(unix.NETLINK_NETFILTER, unix.NFNLGRP_NFTABLES)
	if err != nil {
		route.Close()
		return nil, err
	}
	ipsec, err := join(unix.NETLINK_XFRM, nl.XFRMNLGRP_POLICY)
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		ipsec, err = nil, nil // nor has this kernel policies
	}
	if err != nil {
		route.Close()
		rules.Close()
		return nil, err
	}
	ended, events := make(chan error, 3), make(chan Changed)
	known := neighbours{}
	known.learn()
	go receive(ctx, route, known.judge, known.learn, events, ended)
	go receive(ctx, rules, judgeRules, func() {}, events, ended)
	if ipsec != nil {
		go receive(ctx, ipsec, func(netlink.Message) Changed { return RulesChanged }, func() {}, events, ended)
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
			case c := <-events:
				tell(c)
			}
		}
	}()
	return done, nil
}

func join(family int, groups ...uint32) (*netlink.Conn, error) {
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
func receive(ctx context.Context, c *netlink.Conn, judge func(netlink.Message) Changed, forget func(), events chan<- Changed, ended chan<- error) {
	lost := false
	for ctx.Err() == nil {
		var what Changed
		messages, err := c.Receive()
		switch {
		case errors.Is(err, unix.ENOBUFS):
			lost, err = true, nil
		case lost && errors.Is(err, os.ErrDeadlineExceeded):
			forget()
			lost, err = false, c.SetReadDeadline(time.Time{})
			what = RulesChanged | WaysChanged
		}
		if lost && err == nil {
			err = c.SetReadDeadline(time.Now().Add(noMore))
			what = RulesChanged | WaysChanged
		}
		if err != nil {
			ended <- fmt.Errorf("listen to the kernel's news: %w", err)
			return
		}
		for _, m := range messages {
			what |= judge(m)
		}
		if what == 0 {
			continue
		}
		select {
		case events <- what:
		case <-ctx.Done():
			return
		}
	}
}

// noMore is how long nothing comes when there is no more.
const noMore = 5 * time.Millisecond

// judgeRules: each commit of rules ends with news of a generation.
func judgeRules(m netlink.Message) Changed {
	if m.Header.Type == netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWGEN) {
		return RulesChanged
	}
	return 0
}

// neighbours are what is known of them, to tell what changes from what is
// confirmed, and from what is new.
type neighbours map[string]string

// learn begins anew with those that there are. What cannot be read is not known.
func (n neighbours) learn() {
	clear(n)
	all, _ := dump(func() ([]vnl.Neigh, error) { return vnl.NeighList(0, vnl.FAMILY_V4) })
	for _, e := range all {
		n[nameOf(&e)] = is(&e)
	}
}

// nameOf names a neighbour or forwarding entry. A MAC is behind one place of a device
// at a time, and there is no word of the place before; but what goes to all goes to
// many.
func nameOf(e *vnl.Neigh) string {
	switch {
	case e.Family == familyBridge && e.HardwareAddr.String() == noMAC:
		return fmt.Sprint(e.Family, e.LinkIndex, e.Vlan, e.HardwareAddr, e.IP)
	case e.Family == familyBridge:
		return fmt.Sprint(e.Family, e.LinkIndex, e.Vlan, e.HardwareAddr)
	}
	return fmt.Sprint(e.Family, e.LinkIndex, e.IP)
}

// is gives what matters of one; of a neighbour that the kernel does not send to,
// nothing does.
func is(e *vnl.Neigh) string {
	switch {
	case e.Family == familyBridge:
		return fmt.Sprint(e.MasterIndex, e.IP)
	case usable(e.State):
		return e.HardwareAddr.String()
	}
	return ""
}

func (n neighbours) judge(m netlink.Message) Changed {
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		return WaysChanged | ofBridge(m.Data)
	case unix.RTM_NEWQDISC, unix.RTM_DELQDISC, unix.RTM_NEWTFILTER, unix.RTM_DELTFILTER, unix.RTM_NEWCHAIN, unix.RTM_DELCHAIN:
		return WaysChanged
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE, unix.RTM_NEWADDR, unix.RTM_DELADDR,
		unix.RTM_NEWRULE, unix.RTM_DELRULE, unix.RTM_NEWNETCONF, unix.RTM_DELNETCONF,
		unix.RTM_NEWNEXTHOP, unix.RTM_DELNEXTHOP:
		return RulesChanged | WaysChanged
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		return n.neighbour(m)
	}
	return 0
}

// ofBridge tells news of a bridge or one of its ports from those of other devices:
// what they let pass is among their settings.
func ofBridge(message []byte) Changed {
	if len(message) < unix.SizeofIfInfomsg {
		return RulesChanged
	}
	if message[0] == familyBridge {
		return RulesChanged
	}
	attrs, err := nl.ParseRouteAttr(message[unix.SizeofIfInfomsg:])
	if err != nil {
		return RulesChanged
	}
	if info, err := nl.ParseRouteAttr(dataOf(attrs)[unix.IFLA_LINKINFO]); err != nil || dataOf(info).text(nl.IFLA_INFO_KIND) == "bridge" {
		return RulesChanged
	}
	return 0
}

// neighbour judges news of one. Where an IPv4 neighbour that packets may have gone to
// is another one now, or gone, they go elsewhere or nowhere from now on, though no
// route has changed. One that is new takes nothing from what went another way.
func (n neighbours) neighbour(m netlink.Message) Changed {
	e, err := vnl.NeighDeserialize(m.Data)
	if err != nil {
		return RulesChanged | WaysChanged
	}
	name, now := nameOf(e), is(e)
	was, known := n[name]
	if m.Header.Type == unix.RTM_DELNEIGH {
		delete(n, name)
	} else {
		n[name] = now
		if known && was == now {
			return 0
		}
	}
	if e.Family == unix.AF_INET && was != "" {
		return RulesChanged | WaysChanged
	}
	return WaysChanged
}
