package topology

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
)

// resolveUnderlay resolves the route and next hop of a tunnel's outer packets.
func (r *reader) resolveUnderlay(p *NextHop) bool {
	if !p.Encap.Remote.Is4() {
		return false
	}
	if r.bySourcePort != "" && !p.Encap.IPIP {
		r.refuse(r.byIndex[p.Device], r.bySourcePort)
		return false
	}
	route, err := r.querier.routeOf(p.Encap)
	if err != nil {
		return false // there is no route at present
	}
	wire, ok := r.byIndex[route.device]
	if !ok || !IsUp(wire) {
		return false
	}
	hop := p.Encap.Remote
	if route.gateway.IsValid() {
		hop = route.gateway
	}
	if !p.Encap.Local.IsValid() {
		p.Encap.Local = route.source
	}
	if why := cmp.Or(r.unprovenWire(wire), r.uncertainDevices[route.device]); why != "" {
		r.refuse(wire, why)
		return false
	}
	p.WireDevice, p.SrcMAC, p.MTU = route.device, wire.Attrs().HardwareAddr, wire.Attrs().MTU
	if p.RouteMTU = route.mtu; p.RouteMTU > 0 {
		p.MTU = min(p.MTU, p.RouteMTU)
	}
	n, known := r.arpByAddr[Neighbour{p.WireDevice, hop}]
	switch {
	case !known:
		if why := r.gaps.reason(p.WireDevice); why != "" {
			r.refuse(wire, why)
		}
		return false
	case n.unknownAttr != "":
		r.refuse(wire, fmt.Sprintf("its neighbour %v has %s", n.IP, n.unknownAttr))
		return false
	}
	p.DstMAC, p.Addr = n.HardwareAddr, hop
	return p.Encap.Local.Is4()
}

// defaultTTL returns the default TTL of this namespace.
func defaultTTL() (int, error) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_default_ttl")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// inVRF reports whether a device belongs to a VRF, at some level: what is bound to the device is
// routed by it.
func (r *reader) inVRF(index int) bool {
	l := r.byIndex[index]
	for range 8 { // as many devices as the kernel stacks; a list that changed meanwhile may have a loop
		if l == nil {
			break
		}
		if _, ok := l.(*netlink.Vrf); ok {
			return true
		}
		l = r.byIndex[l.Attrs().MasterIndex]
	}
	return false
}
