package host

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
)

// reach finds out how outer packets of a tunnel go out.
func (r *waysReader) reach(p *PeerWay, tunnel *netlink.Vxlan) bool {
	if !p.Tunnel.Remote.Is4() {
		return false
	}
	o := &netlink.RouteGetOptions{OifIndex: tunnel.VtepDevIndex, SrcAddr: tunnel.SrcAddr}
	routes, err := r.h.RouteGetWithOptions(p.Tunnel.Remote.AsSlice(), o)
	if err != nil || len(routes) != 1 {
		return false // there is no way now
	}
	route := routes[0]
	wire, ok := r.byIndex[route.LinkIndex]
	if !ok || wire.Attrs().Flags&net.FlagUp == 0 {
		return false
	}
	hop := p.Tunnel.Remote
	if route.Gw != nil {
		hop = addrOf(route.Gw)
	}
	if !p.Tunnel.Local.IsValid() {
		p.Tunnel.Local = addrOf(route.Src)
	}
	if why := r.unsure[route.LinkIndex]; why != "" {
		r.refuse(wire, why)
		return false
	}
	p.Wire, p.From, p.Size = route.LinkIndex, wire.Attrs().HardwareAddr, wire.Attrs().MTU
	if p.RouteMTU = route.MTU; p.RouteMTU > 0 {
		p.Size = min(p.Size, p.RouteMTU)
	}
	for _, n := range r.arp {
		if n.LinkIndex == p.Wire && addrOf(n.IP) == hop && len(n.HardwareAddr) == macLen && usable(n.State) {
			if n.unproven != "" {
				r.refuse(wire, fmt.Sprintf("its neighbour %v has %s", n.IP, n.unproven))
				return false
			}
			p.To, p.Hop = n.HardwareAddr, hop
			return p.Tunnel.Local.Is4()
		}
	}
	return false
}

// defaultTTL is that of packets that the machine sends, in this namespace.
func defaultTTL() (int, error) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_default_ttl")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}
