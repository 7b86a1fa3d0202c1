package topology

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Encap is the encapsulation that a tunnel adds.
type Encap struct {
	Local, Remote netip.Addr
	IPIP          bool             // an IP header is all of it
	Geneve        bool             // otherwise, if not IPIP either, it is VXLAN
	ByDevice      bool             // the tunnel's device adds it to carried packets, too: of VXLAN over IPv6
	MAC           net.HardwareAddr // of the tunnel's device; with IPIP nil
	VNI, Port     int              // with IPIP 0
	DSCP          int
	TTL           int    // 0: with IPIP that of the pod's packet
	DontFragment  bool   // false: with IPIP as in the pod's packet
	RouteDevice   int    // ifindex of the device that outer packets are routed by, as what an ipip device is bound to; 0: any
	BoundAddr     net.IP // local address that it is bound to; nil: none
}

// acceptTunnel tells whether there may be next hops behind a tunnel's device. It refuses one that has a
// reason against it: header, of what was read of its headers, a common one, or another. failed is the error
// of that read.
func (r *reader) acceptTunnel(l netlink.Link, header string, failed error, others ...string) (ok bool, err error) {
	a := l.Attrs()
	switch {
	case errors.Is(failed, unix.ENODEV):
		return false, nil
	case failed != nil:
		return false, fmt.Errorf("read tunnel %s: %w", a.Name, failed)
	}
	if why := cmp.Or(header, r.masterReason(l), r.crowdedReason(l), r.uncertainDevices[a.Index], cmp.Or(others...)); why != "" {
		r.refuse(l, why)
		return false, nil
	}
	if why := r.unparsed[a.Index]; why != "" { // what else is behind it does not depend on that
		r.refuse(l, why)
	}
	return true, nil
}

// reasonWith adds details to a reason; "" if there are none.
func reasonWith(reason, details string) string {
	if details == "" {
		return ""
	}
	return reason + " (" + details + ")"
}

const (
	perPacketHeaders = "its outer headers are not the same for all packets"
	unsupportedAttrs = "has attributes that the fast path does not support"
)

// noMAC says that a device has no MAC address; "": it has.
func noMAC(l netlink.Link) string {
	if len(l.Attrs().HardwareAddr) != macLen {
		return "has no MAC address"
	}
	return ""
}

// perPacketVXLAN are the attributes of a vxlan device that make outer headers differ between
// packets, or that add to them. Some are flags, some are bytes.
var perPacketVXLAN = []struct {
	number uint16 // IFLA_VXLAN_*
	value  uint8
	name   string
}{
	{unix.IFLA_VXLAN_TOS, tosInherit, "tos inherit"},
	{unix.IFLA_VXLAN_RSC, 1, "rsc"},
	{unix.IFLA_VXLAN_REMCSUM_TX, 1, "remcsumtx"},
	{unix.IFLA_VXLAN_REMCSUM_RX, 1, "remcsumrx"},
	{unix.IFLA_VXLAN_GBP, 0, "gbp"},
	{unix.IFLA_VXLAN_COLLECT_METADATA, 1, "external"},
	{unix.IFLA_VXLAN_GPE, 0, "gpe"},
	{unix.IFLA_VXLAN_TTL_INHERIT, 1, "ttl inherit"},
	{unix.IFLA_VXLAN_VNIFILTER, 1, "vnifilter"},
	{unix.IFLA_VXLAN_DF, vxlanInheritDF, "df inherit"},
}

const (
	vxlanSetDF     = 1
	vxlanInheritDF = 2
)

// readVXLANHeader reads how a vxlan device writes outer headers: whether it sets DF, and why the
// headers differ between packets to one peer; "" means that they do not.
func readVXLANHeader(device int) (dontFragment bool, perPacket string, err error) {
	data, err := readLinkData(device)
	if err != nil {
		return false, "", err
	}
	return parseVXLANHeader(data)
}

// readLinkData reads the attributes of a device that its kind gives it.
func readLinkData(device int) ([]byte, error) {
	message, err := readLink(device)
	if err != nil {
		return nil, err
	}
	return linkData(message)
}

// linkData finds them in the kernel's message about the device.
func linkData(message []byte) ([]byte, error) {
	data := message[unix.SizeofIfInfomsg:]
	for _, part := range []uint16{unix.IFLA_LINKINFO, nl.IFLA_INFO_DATA} {
		attrs, err := nl.ParseRouteAttr(data)
		if err != nil {
			return nil, err
		}
		data = nlmsg.ByNumber(attrs)[part]
	}
	return data, nil
}

// parseVXLANHeader does so from the attributes of the device.
func parseVXLANHeader(data []byte) (dontFragment bool, perPacket string, err error) {
	attrs, err := nl.ParseRouteAttr(data)
	if err != nil {
		return false, "", err
	}
	is := nlmsg.ByNumber(attrs)
	var names []string
	for _, f := range perPacketVXLAN {
		value, there := is[f.number]
		if there && (f.value == 0 || len(value) > 0 && value[0] == f.value) {
			names = append(names, f.name)
		}
	}
	if why := provenVXLAN.FirstUnknown(attrs); why != "" {
		names = append(names, why)
	}
	df := is[unix.IFLA_VXLAN_DF]
	return len(df) > 0 && df[0] == vxlanSetDF, strings.Join(names, ", "), nil
}
