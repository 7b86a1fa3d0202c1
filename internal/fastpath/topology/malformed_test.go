package topology_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/testenv"
)

// No message ends the daemon: neither one that is cut off, nor one that lacks attributes, nor one
// whose attributes are empty, short, or nested where nothing is.
func TestMalformedMessages(t *testing.T) {
	headers := []int{0, nl.SizeofTcMsg, unix.SizeofIfInfomsg, unix.SizeofIfAddrmsg, unix.SizeofRtMsg, 12}
	var messages [][]byte
	for _, size := range headers {
		header := slices.Repeat([]byte{1}, size)
		for n := range size {
			messages = append(messages, header[:n])
		}
		messages = append(messages, header)
		for _, family := range []byte{unix.AF_INET, unix.AF_BRIDGE} {
			for number := range 70 {
				for _, value := range [][]byte{nil, {1}, {1, 0, 0}, nl.NewRtAttr(1, nil).Serialize(), nl.NewRtAttr(2, nl.NewRtAttr(7, nil).Serialize()).Serialize()} {
					m := slices.Concat(header, nl.NewRtAttr(number, value).Serialize())
					if size > 0 {
						m[0] = family
					}
					messages = append(messages, m)
				}
			}
		}
		for _, kind := range []string{"", "bpf", "u32", "clsact"} { // with options that are empty
			messages = append(messages, slices.Concat(header, nl.NewRtAttr(nl.TCA_KIND, []byte(kind)).Serialize(), nl.NewRtAttr(nl.TCA_OPTIONS, nil).Serialize()))
		}
		for _, kind := range []string{"", "bridge", "veth", "vxlan", "netkit"} {
			info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
			info.AddRtAttr(nl.IFLA_INFO_KIND, []byte(kind))
			info.AddRtAttr(nl.IFLA_INFO_DATA, nl.NewRtAttr(46, nil).Serialize())
			info.AddRtAttr(nl.IFLA_INFO_SLAVE_KIND, nl.ZeroTerminated("bridge"))
			info.AddRtAttr(nl.IFLA_INFO_SLAVE_DATA, nl.NewRtAttr(unix.IFLA_BRPORT_STATE, nil).Serialize())
			messages = append(messages, slices.Concat(header, info.Serialize()))
		}
	}
	testenv.SurviveMessages(t, topology.Parsers, messages)
}

// Two ends of pairs in different namespaces may have their indexes in common: no change of either
// is missed.
func TestPodEndsAlike(t *testing.T) {
	ends := topology.PodEnds{}
	announce := func(mac byte, mtu uint32) topology.Changes {
		message := make([]byte, unix.SizeofIfInfomsg)
		message[4] = 2
		for _, a := range []*nl.RtAttr{
			nl.NewRtAttr(unix.IFLA_LINK, nl.Uint32Attr(57)), nl.NewRtAttr(unix.IFLA_LINK_NETNSID, nl.Uint32Attr(0)),
			nl.NewRtAttr(unix.IFLA_ADDRESS, []byte{2, 0, 0, 0, 0, mac}), nl.NewRtAttr(unix.IFLA_MTU, nl.Uint32Attr(mtu)),
		} {
			message = append(message, a.Serialize()...)
		}
		return ends.Event(netlink.Message{Header: netlink.Header{Type: unix.RTM_NEWLINK}, Data: message}).Changes
	}
	for i, c := range []struct {
		mac  byte
		mtu  uint32
		want topology.Changes
	}{
		{1, 1500, ways}, {1, 1500, 0}, // said again
		{2, 1400, ways}, {1, 1400, ways}, // the first has changed, to what the second has
		{1, 1400, 0}, {1, 1300, ways},
	} {
		if got := announce(c.mac, c.mtu); got != c.want {
			t.Errorf("%s: %b, want %b", fmt.Sprint("announcement ", i), got, c.want)
		}
	}
}
