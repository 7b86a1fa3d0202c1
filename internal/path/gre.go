package path

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// gre joins bridges by GRE that carries Ethernet: on each machine a gretap device to each
// other machine, as a port of the bridge that the pods are on. Nothing is routed, and all
// pods are in one subnet. The bridges learn where pods are. The gretap ports are isolated
// from each other, as what came from one machine has reached the others already.
//
// The devices are made with the kernel's defaults: the outer header has the inner one's
// time to live, and may not be cut.
var gre = Driver{
	Name:    "gre",
	Summary: "pods on a bridge, kernel GRE (gretap) between the machines",
	Example: "Linux bridges joined by gretap, as for containers or virtual machines without a controller",
	Options: []Option{
		number("key", 1, maxGREKey, "", "GRE key; the header has none when not given"),
		onOff("csum", "off", "compute the checksum of the GRE header and its payload"),
		mtu,
	},
	Overhead: func(v Values) int {
		overhead := greOverhead
		if v["key"] != "" {
			overhead += greField
		}
		if v.Enabled("csum") {
			overhead += greField
		}
		return overhead
	},
	Needs: func(Values) []feature.Need { return []feature.Need{feature.Bridge, gretap} },
	Up:    func(ctx context.Context, s *Site) (Ends, error) { return s.onePod(ctx, s.grePod) },
}

const (
	greOverhead = 38 // outer IPv4 20, GRE 4, inner Ethernet 14
	greField    = 4  // of the key, and of the checksum
	maxGREKey   = 1<<32 - 1
)

func (s *Site) grePod(i int) (end host.Endpoint, err error) {
	ports, err := s.greTunnels(i)
	if err != nil {
		return end, err
	}
	if end, err = s.switchedPod(i, 0, ports...); err != nil {
		return end, err
	}
	for _, port := range ports {
		if err := s.Machines[i].In.Isolate(port); err != nil {
			return end, err
		}
	}
	return end, nil
}

// greTunnels makes the devices of a machine to all others, and gives their names.
func (s *Site) greTunnels(i int) (devices []string, err error) {
	if err := s.addOuterAddr(i, s.nodeAddr); err != nil {
		return nil, err
	}
	for j := range s.otherMachines(i) {
		name := fmt.Sprintf("gre%d.%d", s.Index, j+1)
		err := s.Machines[i].In.AddDevice(netcfg.Device{
			Kind: "gretap", Name: name, MTU: s.MTU,
			Attrs: gretapAttrs(s.nodeAddr(i), s.nodeAddr(j), uint32(s.Options.Int("key")), s.Options.Enabled("csum")),
		})
		if err != nil {
			return nil, err
		}
		devices = append(devices, name)
	}
	return devices, nil
}

// gretapAttrs are those of a gretap device, IFLA_GRE_* of the kernel's if_tunnel.h. What
// it sends has the same key as what it takes, and a checksum if that must have one; key 0
// stands for none.
func gretapAttrs(local, remote netip.Addr, key uint32, csum bool) []netcfg.Attr {
	const (
		iFlags, oFlags = 2, 3
		iKey, oKey     = 4, 5
		from, to       = 6, 7
		hasCsum        = 0x8000
		hasKey         = 0x2000
	)
	attrs := []netcfg.Attr{{Type: from, Value: local.AsSlice()}, {Type: to, Value: remote.AsSlice()}}
	var flags uint16
	if csum {
		flags |= hasCsum
	}
	if key != 0 {
		flags |= hasKey
		text := binary.BigEndian.AppendUint32(nil, key)
		attrs = append(attrs, netcfg.Attr{Type: iKey, Value: text}, netcfg.Attr{Type: oKey, Value: text})
	}
	if flags != 0 {
		text := binary.BigEndian.AppendUint16(nil, flags)
		attrs = append(attrs, netcfg.Attr{Type: iFlags, Value: text}, netcfg.Attr{Type: oFlags, Value: text})
	}
	return attrs
}

// gretap also makes the kernel load the module, if it is one, which then puts devices of
// its own, down, into every namespace.
var gretap = &feature.Probe{
	Name: "gretap device",
	Get:  "load the module ip_gre (modprobe ip_gre), or run a kernel built with CONFIG_NET_IPGRE",
	Try: func(n *netcfg.Namespace) error {
		local, remote := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
		return n.AddDevice(netcfg.Device{Kind: "gretap", Name: "probe", MTU: 1462, Attrs: gretapAttrs(local, remote, 1, true)})
	},
}
