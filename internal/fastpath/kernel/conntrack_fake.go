package kernel

import (
	"fmt"
	"time"

	"github.com/venturi-net/venturi/internal/netcfg"
	"golang.org/x/sys/unix"
)

// FakeConns creates and deletes conntrack entries of connections that do not exist, so that
// benchmarks can see what others do when connections come and go.
type FakeConns struct{ track *Conntrack }

// OpenFakeConns opens the connection tracking of a network namespace.
func OpenFakeConns(n *netcfg.Namespace) (*FakeConns, error) {
	track, err := OpenConntrack(n)
	if err != nil {
		return nil, err
	}
	return &FakeConns{track}, nil
}

// Close closes the socket. Entries that are left expire after their timeout.
func (f *FakeConns) Close() error { return f.track.Close() }

// Create creates assured entries of UDP or TCP connections, with a timeout in whole seconds.
func (f *FakeConns) Create(all []Connection, alive time.Duration) error {
	return f.batch("track a connection", all, func(b []byte, c Connection, sequence uint32) []byte {
		return request(b, ctNew, unix.NLM_F_CREATE|unix.NLM_F_EXCL, sequence, c, func(b []byte) []byte {
			return putAssured(putTimeout(putTuple(b, ctaTupleReply, c.Protocol, c.B, c.A), alive))
		})
	})
}

// Delete deletes entries. A missing one is an error.
func (f *FakeConns) Delete(all []Connection) error {
	return f.batch("delete a connection", all, func(b []byte, c Connection, sequence uint32) []byte {
		return request(b, ctDelete, 0, sequence, c, func(b []byte) []byte { return b })
	})
}

func (f *FakeConns) batch(what string, all []Connection, ask func(b []byte, c Connection, sequence uint32) []byte) error {
	for at := 0; at < len(all); at += batchSize {
		some, answers := all[at:min(at+batchSize, len(all))], 0
		var failed error
		err := f.track.roundTrip(len(some), func(b []byte, i int, sequence uint32) []byte { return ask(b, some[i], sequence) },
			func(message) {},
			func(i int, is unix.Errno) {
				if i < 0 {
					return // of an earlier batch that failed
				}
				answers++
				if is != 0 && failed == nil {
					failed = is
				}
			})
		if err == nil {
			err = failed
		}
		if err == nil && answers < len(some) {
			err = fmt.Errorf("the kernel answered %d of %d requests", answers, len(some))
		}
		if err != nil {
			return f.track.n.Wrap(what, err)
		}
	}
	return nil
}
