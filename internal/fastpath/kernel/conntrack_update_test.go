package kernel_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ti-mo/conntrack"

	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
)

// That somebody changes a connection is reported, and neither what its packets change, nor what
// Venturi's own updates do.
func TestConntrackForeignUpdates(t *testing.T) {
	n := tracked(t)
	updates, err := kernel.OpenUpdateEvents(n)
	testenv.Must(t, err)
	defer updates.Close()
	ends, err := kernel.OpenDestroyEvents(n) // so that there are events of new connections
	testenv.Must(t, err)
	defer ends.Close()
	testenv.Must(t, testenv.Load(t, n, "table ip t { chain c { type filter hook output priority 0; ct mark set meta length; }; }", "nft", "-f", "-"))
	for _, on := range []bool{true, false, true} {
		changed, err := updates.Listen(on)
		testenv.Must(t, err)
		again, err := updates.Listen(on)
		testenv.Must(t, err)
		if !changed || again {
			t.Errorf("listening %v changes something: %v, again %v", on, changed, again)
		}
	}
	own, err := kernel.OpenConntrack(n)
	testenv.Must(t, err)
	defer own.Close()
	client, _ := dialTCP(t, n) // of which there are several updates
	of := connectionOf(6, client)
	if is := update(t, own, kernel.Update{Conn: of, Liberal: true, Timeout: time.Hour}); is[0] != kernel.ConnEstablished {
		t.Errorf("it is %v", is[0])
	}
	ctx, cancel := context.WithCancel(t.Context())
	told, done := make(chan struct{}, 100), make(chan error, 1)
	go func() {
		done <- updates.Follow(ctx, func() error {
			told <- struct{}{}
			return nil
		})
	}()
	time.Sleep(100 * time.Millisecond)
	if len(told) > 0 {
		t.Errorf("what its packets and Venturi change was reported %d times", len(told))
	}
	testenv.InNetns(t, n.Path(), func() error {
		c, err := conntrack.Dial(nil)
		if err != nil {
			return err
		}
		f := conntrack.NewFlow(of.Protocol, 0, of.A.Addr(), of.B.Addr(), of.A.Port(), of.B.Port(), 0, 7)
		return errors.Join(c.Update(f), c.Close())
	})
	select {
	case <-told:
	case <-time.After(host.ScaleTimeout(time.Minute)):
		t.Error("another mark was not reported")
	}
	cancel()
	testenv.Must(t, <-done)
}
