package topology_test

import (
	"slices"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/topology"
)

// An unknown attribute of a device or of a port is named, and a value that is not proven.
func TestUnprovenLinks(t *testing.T) {
	link := func(kind string, data []byte, slave string, slaveData []byte) []byte {
		info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
		info.AddRtAttr(nl.IFLA_INFO_KIND, nl.ZeroTerminated(kind))
		info.AddRtAttr(nl.IFLA_INFO_DATA, data)
		if slave != "" {
			info.AddRtAttr(nl.IFLA_INFO_SLAVE_KIND, nl.ZeroTerminated(slave))
			info.AddRtAttr(nl.IFLA_INFO_SLAVE_DATA, slaveData)
		}
		return append(make([]byte, unix.SizeofIfInfomsg), info.Serialize()...)
	}
	attr := func(number int, value ...byte) []byte { return nl.NewRtAttr(number, value).Serialize() }
	for _, c := range []struct {
		name    string
		message []byte
		want    string
	}{
		{"bridge", link("bridge", attr(5, 0, 0, 0, 0), "", nil), ""},
		{"bridge of a later kernel", link("bridge", attr(unseen, 1), "", nil), "attribute 200 of a bridge"},
		{"bridge with known options", link("bridge", attr(46, 0x1b, 0, 0, 0, 0xff, 0, 0, 0), "", nil), ""},
		{"bridge with spanning trees", link("bridge", attr(46, 4, 0, 0, 0, 0xff, 0, 0, 0), "", nil), "options 0x4 of a bridge"},
		{"bridge with options of a later kernel", link("bridge", attr(46, 0x20, 0, 0, 0, 0xff, 0, 0, 0), "", nil), "options 0x20 of a bridge"},
		{"port", link("veth", nil, "bridge", append(attr(unix.IFLA_BRPORT_STATE, 3), attr(33, 1)...)), ""},
		{"port that is blocked", link("veth", nil, "bridge", attr(unix.IFLA_BRPORT_STATE, 4)), "state 4 of a bridge's port, which does not forward"},
		{"port with a backup", link("veth", nil, "bridge", attr(34, 7, 0, 0, 0)), "attribute 34 of a bridge's port"},
		{"port with a backup next hop", link("veth", nil, "bridge", attr(44, 7, 0, 0, 0)), "attribute 44 of a bridge's port"},
		{"port of a later kernel", link("netkit", nil, "bridge", attr(unseen, 1)), "attribute 200 of a bridge's port"},
		{"netkit", link("netkit", attr(8, 0, 0), "", nil), ""},
		{"netkit of a later kernel", link("netkit", attr(unseen, 1), "", nil), "attribute 200 of a netkit device"},
		{"veth of a later kernel", link("veth", attr(unseen, 1), "", nil), "attribute 200 of a veth device"},
		{"VLAN", link("vlan", slices.Concat(attr(1, 100, 0), attr(2, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff), attr(5, 0x81, 0)), "", nil), ""},
		{"VLAN with all flags that are proven, and maps", link("vlan", slices.Concat(attr(2, 0xf, 0, 0, 0, 0, 0, 0, 0), attr(3), attr(4)), "", nil), ""},
		{"VLAN without flags", link("vlan", attr(1, 100, 0), "", nil), "reorder_hdr off of a vlan device"},
		{"VLAN that keeps tags", link("vlan", attr(2, 4, 0, 0, 0, 0, 0, 0, 0), "", nil), "reorder_hdr off of a vlan device"},
		{"VLAN of a bridge", link("vlan", attr(2, 0x11, 0, 0, 0, 0, 0, 0, 0), "", nil), "flags 0x10 of a vlan device"},
		{"VLAN of a later kernel", link("vlan", attr(unseen, 1), "", nil), "attribute 200 of a vlan device"},
		{"VLAN with half of its flags", link("vlan", attr(2, 1, 0, 0), "", nil), "attribute 2 of a vlan device, which cannot be read"},
		{"bond", link("bond", slices.Concat(attr(1, 1), attr(13, 0), attr(14, 0), attr(34, 0)), "", nil), ""},
		{"bond by hash", link("bond", slices.Concat(attr(1, 2), attr(14, 1)), "", nil), ""},
		{"bond by LACP", link("bond", slices.Concat(attr(1, 4), attr(14, 2)), "", nil), ""},
		{"bond in turn", link("bond", attr(1, 0), "", nil), "bond mode balance-rr"},
		{"bond that copies", link("bond", attr(1, 3), "", nil), "bond mode broadcast"},
		{"bond by load", link("bond", attr(1, 5), "", nil), "bond mode balance-tlb"},
		{"bond that changes packets", link("bond", attr(1, 6), "", nil), "bond mode balance-alb"},
		{"bond in a mode of a later kernel", link("bond", attr(1, 7), "", nil), "bond mode 7"},
		{"bond that hashes inner headers", link("bond", slices.Concat(attr(1, 4), attr(14, 3)), "", nil), "xmit_hash_policy encap2+3"},
		{"bond by the kernel's hash", link("bond", slices.Concat(attr(1, 4), attr(14, 4)), "", nil), "xmit_hash_policy encap3+4"},
		{"bond that hashes tags", link("bond", slices.Concat(attr(1, 4), attr(14, 5)), "", nil), "xmit_hash_policy vlan+srcmac"},
		{"bond whose MAC changes", link("bond", slices.Concat(attr(1, 1), attr(13, 1)), "", nil), "fail_over_mac active"},
		{"bond of a later kernel", link("bond", slices.Concat(attr(1, 1), attr(unseen, 1)), "", nil), "attribute 200 of a bond"},
		{"port of a bond", link("", nil, "bond", slices.Concat(attr(1, 0), attr(5, 0, 0), attr(12, 0))), ""},
		{"port of a bond with a queue", link("", nil, "bond", attr(5, 3, 0)), "queue_id 3"},
		{"port of a bond of a later kernel", link("veth", nil, "bond", attr(unseen, 1)), "attribute 200 of a bond's port"},
		{"another kind", link("dummy", attr(unseen, 1), "", nil), ""},
	} {
		if why, err := topology.LinkOf(c.message); err != nil || why != c.want {
			t.Errorf("%s: %q, want %q; %v", c.name, why, c.want, err)
		}
	}
	if _, err := topology.LinkOf(make([]byte, 7)); err == nil {
		t.Error("half a message was read")
	}
}
