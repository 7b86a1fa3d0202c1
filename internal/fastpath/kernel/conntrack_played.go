package kernel

import (
	"fmt"
	"time"

	"github.com/venturi-net/venturi/internal/netcfg"
	"golang.org/x/sys/unix"
)

// Played makes conntrack believe in connections that nobody has, to see what others
// do when these come and go.
type Played struct{ track *Conntrack }

// PlayConnections begins to.
func PlayConnections(n *netcfg.Namespace) (*Played, error) {
	track, err := OpenConntrack(n)
	if err != nil {
		return nil, err
	}
	return &Played{track}, nil
}

// Close ends it. Connections that are left live as long as they were given.
func (p *Played) Close() error { return p.track.Close() }

// Begin has connections of UDP or TCP tracked, as ones that have gone on for a while
// and live for so long, in whole seconds, if nothing is seen of them.
func (p *Played) Begin(all []Connection, alive time.Duration) error {
	return p.each("track a connection", all, func(b []byte, c Connection, sequence uint32) []byte {
		return request(b, trackNew, unix.NLM_F_CREATE|unix.NLM_F_EXCL, sequence, c, func(b []byte) []byte {
			return surely(lives(tuple(b, ctaTupleReply, c.Protocol, c.B, c.A), alive))
		})
	})
}

// End has conntrack forget some. Error: it does not have one of them, among others.
func (p *Played) End(all []Connection) error {
	return p.each("forget a connection", all, func(b []byte, c Connection, sequence uint32) []byte {
		return request(b, trackDelete, 0, sequence, c, func(b []byte) []byte { return b })
	})
}

func (p *Played) each(what string, all []Connection, ask func(b []byte, c Connection, sequence uint32) []byte) error {
	for at := 0; at < len(all); at += atOnce {
		some, answers := all[at:min(at+atOnce, len(all))], 0
		var failed error
		err := p.track.ask(len(some), func(b []byte, i int, sequence uint32) []byte { return ask(b, some[i], sequence) },
			func(message) {},
			func(i int, is unix.Errno) {
				if i < 0 {
					return // of what failed before
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
			return p.track.n.Wrap(what, err)
		}
	}
	return nil
}
