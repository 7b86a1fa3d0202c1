package change_test

import (
	"net/netip"
	"testing"

	"github.com/venturi-net/venturi/internal/change"
	"github.com/venturi-net/venturi/internal/host"
)

// More rules than one batch takes arrive, all of them, and the reader of
// machine counts them; a rule may jump to a chain that comes later.
func TestAddTables(t *testing.T) {
	_, n := namespace(t)
	const many = 2500
	table := change.Table{Name: "filter", Chains: []change.Chain{
		{Name: "INPUT", Hook: change.FilterInput, Rules: []change.Rule{{change.Jump("later")}}},
		{Name: "later"},
	}}
	for i := range many {
		dst := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}), 32)
		table.Chains[1].Rules = append(table.Chains[1].Rules,
			change.Rule{change.TCP(), change.Dst(dst), change.Dport(80), change.Drop()})
	}
	must(t, n.AddTables(table))
	facts, problems := host.Reader{}.Facts("m1", host.Named{Name: "m1", Path: n.Path()})
	if len(problems) > 0 {
		t.Errorf("facts: %v", problems)
	}
	if facts.NetfilterRules != many+1 || facts.Conntrack {
		t.Errorf("%d rules, tracking %v; want %d and no tracking", facts.NetfilterRules, facts.Conntrack, many+1)
	}
}

func TestRefusedTable(t *testing.T) {
	_, n := namespace(t)
	err := n.AddTables(change.Table{Name: "filter", Chains: []change.Chain{
		{Name: "INPUT", Hook: change.FilterInput, Rules: []change.Rule{{change.Jump("nowhere")}}},
	}})
	if err == nil {
		t.Error("a jump to a chain that is not there was accepted")
	}
}

// Each clause is one that the kernel takes, in nftables' own expressions and as
// iptables-nft writes it, and those that look at connections start the tracking.
func TestClauses(t *testing.T) {
	pods := netip.MustParsePrefix("10.244.0.0/16")
	for _, wrapped := range []int{0, 4} {
		_, n := namespace(t)
		tables := []change.Table{{Name: "nat", Chains: []change.Chain{
			{Name: "PREROUTING", Hook: change.NATPrerouting, Rules: []change.Rule{
				{change.TCP(), change.Src(pods), change.ToLocal(), change.DNAT(netip.MustParseAddrPort("10.1.2.3:80"))},
			}},
			{Name: "OUTPUT", Hook: change.NATOutput, Rules: []change.Rule{{change.NotSrc(pods), change.SetMark(4)}}},
			{Name: "POSTROUTING", Hook: change.NATPostrouting, Rules: []change.Rule{
				{change.NotMarked(4), change.Return()}, {change.FlipMark(4)}, {change.Masquerade()},
			}},
		}}, {Name: "filter", Chains: []change.Chain{
			{Name: "FORWARD", Hook: change.FilterForward, Rules: []change.Rule{
				{change.InState(change.Invalid), change.Drop()},
				{change.NotInState(change.New | change.Established), change.NotTranslated(), change.Drop()},
				{change.Comment("what it is for"), change.Marked(4), change.Accept()},
				{change.InState(change.Related)},
			}},
		}}}
		for i := range tables {
			tables[i].Wrapped = wrapped > 0
		}
		must(t, n.AddTables(tables...))
		facts, problems := host.Reader{}.Facts("m1", host.Named{Name: "m1", Path: n.Path()})
		if len(problems) > 0 || facts.NetfilterRules != 9 || facts.WrappedRules != wrapped || !facts.Conntrack {
			t.Errorf("%d rules, %d of them wrapped, tracking %v, %v; want 9, %d, and tracking",
				facts.NetfilterRules, facts.WrappedRules, facts.Conntrack, problems, wrapped)
		}
	}
}
