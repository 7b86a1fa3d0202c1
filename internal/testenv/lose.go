package testenv

import (
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Lose lets the packet filter of a namespace, given by its file, drop one in
// oneIn of the UDP datagrams that arrive, at random. With 0 it drops none, but
// each datagram still passes the same rule: an arm that loses and one that
// does not then differ in nothing else.
func Lose(t testing.TB, namespace string, oneIn uint32) {
	t.Helper()
	// The generator gives numbers below its modulus, so that is never hit.
	modulus, hit := oneIn, uint32(0)
	if oneIn == 0 {
		modulus, hit = 10_000, 10_000
	}
	In(t, namespace, func() error {
		c, err := nftables.New()
		if err != nil {
			return err
		}
		table := c.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "lose"})
		chain := c.AddChain(&nftables.Chain{
			Name: "input", Table: table, Type: nftables.ChainTypeFilter,
			Hooknum: nftables.ChainHookInput, Priority: nftables.ChainPriorityFilter,
		})
		c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
			&expr.Cmp{Register: 1, Op: expr.CmpOpEq, Data: []byte{unix.IPPROTO_UDP}},
			&expr.Numgen{Register: 1, Modulus: modulus, Type: unix.NFT_NG_RANDOM},
			&expr.Cmp{Register: 1, Op: expr.CmpOpEq, Data: binaryutil.NativeEndian.PutUint32(hit)},
			&expr.Counter{},
			&expr.Verdict{Kind: expr.VerdictDrop},
		}})
		return c.Flush()
	})
}
