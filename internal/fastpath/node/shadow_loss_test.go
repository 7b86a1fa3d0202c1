package node_test

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/node"
	"github.com/venturi-net/venturi/internal/fastpath/shadow"
	"github.com/venturi-net/venturi/internal/testenv"
)

// forge returns what sends a packet of a connection from the first pod, made by hand.
func (c *cluster) forge(t *testing.T, from, to netip.AddrPort) (send func(protocol layers.IPProtocol, transport gopacket.SerializableLayer) error) {
	t.Helper()
	var fd int
	testenv.InNetns(t, c.pods[0].Path(), func() (err error) {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		return err
	})
	t.Cleanup(func() { unix.Close(fd) })
	return func(protocol layers.IPProtocol, transport gopacket.SerializableLayer) error {
		ip := &layers.IPv4{Version: 4, TTL: 64, Protocol: protocol, SrcIP: from.Addr().AsSlice(), DstIP: to.Addr().AsSlice()}
		sums := false
		if tcp, ok := transport.(*layers.TCP); ok {
			sums = true
			if err := tcp.SetNetworkLayerForChecksum(ip); err != nil {
				return err
			}
		}
		b := gopacket.NewSerializeBuffer()
		if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: sums}, ip, transport, gopacket.Payload("forged")); err != nil {
			return err
		}
		return unix.Sendto(fd, b.Bytes(), 0, &unix.SockaddrInet4{Addr: to.Addr().As4()})
	}
}

// A comparison that has lost packets goes on for longer, and the longest while a flow is inconclusive. It
// does not when nothing can make up for what it has found.
func TestShadowGoesOn(t *testing.T) {
	var all []time.Duration
	lost := shadow.PacketCount{NotForwarded: 1}
	for _, found := range []shadow.Result{
		{Out: shadow.PacketCount{Equal: 9}},
		{Out: lost},
		{In: lost, Inconclusive: 1},
		{In: lost, Inconclusive: 1, Loss: &shadow.Loss{}},
		{Out: lost, Loss: &shadow.Loss{}},
		{In: lost, Inconclusive: 1, Out: shadow.PacketCount{Different: 1}},
	} {
		all = append(all, node.UntilSettled(found))
	}
	if shortest, doubt, longest := all[0], all[1], all[2]; shortest < time.Second || doubt <= shortest || longest <= doubt ||
		all[3] != longest || all[4] != shortest || all[5] != shortest {
		t.Errorf("it goes on for %v", all)
	}
}

// Most clusters drop what conntrack calls invalid. Segments far outside the window are counted apart, and
// keep nothing from being carried, however many they are. If many other packets are lost, nothing is.
func TestShadowOfInvalidPackets(t *testing.T) {
	c := newCluster(t, strings.ReplaceAll(wirings[0].node, "nolearning", "nolearning noudpcsum"), wirings[0].pod)
	testenv.Shell(t, c.nodes[0].Path(), `nft 'table ip drops { chain c { type filter hook forward priority 0; ct state invalid drop; }; }'`)

	conn, echo := c.dialStream(t, "10.244.2.2:7778")
	from, to := conn.LocalAddr().(*net.TCPAddr), conn.RemoteAddr().(*net.TCPAddr)
	send := c.forge(t, from.AddrPort(), to.AddrPort())
	n := uint32(0)
	r := c.shadow(t, 0, "1").result(t, func() error {
		if n++; n%5 == 0 { // each with one of four sequence numbers, of which one may be within the window
			segment := &layers.TCP{SrcPort: layers.TCPPort(from.Port), DstPort: layers.TCPPort(to.Port), Seq: n / 5 << 30, ACK: true, Ack: 1, Window: 1000}
			if err := send(layers.IPProtocolTCP, segment); err != nil {
				return err
			}
		}
		return echo()
	})
	if r.Out.NotForwarded < 10 || r.NotForwarded() != r.Out.NotForwarded || r.IsDifferent() || r.Different() > 0 || r.Out.Equal == 0 || r.In.Equal == 0 {
		t.Errorf("found %+v", r)
	}
	if len(r.Differences) != 1 || !r.Differences[0].IsLoss() {
		t.Errorf("it lists %+v", r.Differences)
	}

	c.answer(t)
	const port = "10.244.1.2:7000"
	udp := c.openUDP(t, c.pods[0], port, podPort)
	send = c.forge(t, netip.MustParseAddrPort(port), netip.MustParseAddrPort(podPort))
	says := c.enableRefused(t, func() error {
		wrong := &layers.UDP{SrcPort: 7000, DstPort: 7777, Length: 8 + 6, Checksum: 7}
		if err := send(layers.IPProtocolUDP, wrong); err != nil {
			return err
		}
		if err := udp.SetDeadline(time.Now().Add(testenv.Timeout)); err != nil {
			return err
		}
		if _, err := udp.Write([]byte("right")); err != nil {
			return err
		}
		_, err := udp.Read(make([]byte, 16))
		return err
	}, func() {})
	if !strings.Contains(says, "the network did not forward") || !strings.Contains(says, "of UDP "+port+" > "+podPort) {
		t.Errorf("it says %s", says)
	}
}
