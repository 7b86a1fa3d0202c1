package vm

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/guest"
	"github.com/venturi-net/venturi/internal/verr"
)

// servedGuest serves a guest that consists of a channel only: it accepts streams, and neither reads
// nor closes them. One stream is open when it returns.
func servedGuest(t *testing.T, ctx context.Context) (g *Guest, ended chan error, socket string) {
	t.Helper()
	near, far := net.Pipe()
	inside, err := guest.Session(far, true, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	g = &Guest{done: make(chan struct{})}
	if g.session, err = guest.Session(near, false, time.Minute); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.session.Close(); inside.Close() })
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	socket, ended = filepath.Join(folder, "s"), make(chan error, 1)
	go func() { ended <- g.Serve(ctx, socket) }()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if conn, err := net.Dial("unix", socket); err == nil {
			t.Cleanup(func() { conn.Close() })
			break
		}
		if time.Now().After(end) {
			t.Fatal("it does not serve")
		}
	}
	if _, err := inside.Accept(); err != nil {
		t.Fatal(err)
	}
	return g, ended, socket
}

func wait(t *testing.T, ended chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(time.Minute):
		t.Fatal("it still serves")
		return nil
	}
}

// The holder of a machine exits when told, also when streams hang in the guest.
func TestServingEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, ended, _ := servedGuest(t, ctx)
	cancel()
	if err := wait(t, ended); err != nil {
		t.Error(err)
	}
}

// An unreachable machine is an error.
func TestServingBreaksOff(t *testing.T) {
	g, ended, socket := servedGuest(t, t.Context())
	g.session.Close()
	if conn, err := net.Dial("unix", socket); err == nil { // otherwise it has noticed already
		defer conn.Close()
	}
	if err := wait(t, ended); verr.Code(err) != verr.Failed {
		t.Errorf("ends with %v", err)
	}
}
