package netcfg

import (
	"cmp"

	"github.com/google/nftables"
	nfnetlink "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// AddTables writes tables of the packet filter. All chains of a table are made
// before its first rule, so rules may jump to chains that come later.
func (n *Namespace) AddTables(tables ...Table) error {
	return n.Do(func() error {
		c, err := nftables.New(nftables.WithSockOptions(roomyBuffers))
		if err != nil {
			return n.Wrap("open nftables", err)
		}
		for _, t := range tables {
			if err := addTable(c, t); err != nil {
				return n.Wrap("write table "+t.Name, err)
			}
		}
		return nil
	})
}

func addTable(c *nftables.Conn, t Table) error {
	table := c.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: t.Name})
	b := batch{c: c}
	for _, chain := range t.Chains {
		made := &nftables.Chain{Table: table, Name: chain.Name}
		if h := chain.Hook; h != nil {
			made.Type, made.Hooknum, made.Priority = h.kind, h.number, h.priority
		}
		c.AddChain(made)
		b.added()
	}
	for _, chain := range t.Chains {
		in := &nftables.Chain{Table: table, Name: chain.Name}
		for _, rule := range chain.Rules {
			c.AddRule(&nftables.Rule{Table: table, Chain: in, Exprs: rule.expressions(t.Wrapped)})
			b.added()
		}
	}
	return b.flush()
}

// maxBatch is how many chains or rules go to the kernel at once. It bounds the
// size of the message and of the answers that wait to be read.
const maxBatch = 1000

// batch sends what was added in portions, and keeps the first error.
type batch struct {
	c   *nftables.Conn
	n   int
	err error
}

func (b *batch) added() {
	if b.n++; b.n >= maxBatch {
		_ = b.flush()
	}
}

func (b *batch) flush() error {
	b.n = 0
	b.err = cmp.Or(b.err, b.c.Flush())
	return b.err
}

// nftBuffer is room for a batch and for its acknowledgements, bytes.
const nftBuffer = 4 << 20

// roomyBuffers enlarges the socket's buffers: a batch goes out as one message,
// and the kernel answers each part of it before the first answer is read.
func roomyBuffers(c *nfnetlink.Conn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		for _, opt := range []int{unix.SO_SNDBUFFORCE, unix.SO_RCVBUFFORCE} {
			if err := unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, opt, nftBuffer); err != nil && failed == nil {
				failed = err
			}
		}
	})
	if err != nil {
		return err
	}
	return failed
}
