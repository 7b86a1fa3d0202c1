package netcfg_test

import (
	"net/netip"
	"testing"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

// More rules than one batch takes arrive, all of them, and the reader of
// machine counts them; a rule may jump to a chain that comes later.
func TestAddTables(t *testing.T) {
	_, n := testenv.Namespace(t)
	const many = 2500
	table := netcfg.Table{Name: "filter", Chains: []netcfg.Chain{
		{Name: "INPUT", Hook: netcfg.FilterInput, Rules: []netcfg.Rule{{netcfg.Jump("later")}}},
		{Name: "later"},
	}}
	for i := range many {
		dst := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}), 32)
		table.Chains[1].Rules = append(table.Chains[1].Rules,
			netcfg.Rule{netcfg.TCP(), netcfg.Dst(dst), netcfg.Dport(80), netcfg.Drop()})
	}
	testenv.Must(t, n.AddTables(table))
	facts, problems := host.Reader{}.Facts("m1", host.Named{Name: "m1", Path: n.Path()})
	if len(problems) > 0 {
		t.Errorf("facts: %v", problems)
	}
	if facts.NetfilterRules != many+1 || facts.Conntrack {
		t.Errorf("%d rules, tracking %v; want %d and no tracking", facts.NetfilterRules, facts.Conntrack, many+1)
	}
}

func TestRefusedTable(t *testing.T) {
	_, n := testenv.Namespace(t)
	err := n.AddTables(netcfg.Table{Name: "filter", Chains: []netcfg.Chain{
		{Name: "INPUT", Hook: netcfg.FilterInput, Rules: []netcfg.Rule{{netcfg.Jump("nowhere")}}},
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
		_, n := testenv.Namespace(t)
		tables := []netcfg.Table{{Name: "nat", Chains: []netcfg.Chain{
			{Name: "PREROUTING", Hook: netcfg.NATPrerouting, Rules: []netcfg.Rule{
				{netcfg.TCP(), netcfg.Src(pods), netcfg.ToLocal(), netcfg.DNAT(netip.MustParseAddrPort("10.1.2.3:80"))},
			}},
			{Name: "OUTPUT", Hook: netcfg.NATOutput, Rules: []netcfg.Rule{{netcfg.NotSrc(pods), netcfg.SetMark(4)}}},
			{Name: "POSTROUTING", Hook: netcfg.NATPostrouting, Rules: []netcfg.Rule{
				{netcfg.NotMarked(4), netcfg.Return()}, {netcfg.FlipMark(4)}, {netcfg.Masquerade()},
			}},
		}}, {Name: "filter", Chains: []netcfg.Chain{
			{Name: "FORWARD", Hook: netcfg.FilterForward, Rules: []netcfg.Rule{
				{netcfg.InState(netcfg.Invalid), netcfg.Drop()},
				{netcfg.NotInState(netcfg.New | netcfg.Established), netcfg.NotTranslated(), netcfg.Drop()},
				{netcfg.Comment("what it is for"), netcfg.Marked(4), netcfg.Accept()},
				{netcfg.InState(netcfg.Related)},
			}},
		}}}
		for i := range tables {
			tables[i].Wrapped = wrapped > 0
		}
		testenv.Must(t, n.AddTables(tables...))
		facts, problems := host.Reader{}.Facts("m1", host.Named{Name: "m1", Path: n.Path()})
		if len(problems) > 0 || facts.NetfilterRules != 9 || facts.WrappedRules != wrapped || !facts.Conntrack {
			t.Errorf("%d rules, %d of them wrapped, tracking %v, %v; want 9, %d, and tracking",
				facts.NetfilterRules, facts.WrappedRules, facts.Conntrack, problems, wrapped)
		}
	}
}
