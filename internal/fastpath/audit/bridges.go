package audit

import (
	"bytes"
	"slices"

	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// BridgesAsk reports whether a bridge of the calling thread's namespace has packets of a family meet the rules for IP,
// whatever the sysctl for all bridges says.
func BridgesAsk(of Family) (bool, error) {
	bridges, err := nlmsg.Dump(func() ([][]byte, error) {
		req := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
		req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
		kind := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
		kind.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated(kindBridge))
		req.AddData(kind)
		return req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
	})
	return slices.ContainsFunc(bridges, func(m []byte) bool { return BridgeAsks(m, of) }), err
}

const kindBridge = "bridge"

// BridgeAsks tells whether the kernel's message about a device says so of it.
func BridgeAsks(message []byte, of Family) (asks bool) {
	number := uint16(unix.IFLA_BR_NF_CALL_IPTABLES)
	if of == IPv6 {
		number = unix.IFLA_BR_NF_CALL_IP6TABLES
	}
	info := nlmsg.FindIn(message[min(unix.SizeofIfInfomsg, len(message)):], unix.IFLA_LINKINFO)
	value := nlmsg.FindIn(nlmsg.FindIn(info, nl.IFLA_INFO_DATA), number)
	return bytes.Equal(bytes.TrimRight(nlmsg.FindIn(info, nl.IFLA_INFO_KIND), "\x00"), []byte(kindBridge)) && len(value) > 0 && value[0] != 0
}
