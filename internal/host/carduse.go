package host

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/venturi-net/venturi/internal/sanitize"
)

// CardUse says what in the calling thread's namespace, or on top of it in others, uses a network
// card, and would lose it if the card moved away; empty: nothing does. control is the address
// that a controller elsewhere is connected from, as far as that is known.
func CardUse(device string, control netip.Addr) (use string, err error) {
	h, links, err := openLinks()
	if err != nil {
		return "", err
	}
	defer h.Close()
	at := slices.IndexFunc(links, func(l netlink.Link) bool { return l.Attrs().Name == device })
	if at < 0 {
		return "", fmt.Errorf("find device %s: %w", device, ErrGone)
	}
	card := links[at]
	for _, look := range []func() (string, error){
		func() (string, error) { return upperDevice(links, card) },
		func() (string, error) { return defaultRoute(h, card) },
		func() (string, error) { return packetSocket(card) },
		func() (string, error) { return connectionBy(h, card, control) },
	} {
		if use, err = look(); use != "" || err != nil {
			return use, err
		}
	}
	return "", nil
}

// upperDevice names a device that is built on a card: a port's bridge or bond, a VLAN, a macvlan,
// a tunnel that is bound to it, also one in another namespace.
func upperDevice(links []netlink.Link, card netlink.Link) (string, error) {
	index := card.Attrs().Index
	builtOn := func(l netlink.Link, netns int) bool {
		a := l.Attrs()
		v, isVXLAN := l.(*netlink.Vxlan)
		return a.ParentIndex == index && a.NetNsID == netns && !IsPair(l.Type()) ||
			netns < 0 && isVXLAN && v.VtepDevIndex == index
	}
	for _, l := range links {
		switch {
		case l.Attrs().Index == card.Attrs().MasterIndex:
			return fmt.Sprintf("it is a port of %s", l.Attrs().Name), nil
		case builtOn(l, -1):
			return fmt.Sprintf("%s is built on it", l.Attrs().Name), nil
		}
	}
	if card.Attrs().MasterIndex != 0 {
		return "it is a port of a bridge, a bond or a switch", nil
	}
	if len(card.Attrs().Vfs) > 0 {
		return "virtual functions of it are in use", nil
	}
	return builtOnElsewhere(builtOn)
}

// builtOnElsewhere names a device of another namespace that is built on a card of the calling thread's: builtOn
// tells it by the number that the calling thread's namespace has there.
func builtOnElsewhere(builtOn func(l netlink.Link, netns int) bool) (string, error) {
	home, err := os.Open(threadNS)
	if err != nil {
		return "", err
	}
	defer home.Close()
	own, err := ID(threadNS)
	if err != nil {
		return "", err
	}
	named, _ := sanitize.Files(NamespaceFolder, "*")
	processes, _ := sanitize.Files("/proc", "[0-9]*/ns/net")
	seen := []NamespaceID{own}
	for _, file := range slices.Concat(named, processes) {
		id, err := ID(file)
		if err != nil || slices.Contains(seen, id) {
			continue
		}
		seen = append(seen, id)
		found := ""
		_ = Do(file, func() error { // one that has ended meanwhile, or may not be entered, has nothing to say
			there, links, err := openLinks()
			if err != nil {
				return err
			}
			defer there.Close()
			us, err := there.GetNetNsIdByFd(int(home.Fd()))
			if err != nil || us < 0 {
				return err
			}
			for _, l := range links {
				if builtOn(l, us) {
					found = fmt.Sprintf("%s in %s is built on it", l.Attrs().Name, NamedFile(file))
				}
			}
			return nil
		})
		if found != "" {
			return found, nil
		}
	}
	return "", nil
}

// defaultRoute tells whether a card has one.
func defaultRoute(h *netlink.Handle, card netlink.Link) (string, error) {
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		filter := &netlink.Route{Table: unix.RT_TABLE_UNSPEC}
		routes, err := nlmsg.Dump(func() ([]netlink.Route, error) { return h.RouteListFiltered(family, filter, netlink.RT_FILTER_TABLE) })
		if err != nil {
			return "", fmt.Errorf("list routes: %w", err)
		}
		for _, r := range routes {
			bits := 0
			if r.Dst != nil {
				bits, _ = r.Dst.Mask.Size()
			}
			by := r.LinkIndex == card.Attrs().Index || slices.ContainsFunc(r.MultiPath, func(n *netlink.NexthopInfo) bool { return n.LinkIndex == card.Attrs().Index })
			if by && bits == 0 && r.Type == unix.RTN_UNICAST {
				return "it has the default route", nil
			}
		}
	}
	return "", nil
}

// packetSocket tells whether a program has a packet socket on a card, such as a DHCP client, a
// switch or a capture.
func packetSocket(card netlink.Link) (string, error) {
	file, err := os.Open("/proc/thread-self/net/packet")
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("list packet sockets: %w", err)
	}
	defer file.Close()
	const ifaceColumn = 4
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if f := strings.Fields(lines.Text()); len(f) > ifaceColumn && f[ifaceColumn] == strconv.Itoa(card.Attrs().Index) {
			return "a program listens to its packets, such as a DHCP client or a capture (/proc/net/packet)", nil
		}
	}
	return "", nil
}

// boundSocket is a socket of TCP or UDP.
type boundSocket struct {
	transport   string
	local, peer netip.AddrPort // peer: of port 0, it has none
}

// Columns of /proc/net/tcp and its like.
const (
	localColumn = 1
	peerColumn  = 2
	stateColumn = 3
)

// States of a connection: the last packet of its handshake is missing; it is over.
const (
	synReceived = "03"
	timeWait    = "06"
)

// boundSockets lists the sockets of the calling thread's namespace that have an address.
func boundSockets() (all []boundSocket, err error) {
	for _, transport := range []string{"tcp", "tcp6", "udp", "udp6"} {
		text, err := os.ReadFile("/proc/thread-self/net/" + transport)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list sockets: %w", err)
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) <= stateColumn || f[stateColumn] == timeWait {
				continue
			}
			local, ok1 := procAddress(f[localColumn])
			peer, ok2 := procAddress(f[peerColumn])
			if ok1 && ok2 {
				all = append(all, boundSocket{strings.TrimSuffix(transport, "6"), local, peer})
			}
		}
	}
	return all, nil
}

// HasHalfOpen tells whether a TCP connection to an address of the calling thread's namespace waits for
// the last packet of its handshake: the first one has arrived.
func HasHalfOpen(at netip.AddrPort) (bool, error) {
	text, err := os.ReadFile("/proc/thread-self/net/tcp")
	if err != nil {
		return false, fmt.Errorf("list sockets: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > stateColumn && f[stateColumn] == synReceived {
			if local, ok := procAddress(f[localColumn]); ok && local == at {
				return true, nil
			}
		}
	}
	return false, nil
}

// procAddress reads an address of such a file: words of the kernel's own byte order, in hex.
func procAddress(text string) (a netip.AddrPort, ok bool) {
	words, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(words)
	n, err2 := strconv.ParseUint(port, 16, 16)
	if err != nil || err2 != nil || len(raw)%4 != 0 {
		return a, false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.BigEndian.PutUint32(raw[i:], binary.NativeEndian.Uint32(raw[i:]))
	}
	addr, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(addr.Unmap(), uint16(n)), ok
}

// connectionBy names a connection that goes by a card, or a socket that is bound to one of its
// addresses.
func connectionBy(h *netlink.Handle, card netlink.Link, control netip.Addr) (string, error) {
	addrs, err := nlmsg.Dump(func() ([]netlink.Addr, error) { return h.AddrList(card, netlink.FAMILY_ALL) })
	if err != nil {
		return "", fmt.Errorf("list addresses: %w", err)
	}
	own := map[netip.Addr]bool{}
	for _, a := range addrs {
		own[nlmsg.ToAddr(a.IP)] = true
	}
	sockets, err := boundSockets()
	if err != nil {
		return "", err
	}
	byCard := map[netip.Addr]bool{} // whether packets to an address go by the card
	leads := func(to netip.Addr) bool {
		by, known := byCard[to]
		if !known {
			r, err := RouteTo(to, netip.Addr{})
			by = err == nil && r.Device == card.Attrs().Name && !r.Local
			byCard[to] = by
		}
		return by
	}
	if control.IsValid() && leads(control.Unmap()) {
		return fmt.Sprintf("the ssh connection that controls this machine comes from %s by it", control), nil
	}
	for _, s := range sockets {
		connected := s.peer.Port() != 0
		switch {
		case connected && (own[s.local.Addr()] || leads(s.peer.Addr())):
			return fmt.Sprintf("a connection by %s uses it, from %s to %s", strings.ToUpper(s.transport), s.local, s.peer), nil
		case !connected && own[s.local.Addr()]:
			return fmt.Sprintf("a program serves %s port %d at its address %s", strings.ToUpper(s.transport), s.local.Port(), s.local.Addr()), nil
		}
	}
	return "", nil
}
