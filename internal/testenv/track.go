package testenv

import (
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// Track lets a namespace, given by its file, track connections from now on: it
// gets a rule that asks for their state, and lets everything pass.
func Track(t testing.TB, namespace string) {
	t.Helper()
	InNetns(t, namespace, func() error {
		c, err := nftables.New()
		if err != nil {
			return err
		}
		table := c.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "track"})
		for name, hook := range map[string]*nftables.ChainHook{"input": nftables.ChainHookInput, "forward": nftables.ChainHookForward} {
			chain := c.AddChain(&nftables.Chain{Name: name, Table: table, Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: nftables.ChainPriorityFilter})
			c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
				&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
				&expr.Verdict{Kind: expr.VerdictAccept},
			}})
		}
		return c.Flush()
	})
}
