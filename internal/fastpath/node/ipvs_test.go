package node_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
)

// IPVS leads what pods send to a Service to another pod, under connections of its own, and takes the
// conntrack entries from the packets. What the fast path sees of them is not what the first pod has sent:
// it must not take that for allowed, where a rule drops what the pod sends there itself.
func TestIPVSStaysSlow(t *testing.T) {
	needsModules(t)
	const service = "10.96.0.10:53"
	b := newSibling(t, siblingWirings[2])
	b.learnNeighbours(t)
	testenv.Shell(t, b.nodes[0].Path(), `modprobe ip_vs_rr; ip addr add 10.96.0.10/32 dev lo
		nft 'table ip deny { chain c { type filter hook forward priority 0; ip daddr 10.244.1.3 udp dport 7777 drop; }; }'
		echo 0 > /proc/sys/net/ipv4/vs/conntrack`)
	testenv.Must(t, host.Do(b.nodes[0].Path(), func() error {
		return addIPVS(netip.MustParseAddrPort(service), netip.MustParseAddrPort(b.server()))
	}))
	b.carry(t)
	flushConntrack(t, b.nodes[0])

	client := b.openUDP(t, b.pods[0], b.clientAt(0), "")
	var services, directs atomic.Int64
	go func() {
		for buffer := make([]byte, len(b.server())); ; {
			n, err := client.Read(buffer)
			switch { // IPVS translates all answers of its server
			case isClosed(err):
				return
			case string(buffer[:n]) == b.server():
				directs.Add(1)
			case err == nil:
				services.Add(1)
			}
		}
	}()
	send := func(to string) {
		_, err := client.WriteToUDP([]byte(to), net.UDPAddrFromAddrPort(netip.MustParseAddrPort(to)))
		testenv.Must(t, err)
		time.Sleep(2 * time.Millisecond)
	}
	for range 200 { // the same ports: what it would learn of the first kind carries the second
		send(service)
		send(b.server())
	}
	if services.Load() < 100 {
		t.Fatalf("the Service has answered %d of 200 datagrams", services.Load())
	}
	s := b.status(t, 0)
	if directs.Load() > 0 {
		t.Errorf("the pod has answered %d datagrams that a rule drops; %+v", directs.Load(), s.Stats)
	}
	if !slices.ContainsFunc(s.State.Uncarried, func(u fastpath.Uncarried) bool { return strings.Contains(u.What, "IPVS") }) {
		t.Errorf("it does not name IPVS among what stays slow: %+v", s.State.Uncarried)
	}
}

// addIPVS makes a UDP service of IPVS, with translation, and its server, in the calling thread's namespace.
func addIPVS(service, server netip.AddrPort) error {
	const (
		newService, newDestination = 1, 5 // IPVS_CMD_*
		serviceAttr, destAttr      = 1, 2 // IPVS_CMD_ATTR_*
	)
	family, err := netlink.GenlFamilyGet("IPVS")
	if err != nil {
		return fmt.Errorf("look for IPVS: %w", err)
	}
	port := func(p uint16) []byte { return binary.BigEndian.AppendUint16(nil, p) }
	addr := func(a netip.Addr) []byte { return append(a.AsSlice(), make([]byte, 12)...) }
	number := nl.Uint32Attr
	nested := func(kind int, values map[int][]byte) *nl.RtAttr {
		a := nl.NewRtAttr(kind|unix.NLA_F_NESTED, nil)
		for n := range 16 {
			if v, ok := values[n]; ok {
				a.AddRtAttr(n, v)
			}
		}
		return a
	}
	of := func() *nl.RtAttr {
		return nested(serviceAttr, map[int][]byte{1: nl.Uint16Attr(unix.AF_INET), 2: nl.Uint16Attr(unix.IPPROTO_UDP), 3: addr(service.Addr()), 4: port(service.Port()),
			6: nl.ZeroTerminated("rr"), 7: append(number(0), number(^uint32(0))...), 8: number(0), 9: number(^uint32(0))})
	}
	do := func(command uint8, attrs ...*nl.RtAttr) error {
		req := nl.NewNetlinkRequest(int(family.ID), unix.NLM_F_ACK)
		req.AddData(&nl.Genlmsg{Command: command, Version: 1})
		for _, a := range attrs {
			req.AddData(a)
		}
		_, err := req.Execute(unix.NETLINK_GENERIC, 0)
		return err
	}
	if err := do(newService, of()); err != nil {
		return fmt.Errorf("make a service of IPVS: %w", err)
	}
	masquerade := number(0)
	err = do(newDestination, of(), nested(destAttr, map[int][]byte{1: addr(server.Addr()), 2: port(server.Port()), 3: masquerade, 4: number(1), 5: number(0), 6: number(0), 11: nl.Uint16Attr(unix.AF_INET)}))
	if err != nil {
		return fmt.Errorf("add a server to IPVS: %w", err)
	}
	return nil
}
