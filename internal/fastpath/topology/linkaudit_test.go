package topology_test

import (
	"strings"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/topology"
)

// An unknown attribute of a bridge, a bridge port, a netkit or a veth device is named.
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

// A filter's actions that may treat packets of the fast path differently are named.
func TestFilterActions(t *testing.T) {
	filter := func(kind string, attribute int, actions ...string) []byte {
		list := nl.NewRtAttr(attribute, nil)
		for i, a := range actions {
			one := nl.NewRtAttr(i+1, nil)
			one.AddRtAttr(1, nl.ZeroTerminated(a))
			list.AddChild(one)
		}
		options := nl.NewRtAttr(nl.TCA_OPTIONS, nil)
		options.AddChild(list)
		m := append(make([]byte, nl.SizeofTcMsg), nl.NewRtAttr(nl.TCA_KIND, nl.ZeroTerminated(kind)).Serialize()...)
		return append(m, options.Serialize()...)
	}
	for _, c := range []struct {
		kind      string
		attribute int
		actions   string
		want      string
	}{
		{"u32", 7, "gact", ""}, {"flower", 3, "pedit csum", ""}, {"matchall", 2, "police", ""}, {"fw", 4, "mirred", "mirred"}, {"bpf", 1, "skbedit", ""},
		{"u32", 7, "ct", "ct"}, {"flower", 3, "gact connmark", "connmark"}, {"matchall", 2, "ctinfo gact", "ctinfo"}, {"matchall", 2, "unheard", "unheard"},
	} {
		kind, action := topology.FilterOf(filter(c.kind, c.attribute, strings.Fields(c.actions)...))
		if kind != c.kind || action != c.want {
			t.Errorf("%s with %s: kind %q, action %q; want action %q", c.kind, c.actions, kind, action, c.want)
		}
	}
}
