package topology

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/nlmsg"
)

const (
	kindIPIP = "ipip"
	kindVTI  = "vti"
)

// ipipHeader is how an ipip device writes outer headers.
type ipipHeader struct {
	local        netip.Addr // zero: none
	device       int        // that it is bound to; 0: none
	dscp, ttl    int        // ttl 0: as in the pod's packet
	dontFragment bool       // false: as in the pod's packet
	refusal      string     // what the fast path does not support; "": nothing
}

// refusedIPIP are attributes of an ipip device that must be absent or 0: they make packets go
// elsewhere, or add to them.
var refusedIPIP = []struct {
	number uint16 // IFLA_IPTUN_*
	name   string
}{{nl.IFLA_IPTUN_REMOTE, "remote"}, {nl.IFLA_IPTUN_ENCAP_TYPE, "encap"}, {ipipFwmark, "fwmark"}}

const (
	ipipFwmark = 20
	tosInherit = 1
)

// parseIPIPHeader reads the attributes of an ipip device.
func parseIPIPHeader(data []byte) (h ipipHeader, err error) {
	attrs, err := nl.ParseRouteAttr(data)
	if err != nil {
		return h, err
	}
	is := nlmsg.ByNumber(attrs)
	if local, ok := netip.AddrFromSlice(is[nl.IFLA_IPTUN_LOCAL]); ok && local.Is4() && !local.IsUnspecified() {
		h.local = local
	}
	h.device = int(int32(nlmsg.NativeUint32(is[nl.IFLA_IPTUN_LINK])))
	tos := is.Octet(nl.IFLA_IPTUN_TOS)
	h.dscp, h.ttl, h.dontFragment = int(tos>>2), int(is.Octet(nl.IFLA_IPTUN_TTL)), is.Octet(nl.IFLA_IPTUN_PMTUDISC) != 0
	var refusals []string
	for _, refused := range refusedIPIP {
		if slices.ContainsFunc(is[refused.number], func(b byte) bool { return b != 0 }) {
			refusals = append(refusals, refused.name)
		}
	}
	if is.Has(nl.IFLA_IPTUN_COLLECT_METADATA) { // a flag
		refusals = append(refusals, "external")
	}
	if tos&tosInherit != 0 {
		refusals = append(refusals, "tos inherit")
	}
	if protocol := is.Octet(nl.IFLA_IPTUN_PROTO); protocol != 0 && protocol != unix.IPPROTO_IPIP {
		refusals = append(refusals, fmt.Sprintf("protocol %d", protocol))
	}
	if why := provenIPIP.FirstUnknown(attrs); why != "" {
		refusals = append(refusals, why)
	}
	h.refusal = strings.Join(refusals, ", ")
	return h, nil
}

// ipipNextHops returns the next hops behind an ipip device: the gateways of its routes are the hosts
// that it sends to.
func (r *reader) ipipNextHops(l netlink.Link) (peers []NextHop, err error) {
	a := l.Attrs()
	data, err := readLinkData(a.Index)
	var h ipipHeader
	if err == nil {
		h, err = parseIPIPHeader(data)
	}
	if ok, err := r.acceptTunnel(l, reasonWith(unsupportedAttrs, h.refusal), err, r.otherReceiver(a.Index, h.local)); !ok {
		return nil, err
	}
	var hops []Neighbour
	for n := range r.gateways {
		if n.Device == a.Index {
			hops = append(hops, n)
		}
	}
	slices.SortFunc(hops, func(a, b Neighbour) int { return a.Addr.Compare(b.Addr) })
	for _, hop := range hops {
		peer := NextHop{Device: a.Index, Encap: &Encap{
			Local: h.local, Remote: hop.Addr, IPIP: true, DSCP: h.dscp, TTL: h.ttl, DontFragment: h.dontFragment, RouteDevice: h.device, BoundAddr: h.local.AsSlice(),
		}}
		if r.resolveUnderlay(&peer) {
			peer.MTU = min(a.MTU, peer.MTU-ipv4.HeaderLen, r.leastRouteMTU(a.Index, nil, a.MTU))
			peers = append(peers, peer)
		}
	}
	return peers, nil
}

// otherReceiver names another device that may take the packets of a tunnel with a local address, if
// it has one; "": there is none. The kernel gives a packet to the device that names most of its
// addresses, and to that without any (tunl0) last. It asks vti devices first. Of other kinds, vti6 and
// ip6tnl take IPIP out of IPv6 only, and sit what no ipip device takes.
func (r *reader) otherReceiver(tunnel int, local netip.Addr) string {
	for _, index := range slices.Sorted(maps.Keys(r.byIndex)) {
		l := r.byIndex[index]
		if index == tunnel || !IsUp(l) {
			continue
		}
		var at, remote net.IP
		switch other := l.(type) {
		case *netlink.Iptun:
			at, remote = other.Local, other.Remote
		case *netlink.Vti:
			if other.Type() != kindVTI {
				continue
			}
			at, remote = other.Local, other.Remote
		default:
			continue
		}
		anyLocal, anyRemote := isUnspecified(at), isUnspecified(remote)
		last := anyLocal && anyRemote && l.Type() == kindIPIP
		if local.IsValid() && (last || !anyLocal && !bytes.Equal(at.To4(), local.AsSlice())) {
			continue
		}
		return fmt.Sprintf("may not get its packets: they may be for %s, of kind %s", l.Attrs().Name, l.Type())
	}
	return ""
}

func isUnspecified(ip net.IP) bool { return len(ip) == 0 || ip.IsUnspecified() }
