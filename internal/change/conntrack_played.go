package change

import (
	"time"

	ctnetlink "github.com/ti-mo/conntrack"
)

// Played makes conntrack believe in connections that nobody has, to see what others
// do when these come and go.
type Played struct {
	n    *Namespace
	conn *ctnetlink.Conn
}

// PlayConnections begins to.
func (n *Namespace) PlayConnections() (*Played, error) {
	p := &Played{n: n}
	err := n.do(func() (err error) {
		p.conn, err = ctnetlink.Dial(nil)
		return err
	})
	if err != nil {
		return nil, n.fail("open connection tracking", err)
	}
	return p, nil
}

// Close ends it. Connections that are left live as long as they were given.
func (p *Played) Close() error { return p.conn.Close() }

// Begin has a connection of UDP or TCP tracked, as one that has gone on for a while
// and lives for so long, in whole seconds, if nothing is seen of it.
func (p *Played) Begin(c Connection, alive time.Duration) error {
	f := ctnetlink.NewFlow(c.Protocol, ctnetlink.Status(assured), c.A.Addr(), c.B.Addr(), c.A.Port(), c.B.Port(), uint32(alive/time.Second), 0)
	return p.n.fail("track a connection", p.conn.Create(f))
}

// End has conntrack forget one. Error: it has none, among others.
func (p *Played) End(c Connection) error {
	f := ctnetlink.NewFlow(c.Protocol, 0, c.A.Addr(), c.B.Addr(), c.A.Port(), c.B.Port(), 0, 0)
	return p.n.fail("forget a connection", p.conn.Delete(f))
}
