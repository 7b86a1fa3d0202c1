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
	table := &nftables.Table{Family: nftables.TableFamilyIPv4, Name: "forbid"}
	filter := func(change func(*nftables.Conn)) {
		t.Helper()
		In(t, namespace, func() error {
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
			Name: "forward", Table: table, Type: nftables.ChainTypeFilter,
			Hooknum: nftables.ChainHookForward, Priority: nftables.ChainPriorityFilter,
		})
		c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
			&expr.Cmp{Register: 1, Op: expr.CmpOpEq, Data: []byte{unix.IPPROTO_UDP}},
			&expr.Verdict{Kind: expr.VerdictDrop},
		}})
	})
	return func() {
		t.Helper()
		filter(func(c *nftables.Conn) { c.DelTable(table) })
	}
}
