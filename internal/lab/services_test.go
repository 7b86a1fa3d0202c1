package lab

import (
	"net/netip"
	"testing"
)

// The largest number of Services still has names and addresses of its own for
// each, and names that the kernel takes.
func TestServicesAreApart(t *testing.T) {
	const maxName = 28 // what iptables allows; nftables allows more
	seen := map[string]bool{}
	cluster, pods := netip.MustParsePrefix("10.96.0.0/12"), clusterPods
	for i := range MaxServices {
		s := makeService(i)
		for _, key := range []string{s.svc, s.sep, s.clusterIP.String(), s.endpoint.String()} {
			if seen[key] {
				t.Fatalf("Service %d: %s is taken", i, key)
			}
			seen[key] = true
		}
		if len(s.svc) > maxName || len(s.sep) > maxName {
			t.Fatalf("Service %d: chains %s and %s have too long names", i, s.svc, s.sep)
		}
		if !cluster.Contains(s.clusterIP.Addr()) || pods.Contains(s.endpoint.Addr()) {
			t.Fatalf("Service %d: %v and %v are in the wrong place", i, s.clusterIP, s.endpoint)
		}
	}
}

// Every chain that a rule jumps to is there, once.
func TestChains(t *testing.T) {
	for _, table := range []struct {
		name   string
		chains int
		rules  int
	}{
		{"nat", 7 + 2*3, 8 + 5*3},
		{"filter", 9, 15},
	} {
		got := filterTable()
		if table.name == "nat" {
			got = natTable(3)
		}
		rules, seen := 0, map[string]bool{}
		for _, c := range got.Chains {
			if seen[c.Name] {
				t.Errorf("%s: chain %s is there twice", table.name, c.Name)
			}
			seen[c.Name] = true
			rules += len(c.Rules)
		}
		if got.Name != table.name || len(got.Chains) != table.chains || rules != table.rules {
			t.Errorf("%s: %d chains, %d rules, want %d and %d", got.Name, len(got.Chains), rules, table.chains, table.rules)
		}
	}
}
