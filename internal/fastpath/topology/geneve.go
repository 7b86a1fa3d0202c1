package topology

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"

	"github.com/venturi-net/venturi/internal/nlmsg"
)

// geneveHeader is how a geneve device writes outer headers. All of its packets go to one host.
type geneveHeader struct {
	remote       netip.Addr
	vni, port    int
	dscp, ttl    int // ttl 0: that of the namespace
	dontFragment bool
	refusal      string // what the fast path does not support; "": nothing
}

// refusedGeneve are the values of attributes with which a geneve device makes outer headers differ
// between packets, or adds to them. Flags have no value.
var refusedGeneve = []struct {
	number uint16 // IFLA_GENEVE_*
	value  uint8
	name   string
}{
	{nl.IFLA_GENEVE_TOS, tosInherit, "tos inherit"},
	{nl.IFLA_GENEVE_COLLECT_METADATA, 0, "external"},
	{nl.IFLA_GENEVE_TTL_INHERIT, 1, "ttl inherit"},
	{nl.IFLA_GENEVE_DF, geneveInheritDF, "df inherit"},
	{nl.IFLA_GENEVE_INNER_PROTO_INHERIT, 0, "innerprotoinherit"},
	{geneveGROHint, 1, "gro hint"}, // adds an option
}

const (
	geneveGROHint   = 16
	geneveSetDF     = 1
	geneveInheritDF = 2
)

// parseGeneveHeader reads the attributes of a geneve device.
func parseGeneveHeader(data []byte) (h geneveHeader, err error) {
	attrs, err := nl.ParseRouteAttr(data)
	if err != nil {
		return h, err
	}
	is := nlmsg.ByNumber(attrs)
	h.vni = int(nlmsg.NativeUint32(is[nl.IFLA_GENEVE_ID]))
	if port := is[nl.IFLA_GENEVE_PORT]; len(port) >= 2 {
		h.port = int(binary.BigEndian.Uint16(port))
	}
	h.dscp, h.ttl, h.dontFragment = int(is.Octet(nl.IFLA_GENEVE_TOS)>>2), int(is.Octet(nl.IFLA_GENEVE_TTL)), is.Octet(nl.IFLA_GENEVE_DF) == geneveSetDF
	var refusals []string
	for _, f := range refusedGeneve {
		if is.Has(f.number) && (f.value == 0 || is.Octet(f.number) == f.value) {
			refusals = append(refusals, f.name)
		}
	}
	remote, ok := netip.AddrFromSlice(is[nl.IFLA_GENEVE_REMOTE])
	switch external := is.Has(nl.IFLA_GENEVE_COLLECT_METADATA); {
	case is.Has(nl.IFLA_GENEVE_REMOTE6):
		refusals = append(refusals, "remote over IPv6")
	case !external && (!ok || !remote.Is4() || remote.IsUnspecified()):
		refusals = append(refusals, "no remote")
	}
	h.remote = remote
	if why := provenGeneve.FirstUnknown(attrs); why != "" {
		refusals = append(refusals, why)
	}
	h.refusal = strings.Join(refusals, ", ")
	return h, nil
}

// geneveEnd is how the kernel finds the geneve device that a packet is for.
type geneveEnd struct {
	remote string
	vni    uint32
	port   uint16
}

func geneveEndOf(l *netlink.Geneve) geneveEnd { return geneveEnd{string(l.Remote), l.ID, l.Dport} }

// noteGeneve notes a geneve device, and the kernel's message about it.
func (r *reader) noteGeneve(l *netlink.Geneve, message []byte) {
	end := geneveEndOf(l)
	r.geneves[l.Index], r.geneveTo[end] = message, append(r.geneveTo[end], l.Name)
}

// geneveTunnels are the geneve devices with a UDP port that lead to one host each, by name.
func (r *reader) geneveTunnels(port int) (names []string) {
	for _, index := range slices.Sorted(maps.Keys(r.geneves)) {
		if l, ok := r.byIndex[index].(*netlink.Geneve); ok && int(l.Dport) == port && !l.FlowBased {
			names = append(names, l.Name)
		}
	}
	return names
}

// geneveNextHops returns the next hops behind a geneve device: its neighbours.
func (r *reader) geneveNextHops(l *netlink.Geneve) (peers []NextHop, err error) {
	a := l.Attrs()
	data, err := linkData(r.geneves[a.Index])
	var h geneveHeader
	if err == nil {
		h, err = parseGeneveHeader(data)
	}
	if ok, err := r.acceptTunnel(l, reasonWith(unsupportedAttrs, h.refusal), err, r.sameGeneve(l), noMAC(l)); !ok {
		return nil, err
	}
	if h.ttl == 0 {
		if h.ttl, err = defaultTTL(); err != nil {
			return nil, err
		}
	}
	for _, n := range r.arpOf[a.Index] {
		if n.unknownAttr != "" {
			r.refuse(l, fmt.Sprintf("its neighbour %v has %s", n.IP, n.unknownAttr))
			continue
		}
		peer := NextHop{Device: a.Index, MAC: n.HardwareAddr, InnerAddr: nlmsg.ToAddr(n.IP), Encap: &Encap{
			Remote: h.remote, Geneve: true, MAC: a.HardwareAddr, VNI: h.vni, Port: h.port, DSCP: h.dscp, TTL: h.ttl, DontFragment: h.dontFragment,
		}}
		if !r.resolveUnderlay(&peer) {
			continue
		}
		if why := r.sharedMAC(peer); why != "" {
			r.refuse(l, why)
			continue
		}
		peer.MTU = min(a.MTU, peer.MTU-udpTunnelOverhead, r.leastRouteMTU(a.Index, nil, a.MTU))
		peers = append(peers, peer)
	}
	return peers, nil
}

// sameGeneve names a device that may take the packets of a geneve device, since it has the same other
// end, VNI and port; "": there is none. The kernel refuses to make one, and lets the other end of one
// that is there be changed.
func (r *reader) sameGeneve(l *netlink.Geneve) string {
	for _, other := range r.geneveTo[geneveEndOf(l)] {
		if other != l.Name {
			return fmt.Sprintf("may lose its packets to %s, which has the same remote, id and dstport", other)
		}
	}
	return ""
}

// sharedMAC names a device behind which there is a peer with the MAC of this one: the programs know
// peers by it, and the device on the wire; "": there is none.
func (r *reader) sharedMAC(p NextHop) string {
	at := deviceMAC{p.WireDevice, string(p.MAC)}
	first, known := r.geneveMACs[at]
	if !known {
		r.geneveMACs[at] = p.Device
		return ""
	}
	if first == p.Device {
		return ""
	}
	return fmt.Sprintf("has a peer with the same MAC address (%v) as the one behind %s", p.MAC, r.byIndex[first].Attrs().Name)
}
