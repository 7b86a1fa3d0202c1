package nft_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/nft"
	"github.com/venturi-net/venturi/internal/testenv"
)

// Rules are read as whoever wrote them meant them.
func TestFilter(t *testing.T) {
	n := testenv.Netns(t)
	for _, c := range []struct {
		rule string
		want nft.RuleSummary
	}{
		{"accept", nft.RuleSummary{MatchesAll: true, Verdict: "accept"}},
		{"counter drop comment \"all\"", nft.RuleSummary{MatchesAll: true, Verdict: "drop"}},
		{"jump other", nft.RuleSummary{MatchesAll: true, Verdict: "jump", TargetChain: "other"}},
		{"ip saddr 192.0.2.1 goto other", nft.RuleSummary{Verdict: "goto", TargetChain: "other"}},
		{"ct state established,related accept", nft.RuleSummary{Established: true, Verdict: "accept"}},
		{"ct state established accept", nft.RuleSummary{Established: true, Verdict: "accept"}},
		{"ct state vmap { established : accept, invalid : drop }", nft.RuleSummary{Established: true, Verdict: "other"}},
		{"ct state new jump other", nft.RuleSummary{NewOnly: true, Verdict: "jump", TargetChain: "other"}},
		{"ct state != established drop", nft.RuleSummary{Verdict: "drop"}},
		{"udp dport 4789 notrack", nft.RuleSummary{Verdict: "notrack", Ports: []int{4789}}},
		{"meta mark set 5", nft.RuleSummary{MatchesAll: true}},
		{"ip daddr 192.0.2.1 return", nft.RuleSummary{Verdict: "return"}},
		{"reject", nft.RuleSummary{MatchesAll: true, Verdict: "other"}},
	} {
		input := "flush ruleset\ntable ip t {\nchain other { }\nchain first {\ntype filter hook input priority 5\n" + c.rule + "\n}\n}\n"
		if err := testenv.Load(t, n, input, "nft", "-f", "-"); err != nil {
			t.Errorf("%s: %v", c.rule, err)
			continue
		}
		testenv.InNetns(t, n.Path(), func() error {
			chains, err := nft.SummarizeRuleset()
			i := slices.IndexFunc(chains, func(c nft.ChainSummary) bool { return c.Name == "first" })
			if i < 0 || len(chains) != 2 {
				t.Errorf("%s: chains %+v", c.rule, chains)
				return err
			}
			got := chains[i]
			if got.Family != "ip" || got.Table != "t" || got.Hook != "input" || got.Type != "filter" || got.Priority != 5 {
				t.Errorf("chain %+v", got)
			}
			// A comparison with "not established" may be written in two ways.
			if strings.Contains(c.rule, "!=") && len(got.Rules) == 1 {
				got.Rules[0].NewOnly = false
			}
			if !reflect.DeepEqual(got.Rules, []nft.RuleSummary{c.want}) {
				t.Errorf("%s is read as %+v, want %+v", c.rule, got.Rules, c.want)
			}
			return err
		})
	}
}

// So are those of iptables, which come wrapped.
func TestFilterOfIPTables(t *testing.T) {
	n := testenv.Netns(t)
	for _, c := range []struct {
		rule string
		want nft.RuleSummary
	}{
		{"-m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT", nft.RuleSummary{Established: true, Verdict: "accept"}},
		{"-m state --state ESTABLISHED -j ACCEPT", nft.RuleSummary{Established: true, Verdict: "accept"}},
		{"-m conntrack --ctstate NEW -j DROP", nft.RuleSummary{NewOnly: true, Verdict: "drop"}},
		{"-m comment --comment text -j DROP", nft.RuleSummary{MatchesAll: true, Verdict: "drop"}},
		{"-s 192.0.2.1 -j DROP", nft.RuleSummary{Verdict: "drop"}},
		{"-j ACCEPT", nft.RuleSummary{MatchesAll: true, Verdict: "accept"}},
	} {
		restore := "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT " + c.rule + "\nCOMMIT\n"
		if err := testenv.Load(t, n, restore, "iptables-nft-restore"); err != nil {
			t.Logf("%s: this machine cannot: %v", c.rule, err)
			continue
		}
		testenv.InNetns(t, n.Path(), func() error {
			chains, err := nft.SummarizeRuleset()
			i := slices.IndexFunc(chains, func(c nft.ChainSummary) bool { return c.Name == "INPUT" })
			if i < 0 || !reflect.DeepEqual(chains[i].Rules, []nft.RuleSummary{c.want}) {
				t.Errorf("%s is read as %+v, want %+v", c.rule, chains, c.want)
			}
			return err
		})
	}
}

// Legacy tables that are there are counted, and none is made by asking.
func TestLegacyTables(t *testing.T) {
	n := testenv.Netns(t)
	count := func() (tables []nft.LegacyTable) {
		testenv.InNetns(t, n.Path(), func() (err error) {
			tables, err = nft.LegacyTables()
			return err
		})
		return tables
	}
	before := count()
	rules := "*filter\n:INPUT ACCEPT [0:0]\n" + strings.Repeat("-A INPUT -s 192.0.2.1 -j DROP\n", 50) + "COMMIT\n"
	if err := testenv.Load(t, n, rules, "iptables-legacy-restore"); err != nil {
		t.Skipf("this kernel has no legacy iptables: %v", err)
	}
	if len(before) > 0 {
		t.Errorf("a namespace without rules has tables %+v", before)
	}
	// 50 rules, a policy for each of three chains, and the end of the table.
	if got, want := count(), []nft.LegacyTable{{Name: "filter", Entries: 54}}; !reflect.DeepEqual(got, want) {
		t.Errorf("tables %+v, want %+v", got, want)
	}
}
