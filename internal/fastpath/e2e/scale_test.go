package e2e

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/fastpathtest"
)

// Tracked connections that come and go lose nothing, are carried in between, and
// leave nothing behind.
func TestFastPathChurn(t *testing.T) {
	requireFastPath(t)
	l := testenv.Lab(t, lab.Options{Paths: []string{"vxlan+fast"}, Services: 30})
	arm := l.Arms[0]
	before := fastpathtest.CarriedPackets(t, arm)
	churn(t, arm, 1000)
	for i, now := range fastpathtest.CarriedPackets(t, arm) {
		if now == before[i] {
			t.Errorf("nothing was carried: %v, before %v", fastpathtest.CarriedPackets(t, arm), before)
		}
	}
	left := func() (flows int) {
		for _, pins := range arm.Pins {
			table, err := fastpath.ReadTable(pins)
			testenv.Must(t, err)
			flows += table.Flows
		}
		return flows
	}
	for end := time.Now().Add(testenv.Timeout); left() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d flows are left after %v", left(), testenv.Timeout)
		}
	}
}

// churn opens and closes connections between the pods of a path, some at a time; on
// each, messages are echoed.
func churn(t *testing.T, arm lab.Arm, connections int) {
	t.Helper()
	const atOnce, echoes = 10, 40
	l := listenTCP(t, arm.Server())
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c) // what does not come back is missed by the client
			}()
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Timeout)
	defer cancel()
	work, ctx := errgroup.WithContext(ctx)
	for range atOnce {
		work.Go(func() error {
			// All of a worker's sockets are made on its thread, in the pod.
			return host.Do(arm.Client().Namespace, func() error {
				for i := range connections / atOnce {
					if err := converse(ctx, l.Addr().String(), echoes); err != nil {
						return fmt.Errorf("connection %d: %w", i, err)
					}
				}
				return nil
			})
		})
	}
	testenv.Must(t, work.Wait())
}

// converse opens a connection, has messages echoed, and closes it.
func converse(ctx context.Context, to string, echoes int) (err error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp4", to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	end, _ := ctx.Deadline()
	if err := c.SetDeadline(end); err != nil {
		return err
	}
	got := make([]byte, 8)
	for n := range uint64(echoes) {
		sent := binary.BigEndian.AppendUint64(nil, n)
		if _, err := c.Write(sent); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, got); err != nil {
			return err
		}
		if !bytes.Equal(sent, got) {
			return fmt.Errorf("message %d came back as %x", n, got)
		}
	}
	return nil
}

func listenTCP(t *testing.T, at host.Endpoint) (l net.Listener) {
	t.Helper()
	testenv.Must(t, host.Do(at.Namespace, func() (err error) {
		l, err = net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(netip.AddrPortFrom(at.Addr, 0)))
		return err
	}))
	return l
}
