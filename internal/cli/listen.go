package cli

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"syscall"
	"time"

	"github.com/venturi-net/venturi/internal/verr"
)

// listener is where a command serves, as its flags say.
type listener struct {
	what string // that it cannot do otherwise
	hint string // which flag names another address
	addr *net.TCPAddr
}

// newListener reads an address. Error: it is none (exit code 2).
func newListener(what, address, hint string) (l listener, err error) {
	l = listener{what: what + " at " + address, hint: hint}
	if l.addr, err = net.ResolveTCPAddr("tcp", address); err != nil {
		return l, verr.Wrap(verr.Usage, l.what, err, hint)
	}
	return l, nil
}

// listen opens it.
func (l listener) listen() (*net.TCPListener, error) {
	open, err := net.ListenTCP("tcp", l.addr)
	if errors.Is(err, fs.ErrPermission) {
		return nil, verr.Wrap(verr.Permission, l.what, err, "run it as root, or choose a port above 1023")
	}
	return open, verr.Wrap(verr.Failed, l.what, err, l.hint)
}

// isInUse tells whether an error of listen says that somebody else has the address.
func isInUse(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }

// listenAfter is listen once somebody else no longer has the address: who has it is about to end.
func (l listener) listenAfter(ctx context.Context, wait time.Duration) (*net.TCPListener, error) {
	poll := time.NewTicker(listenPoll)
	defer poll.Stop()
	for end := time.Now().Add(wait); ; {
		open, err := l.listen()
		if !isInUse(err) || time.Now().After(end) {
			return open, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-poll.C:
		}
	}
}

const listenPoll = 50 * time.Millisecond

// newMetricsListener is the listener of --listen.
func newMetricsListener(address string) (listener, error) {
	return newListener("cannot serve metrics", address, "give --listen an address of this host with a free port, such as :9137 or 127.0.0.1:9137")
}
