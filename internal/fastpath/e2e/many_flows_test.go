package e2e

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/fastpathtest"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
)

// Flows that take turns are learned from what they send by themselves, many more than
// cores have slots for, while none sends two packets in a row.
func TestFastPathLearnsFlowsInTurn(t *testing.T) {
	requireFastPath(t)
	const flows, rounds = 2000, 16
	l := testenv.Lab(t, lab.Options{Paths: basicFastPaths})
	for _, arm := range l.Arms {
		t.Run(arm.Name, func(t *testing.T) {
			server := echo(t, arm)
			var clients []*net.UDPConn
			for range flows {
				c := traffic.ListenUDP(t, arm.Client())
				defer c.Close()
				clients = append(clients, c)
			}
			askAll := func() {
				for _, c := range clients {
					testenv.Must(t, exchangeWith(c, server))
				}
			}
			for range rounds {
				askAll()
			}
			// Who waits for the daemon's word at the sixteenth may have it at the next.
			for end := time.Now().Add(testenv.Timeout); ; {
				before := fastpathtest.CarriedPackets(t, arm)
				askAll()
				least := uint64(flows)
				for i, now := range fastpathtest.CarriedPackets(t, arm) {
					least = min(least, now-before[i])
				}
				if least >= flows*95/100 {
					return
				}
				if time.Now().After(end) {
					t.Fatalf("of %d flows in turn, each of which has sent more than %d datagrams, %d are carried", flows, rounds, least)
				}
			}
		})
	}
}

// echo answers what is sent to it at the other end of a path.
func echo(t *testing.T, arm lab.Arm) *net.UDPAddr { return serveAt(t, arm, 0) }

// serveAt does so at a port; 0: at any.
func serveAt(t *testing.T, arm lab.Arm, port uint16) *net.UDPAddr {
	t.Helper()
	server := listenAt(t, arm.Server(), netip.AddrPortFrom(arm.Server().Addr, port))
	t.Cleanup(traffic.EchoUDP(server))
	return server.LocalAddr().(*net.UDPAddr)
}

// exchangeWith sends a datagram and waits for its answer.
func exchangeWith(c *net.UDPConn, server *net.UDPAddr) error {
	if _, err := c.WriteToUDP([]byte("?"), server); err != nil {
		return err
	}
	if err := c.SetReadDeadline(time.Now().Add(testenv.Timeout)); err != nil {
		return err
	}
	var buf [8]byte
	if _, _, err := c.ReadFromUDPAddrPort(buf[:]); err != nil {
		return fmt.Errorf("wait for an answer: %w", err)
	}
	return nil
}
