package topology

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
	BridgeAsks                          // a bridge of its own has packets meet the rules for IP, perhaps only now
)

// Event is a notification of a change.
type Event struct {
	Changes
	Cause Cause // of the first of these changes of rules
	// Neighbour is set if the change concerns only packets to this neighbour. Zero means that it
	// concerns more.
	Neighbour Neighbour
	// PodEnd is set if the announcement is of a device in another namespace, of which it says
	// this. It may be no news.
	PodEnd PodEnd
}

// familyGroups are the groups of announcements that concern one version of IP: of addresses, routes,
// policy rules and forwarding.
var familyGroups = map[Family][]uint32{
	IPv4: {unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV4_NETCONF},
	IPv6: {unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV6_RULE, unix.RTNLGRP_IPV6_NETCONF},
}

// Add adds another change, of which nothing but its kind and cause is known then.
func (e *Event) Add(other Event) {
	if e.Changes&RulesChanged == 0 {
		e.Cause = other.Cause
	}
	e.Changes |= other.Changes
}

// A Watcher reports changes in a namespace, and what was there when it began.
type Watcher struct {
	Tables *Tables      // what has changed before is in them; nil after Settle
	Pods   bool         // it reports changes of devices in other namespaces, too
	Done   <-chan error // receives the error that ended it, if any, and is closed
	filter *lateFilter
}

// Settle has the watcher take of its tables what it needs, so that they can go. Otherwise it does so when it hears of
// something.
func (w *Watcher) Settle() {
	w.filter.load()
	w.Tables = nil
}

// Watch reports changes in the calling thread's namespace that concern packets of a family, from its return until ctx ends. It calls
// tell soon after each change, on one goroutine, with what is pending together, and with all kinds of
// changes if the kernel dropped notifications. BPF programs come and go without notification. Repeated notifications,
// such as of a confirmed neighbour, are not reported.
//
// It also reports changes of the devices in other namespaces that the namespace knows by number, as
// those of pods, unless the kernel refuses to announce them.
func Watch(ctx context.Context, family Family, owns ProgramOwner, tell func([]Event)) (w Watcher, err error) {
	w.filter = newLateFilter(owns, family)
	sources, err := openSources(family, w.filter)
	if err != nil {
		return Watcher{}, err
	}
	ends := &podEndReader{}
	if ends.conn, err = subscribeAllNamespaces(); err == nil {
		w.Pods = true
		sources = append(sources, &eventSource{conn: ends.conn, receive: ends.receive, judge: ends.event})
	}
	w.filter.read()
	w.Tables = w.filter.tables
	ended, events, failed := make(chan error, len(sources)), make(chan []Event), make(chan error, 1)
	for _, source := range sources {
		go source.forward(ctx, events, ended)
	}
	go func() {
		defer close(failed)
		defer closeSources(sources)
		for {
			select {
			case <-ctx.Done():
				return
			case err := <-ended:
				failed <- err
				return
			case batch := <-events:
				tell(batch)
			}
		}
	}()
	w.Done = failed
	return w, nil
}

// openSources subscribes to what the kernel announces in the calling thread's namespace.
func openSources(family Family, known *lateFilter) (sources []*eventSource, err error) {
	defer func() {
		if err != nil {
			closeSources(sources)
		}
	}()
	route, err := subscribe(unix.NETLINK_ROUTE, append(slices.Clone(familyGroups[family]), unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH, unix.RTNLGRP_NEXTHOP, unix.RTNLGRP_TC)...)
	if err != nil {
		return nil, err
	}
	sources = append(sources, &eventSource{conn: route, receive: route.Receive, judge: known.event, forget: known.resync})
	rules, err := subscribe(unix.NETLINK_NETFILTER, unix.NFNLGRP_NFTABLES)
	if err != nil {
		return sources, err
	}
	sources = append(sources, &eventSource{conn: rules, receive: rules.Receive, judge: nftEvent})
	ipsec, err := subscribe(unix.NETLINK_XFRM, nl.XFRMNLGRP_POLICY)
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		return sources, nil // this kernel has no IPsec policies either
	}
	if err != nil {
		return sources, err
	}
	changed := func(netlink.Message) Event { return Event{Changes: RulesChanged, Cause: IPsec} }
	return append(sources, &eventSource{conn: ipsec, receive: ipsec.Receive, judge: changed}), nil
}

func closeSources(all []*eventSource) {
	for _, s := range all {
		s.conn.Close()
	}
}

// subscribeAllNamespaces subscribes to devices of all namespaces that this one has a number for. It
// takes CAP_NET_BROADCAST.
func subscribeAllNamespaces() (*netlink.Conn, error) {
	c, err := subscribe(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(c.SetOption(netlink.ListenAllNSID, true), c.JoinGroup(unix.RTNLGRP_LINK)); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// podEndReader reads announcements of devices in other namespaces.
type podEndReader struct {
	conn   *netlink.Conn
	nsid   int // of the namespace that announces what was read last; -1: this one
	buffer nlmsg.Buffer
}

// receive waits for announcements of one namespace. A message that is too large counts as lost.
func (r *podEndReader) receive() (messages []netlink.Message, err error) {
	raw, err := r.conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var n, ancillary int
	control := make([]byte, unix.CmsgSpace(4))
	err = errors.Join(raw.Read(func(fd uintptr) (done bool) {
		if err = r.buffer.Fit(int(fd), unix.MSG_DONTWAIT); err == nil {
			n, ancillary, _, _, err = unix.Recvmsg(int(fd), r.buffer, control, unix.MSG_DONTWAIT)
		}
		return !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR)
	}), err)
	if errors.Is(err, unix.EMSGSIZE) {
		err = unix.ENOBUFS
	}
	if err != nil {
		return nil, err
	}
	r.nsid = namespaceOf(control[:ancillary])
	for m := range nlmsg.EachMessage(r.buffer[:n]) {
		messages = append(messages, netlink.Message{Header: netlink.Header{Type: netlink.HeaderType(m.Kind)}, Data: m.Body})
	}
	return messages, nil
}

// namespaceOf returns the nsid in the ancillary data of a message; -1: it is of this namespace.
func namespaceOf(control []byte) int {
	all, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return -1
	}
	for _, c := range all {
		if c.Header.Level == unix.SOL_NETLINK && c.Header.Type == unix.NETLINK_LISTEN_ALL_NSID && len(c.Data) >= 4 {
			return int(int32(nlmsg.NativeUint32(c.Data)))
		}
	}
	return -1
}

// event is what an announcement says about a device. One that goes takes its other end along, which
// is announced.
func (r *podEndReader) event(m netlink.Message) (e Event) {
	if r.nsid < 0 || len(m.Data) < unix.SizeofIfInfomsg || m.Header.Type != unix.RTM_NEWLINK {
		return e
	}
	return Event{Changes: TopologyChanged, PodEnd: newPodEnd(r.nsid, linkIndex(m.Data), m.Data[unix.SizeofIfInfomsg:])}
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

// nftEvent recognizes the end of an nftables transaction: each commit ends with a new generation.
func nftEvent(m netlink.Message) (e Event) {
	if m.Header.Type == netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWGEN) {
		e.Changes, e.Cause = RulesChanged, Rules
	}
	return e
}
