package netcfg_test

import (
	"encoding/binary"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

// What is sent into a bridge comes with room for the headers of a tunnel, by ports
// that were there before and by such that come later, and the bridge gets none of
// what the device itself could bring.
func TestAddHeadroom(t *testing.T) {
	_, n := testenv.Namespace(t)
	testenv.Must(t, n.AddBridge("br0", nil, 1400))
	testenv.Must(t, n.Up("br0"))
	pods := []string{"pod0", "pod1"}
	for i, pod := range pods {
		port := []string{"port0", "port1"}[i]
		testenv.Must(t, netcfg.AddVeth(netcfg.VethEnd{In: n, Name: port}, netcfg.VethEnd{In: n, Name: pod}, 1400))
		testenv.Must(t, n.Up(port))
		testenv.Must(t, n.Up(pod))
	}
	testenv.Must(t, n.Enslave("port0", "br0", true))
	before := attrOf(t, n, "br0", unix.IFLA_ADDRESS)
	testenv.Must(t, n.AddHeadroom("room0", "br0"))
	testenv.Must(t, n.Enslave("port1", "br0", true))
	const tunnel = 50 // outer IPv4, UDP, VXLAN and Ethernet
	for _, pod := range pods {
		if room, told := headroom(t, n, pod); told && room < tunnel {
			t.Errorf("%s leaves %d bytes of room, want %d", pod, room, tunnel)
		}
	}
	if flags := binary.NativeEndian.Uint32(attrOf(t, n, "room0", 0)[8:]); flags&unix.IFF_UP != 0 {
		t.Error("the device is up")
	}
	if mtu := binary.NativeEndian.Uint32(attrOf(t, n, "br0", unix.IFLA_MTU)); mtu != 1400 {
		t.Errorf("the bridge's MTU is %d now", mtu)
	}
	if after := attrOf(t, n, "br0", unix.IFLA_ADDRESS); string(after) == "\xfe\xff\xff\xff\xff\xff" {
		t.Errorf("the bridge's MAC is %x now, was %x", after, before)
	}
}

// headroom is what a device needs in front of packets; not told: this kernel does
// not say.
func headroom(t *testing.T, n *netcfg.Namespace, device string) (room uint16, told bool) {
	t.Helper()
	const attr = 68 // IFLA_HEADROOM, Linux 6.16
	b := attrOf(t, n, device, attr)
	if len(b) < 2 {
		return 0, false
	}
	return binary.NativeEndian.Uint16(b), true
}

// attrOf is what the kernel says of a device; attribute 0: the header of it all.
func attrOf(t *testing.T, n *netcfg.Namespace, device string, attr uint16) (value []byte) {
	t.Helper()
	testenv.Must(t, host.Do(n.Path(), func() error {
		req := nl.NewNetlinkRequest(unix.RTM_GETLINK, 0)
		req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
		req.AddData(nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(device)))
		answers, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
		if err != nil {
			return err
		}
		value = answers[0]
		if attr == 0 {
			return nil
		}
		attrs, err := nl.ParseRouteAttr(answers[0][unix.SizeofIfInfomsg:])
		value = nil
		for _, a := range attrs {
			if a.Attr.Type == attr {
				value = a.Value
			}
		}
		return err
	}))
	return value
}
