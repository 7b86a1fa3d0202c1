package host_test

import (
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

func newNetns(t *testing.T) *netcfg.Namespace {
	t.Helper()
	w, err := netcfg.Owned(testenv.Claim(t))
	must(t, err)
	n, err := w.Create(w.Name("m1"))
	must(t, err)
	t.Cleanup(n.Close)
	return n
}

// Rules are read as whoever wrote them meant them.
func TestFilter(t *testing.T) {
	n := newNetns(t)
	for _, c := range []struct {
		rule string
		want host.FilterRule
	}{
		{"accept", host.FilterRule{MatchesAll: true, Verdict: "accept"}},
		{"counter drop comment \"all\"", host.FilterRule{MatchesAll: true, Verdict: "drop"}},
		{"jump other", host.FilterRule{MatchesAll: true, Verdict: "jump", TargetChain: "other"}},
		{"ip saddr 192.0.2.1 goto other", host.FilterRule{Verdict: "goto", TargetChain: "other"}},
		{"ct state established,related accept", host.FilterRule{Established: true, Verdict: "accept"}},
		{"ct state established accept", host.FilterRule{Established: true, Verdict: "accept"}},
		{"ct state vmap { established : accept, invalid : drop }", host.FilterRule{Established: true, Verdict: "other"}},
		{"ct state new jump other", host.FilterRule{NewOnly: true, Verdict: "jump", TargetChain: "other"}},
		{"ct state != established drop", host.FilterRule{Verdict: "drop"}},
		{"udp dport 4789 notrack", host.FilterRule{Verdict: "notrack", Ports: []int{4789}}},
		{"meta mark set 5", host.FilterRule{MatchesAll: true}},
		{"ip daddr 192.0.2.1 return", host.FilterRule{Verdict: "return"}},
		{"reject", host.FilterRule{MatchesAll: true, Verdict: "other"}},
	} {
		input := "flush ruleset\ntable ip t {\nchain other { }\nchain first {\ntype filter hook input priority 5\n" + c.rule + "\n}\n}\n"
		if _, err := n.Run(t.Context(), netcfg.Command{Args: []string{program(t, "nft"), "-f", "-"}, Env: os.Environ()}, input); err != nil {
			t.Errorf("%s: %v", c.rule, err)
			continue
		}
		testenv.InNetns(t, n.Path(), func() error {
			chains, err := host.Filter()
			i := slices.IndexFunc(chains, func(c host.FilterChain) bool { return c.Name == "first" })
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
			if !reflect.DeepEqual(got.Rules, []host.FilterRule{c.want}) {
				t.Errorf("%s is read as %+v, want %+v", c.rule, got.Rules, c.want)
			}
			return err
		})
	}
}

// So are those of iptables, which come wrapped.
func TestFilterOfIPTables(t *testing.T) {
	n := newNetns(t)
	for _, c := range []struct {
		rule string
		want host.FilterRule
	}{
		{"-m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT", host.FilterRule{Established: true, Verdict: "accept"}},
		{"-m state --state ESTABLISHED -j ACCEPT", host.FilterRule{Established: true, Verdict: "accept"}},
		{"-m conntrack --ctstate NEW -j DROP", host.FilterRule{NewOnly: true, Verdict: "drop"}},
		{"-m comment --comment text -j DROP", host.FilterRule{MatchesAll: true, Verdict: "drop"}},
		{"-s 192.0.2.1 -j DROP", host.FilterRule{Verdict: "drop"}},
		{"-j ACCEPT", host.FilterRule{MatchesAll: true, Verdict: "accept"}},
	} {
		restore := "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT " + c.rule + "\nCOMMIT\n"
		if _, err := n.Run(t.Context(), netcfg.Command{Args: []string{program(t, "iptables-nft-restore")}, Env: os.Environ()}, restore); err != nil {
			t.Logf("%s: this machine cannot: %v", c.rule, err)
			continue
		}
		testenv.InNetns(t, n.Path(), func() error {
			chains, err := host.Filter()
			i := slices.IndexFunc(chains, func(c host.FilterChain) bool { return c.Name == "INPUT" })
			if i < 0 || !reflect.DeepEqual(chains[i].Rules, []host.FilterRule{c.want}) {
				t.Errorf("%s is read as %+v, want %+v", c.rule, chains, c.want)
			}
			return err
		})
	}
}

// Legacy tables that are there are counted, and none is made by asking.
func TestLegacyTables(t *testing.T) {
	n := newNetns(t)
	count := func() (tables []host.LegacyTable) {
		testenv.InNetns(t, n.Path(), func() (err error) {
			tables, err = host.LegacyTables()
			return err
		})
		return tables
	}
	before := count()
	rules := "*filter\n:INPUT ACCEPT [0:0]\n" + strings.Repeat("-A INPUT -s 192.0.2.1 -j DROP\n", 50) + "COMMIT\n"
	if _, err := n.Run(t.Context(), netcfg.Command{Args: []string{program(t, "iptables-legacy-restore")}, Env: os.Environ()}, rules); err != nil {
		t.Skipf("this kernel has no legacy iptables: %v", err)
	}
	if len(before) > 0 {
		t.Errorf("a namespace without rules has tables %+v", before)
	}
	// 50 rules, a policy for each of three chains, and the end of the table.
	if got, want := count(), []host.LegacyTable{{Name: "filter", Entries: 54}}; !reflect.DeepEqual(got, want) {
		t.Errorf("tables %+v, want %+v", got, want)
	}
}

func program(t *testing.T, name string) string {
	t.Helper()
	file, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("there is no %s here", name)
	}
	return file
}
