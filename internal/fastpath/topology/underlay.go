package topology

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/vishvananda/netlink"
)

// resolveUnderlay resolves the route and next hop of a tunnel's outer packets.
func (r *reader) resolveUnderlay(p *NextHop, tunnel *netlink.Vxlan) bool {
	if !p.Encap.Remote.Is4() {
		return false
	}
	o := &netlink.RouteGetOptions{OifIndex: tunnel.VtepDevIndex, SrcAddr: tunnel.SrcAddr}
	routes, err := r.h.RouteGetWithOptions(p.Encap.Remote.AsSlice(), o)
	if err != nil || len(routes) != 1 {
		return false // there is no route at present
	}
	route := routes[0]
	wire, ok := r.byIndex[route.LinkIndex]
	if !ok || wire.Attrs().Flags&net.FlagUp == 0 {
		return false
	}
	hop := p.Encap.Remote
	if route.Gw != nil {
		hop = nlmsg.ToAddr(route.Gw)
	}
	if !p.Encap.Local.IsValid() {
		p.Encap.Local = nlmsg.ToAddr(route.Src)
	}
	if why := cmp.Or(r.unprovenWire(wire), r.uncertainDevices[route.LinkIndex]); why != "" {
		r.refuse(wire, why)
		return false
	}
	p.WireDevice, p.SrcMAC, p.MTU = route.LinkIndex, wire.Attrs().HardwareAddr, wire.Attrs().MTU
	if p.RouteMTU = route.MTU; p.RouteMTU > 0 {
		p.MTU = min(p.MTU, p.RouteMTU)
	}
	for _, n := range r.arpOf[p.WireDevice] {
		if nlmsg.ToAddr(n.IP) == hop {
			if n.unknownAttr != "" {
				r.refuse(wire, fmt.Sprintf("its neighbour %v has %s", n.IP, n.unknownAttr))
				return false
			}
			p.DstMAC, p.Addr = n.HardwareAddr, hop
			return p.Encap.Local.Is4()
		}
	}
	return false
}

// defaultTTL returns the default TTL of this namespace.
func defaultTTL() (int, error) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_default_ttl")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}
