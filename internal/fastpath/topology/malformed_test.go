package topology_test

import (
	"slices"
	"testing"

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
		for _, kind := range []string{"", "bridge", "veth", "vxlan", "geneve", "ipip", "netkit"} {
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
