package e2e

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
)

// tableFamily is that of nftables for rules about an address, and what they call its header.
func tableFamily(addr netip.Addr) string {
	if addr.Is6() {
		return "ip6"
	}
	return "ip"
}

// machineEnd is a machine itself as an end.
func machineEnd(l *lab.Lab, i int) host.Endpoint {
	at := host.Endpoint{Namespace: l.Machines[i].Namespace, Addr: l.Machines[i].Addr}
	if l.Arms[0].Client().Addr.Is6() {
		at.Addr = netip.MustParseAddr(wireAddr6(i))
	}
	return at
}

// relations6 are those of relations that there are over IPv6.
var relations6 = []string{
	"Service", "Service whose endpoint goes", "NodePort", "NodePort for clients outside", "Service of the pod itself", "pod beside", "machines", "outside",
}

// servicesLab6 has pods that are routed over IPv6, or in VXLAN over IPv6, with a fast path and without, on
// machines that masquerade what has the mark of kube-proxy.
func servicesLab6(t *testing.T, tunnelled bool) *lab.Lab {
	t.Helper()
	six := withIPv6(t, testenv.Lab(t, lab.Options{Paths: twins([]string{"routed+fast"})}), tunnelled)
	for _, m := range six.Machines {
		shellIn(t, m.Namespace, `nft 'table ip6 proxy { chain c { type nat hook postrouting priority 100;
			meta mark & 0x4000 == 0x4000 meta mark set meta mark ^ 0x4000 masquerade fully-random; }; }'`)
	}
	return six
}

// Traffic of Services, of machines and of pods that are more than an end of a flow is what it is without a
// fast path, over IPv6, too.
func TestFastPathServicesOverIPv6(t *testing.T) {
	requireTools(t)
	l := servicesLab6(t, false)
	checkRelations6(t, l, relations6)
}

func checkRelations6(t *testing.T, l *lab.Lab, names []string) {
	t.Helper()
	for _, name := range names {
		for _, r := range relations {
			if r.name != name {
				continue
			}
			for n, arm := range l.Arms {
				t.Run(r.name+" "+arm.Name, func(t *testing.T) { r.check(t, l, n) })
			}
		}
	}
}

// So it is in VXLAN over IPv6.
func TestFastPathServicesOverIPv6InTunnel(t *testing.T) {
	requireTools(t)
	l := servicesLab6(t, true)
	checkRelations6(t, l, relations6[:2])
}

// What ends a Service's traffic over IPv6 does so as soon as it ends other flows, and when it is taken back, it
// is carried again.
func TestFastPathServicesFollowChangesOfIPv6(t *testing.T) {
	requireTools(t)
	for _, tunnelled := range []bool{false, true} {
		t.Run(fmt.Sprintf("in a tunnel: %v", tunnelled), func(t *testing.T) { followServiceChanges(t, servicesLab6(t, tunnelled)) })
	}
}

// Connections to a Service over IPv6 that were reset are forgotten as others are.
func TestFastPathForgetsResetConnectionsOfIPv6(t *testing.T) {
	requireTools(t)
	for _, tunnelled := range []bool{false, true} {
		t.Run(fmt.Sprintf("in a tunnel: %v", tunnelled), func(t *testing.T) {
			l := servicesLab6(t, tunnelled)
			forgetsResets(t, l, func(n int, served netip.AddrPort) netip.AddrPort {
				t.Cleanup(provide(t, l, n, fmt.Sprintf("tcp dport 53 dnat to %s;", served)))
				return virtual(l.Arms[n], n)
			})
		})
	}
}

// resetPacket6 is a reset over IPv6.
func resetPacket6(t *testing.T, from, to netip.AddrPort, seq uint32) []byte {
	t.Helper()
	ip := &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: layers.IPProtocolTCP, SrcIP: from.Addr().AsSlice(), DstIP: to.Addr().AsSlice()}
	tcp := &layers.TCP{SrcPort: layers.TCPPort(from.Port()), DstPort: layers.TCPPort(to.Port()), Seq: seq, RST: true}
	testenv.Must(t, tcp.SetNetworkLayerForChecksum(ip))
	b := gopacket.NewSerializeBuffer()
	testenv.Must(t, gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, ip, tcp))
	return bytes.Clone(b.Bytes())
}
