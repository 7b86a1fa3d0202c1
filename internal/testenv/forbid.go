package testenv

import (
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Forbid lets the packet filter of a namespace, given by its file, drop all UDP
// datagrams that it forwards, until allow is called.
func Forbid(t testing.TB, namespace string) (allow func()) {
	t.Helper()
	return drop(t, namespace, "forbid", nftables.ChainHookForward, unix.IPPROTO_UDP)
}

// ForbidTCP lets it drop all TCP that comes to it, so that a pod does not reset
// connections of which it knows nothing. Sockets for frames get them before.
func ForbidTCP(t testing.TB, namespace string) {
	t.Helper()
	drop(t, namespace, "quiet", nftables.ChainHookInput, unix.IPPROTO_TCP)
}

// drop adds a table with one rule, which drops what passes a hook of a protocol of IP
// and fits; undo deletes it.
func drop(t testing.TB, namespace, name string, hook *nftables.ChainHook, protocol byte, fits ...expr.Any) (undo func()) {
	t.Helper()
	table := &nftables.Table{Family: nftables.TableFamilyIPv4, Name: name}
	filter := func(change func(*nftables.Conn)) {
		t.Helper()
		InNetns(t, namespace, func() error {
			c, err := nftables.New()
			if err != nil {
				return err
			}
			change(c)
			return c.Flush()
		})
	}
	filter(func(c *nftables.Conn) {
		c.AddTable(table)
		chain := c.AddChain(&nftables.Chain{
			Name: "drop", Table: table, Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: nftables.ChainPriorityFilter,
		})
		rule := append([]expr.Any{
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
			&expr.Cmp{Register: 1, Op: expr.CmpOpEq, Data: []byte{protocol}},
		}, fits...)
		c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: append(rule, &expr.Verdict{Kind: expr.VerdictDrop})})
	})
	return func() {
		t.Helper()
		filter(func(c *nftables.Conn) { c.DelTable(table) })
	}
}
