package change

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	ct "github.com/ti-mo/conntrack"
	"github.com/ti-mo/netfilter"
	"golang.org/x/sys/unix"
)

// Conntrack writes the connection tracking of a namespace.
type Conntrack struct {
	n *Namespace
	c *ct.Conn
}

// Connection names what is tracked, from either of its ends.
type Connection struct {
	Protocol uint8
	A, B     netip.AddrPort
}

// OpenConntrack opens a namespace's connection tracking.
func (n *Namespace) OpenConntrack() (*Conntrack, error) {
	c := &Conntrack{n: n}
	err := n.do(func() (err error) {
		c.c, err = ct.Dial(nil)
		return err
	})
	return c, n.fail("open connection tracking", err)
}

// Close closes it.
func (c *Conntrack) Close() error { return c.c.Close() }

// liberal makes conntrack let a TCP connection's windows go unwatched; the value is
// flag and mask of struct nf_ct_tcp_flags, IP_CT_TCP_FLAG_BE_LIBERAL.
const liberal = 0x0808

// ErrNotEstablished is wrapped by the error of pinning what conntrack does not
// have, does not have established, or translates.
var ErrNotEstablished = errors.New("it is not established, or its addresses are translated")

// Pin makes conntrack fit for a connection of which it will see only a few packets
// from now on: they are not out of window.
func (c *Conntrack) Pin(of Connection) error {
	f, err := c.established(of)
	if err != nil {
		return c.fail("pin", of, err)
	}
	if of.Protocol != unix.IPPROTO_TCP {
		return nil
	}
	tcp := *f.ProtoInfo.TCP
	tcp.OriginalFlags, tcp.ReplyFlags = liberal, liberal
	return c.fail("pin", of, c.c.Update(ct.Flow{TupleOrig: f.TupleOrig, TupleReply: f.TupleReply, ProtoInfo: ct.ProtoInfo{TCP: &tcp}}))
}

// Refresh lets a connection live for at least so long.
func (c *Conntrack) Refresh(of Connection, least time.Duration) error {
	f, err := c.established(of)
	if err != nil {
		return c.fail("refresh", of, err)
	}
	seconds := uint32(least / time.Second)
	if f.Timeout >= seconds {
		return nil
	}
	return c.fail("refresh", of, c.c.Update(ct.Flow{TupleOrig: f.TupleOrig, TupleReply: f.TupleReply, Timeout: seconds}))
}

func (c *Conntrack) established(of Connection) (ct.Flow, error) {
	f, err := c.c.Get(ct.NewFlow(of.Protocol, 0, of.A.Addr(), of.B.Addr(), of.A.Port(), of.B.Port(), 0, 0))
	if err != nil {
		return f, err
	}
	const tcpEstablished = 3
	if !f.Status.SeenReply() || f.Status.SrcNAT() || f.Status.DstNAT() ||
		of.Protocol == unix.IPPROTO_TCP && (f.ProtoInfo.TCP == nil || f.ProtoInfo.TCP.State != tcpEstablished) {
		return f, ErrNotEstablished
	}
	return f, nil
}

func (c *Conntrack) fail(what string, of Connection, err error) error {
	if err == nil {
		return nil
	}
	return c.n.fail(fmt.Sprintf("%s connection %v-%v", what, of.A, of.B), err)
}

// Ended tells, until ctx ends, of every connection that conntrack forgets. The
// error of the channel says why no more is told: what came after is lost.
func (n *Namespace) Ended(ctx context.Context, tell func(Connection)) (<-chan error, error) {
	var c *ct.Conn
	err := n.do(func() (err error) {
		c, err = ct.Dial(nil)
		return err
	})
	if err != nil {
		return nil, n.fail("open connection tracking", err)
	}
	events := make(chan ct.Event, 1024)
	failed, err := c.Listen(events, 1, []netfilter.NetlinkGroup{netfilter.GroupCTDestroy})
	if err != nil {
		c.Close()
		return nil, n.fail("listen to connection tracking", err)
	}
	done := make(chan error, 1)
	go func() {
		defer close(done)
		defer c.Close()
		for {
			select {
			case <-ctx.Done():
				return
			case err := <-failed:
				done <- n.fail("listen to connection tracking", err)
				return
			case e := <-events:
				if e.Flow == nil {
					continue
				}
				t := e.Flow.TupleOrig
				tell(Connection{
					Protocol: t.Proto.Protocol,
					A:        netip.AddrPortFrom(t.IP.SourceAddress, t.Proto.SourcePort),
					B:        netip.AddrPortFrom(t.IP.DestinationAddress, t.Proto.DestinationPort),
				})
			}
		}
	}()
	return done, nil
}
