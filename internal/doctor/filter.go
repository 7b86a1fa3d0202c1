package doctor

import (
	"fmt"
	"maps"
	"slices"

	"github.com/venturi-net/venturi/internal/nft"
)

const (
	manyRules    = 100  // that every packet walks
	manyNATRules = 1000 // that the first packet of every connection walks
)

var filterLongChain = Rule{
	Facts: Facts{
		Code:     "filter-long-chain",
		Title:    "Every packet walks many netfilter rules",
		Severity: Warning,
		Looks:    "nftables, and iptables-nft: for each hook, the rules that a packet of a known connection is compared with before one accepts it: 100 or more. iptables-legacy: 100 or more rules in a table other than nat",
		Effect:   Impact{"cost grows with the rules, O(n); sets, maps or an early rule for established connections make it O(1). EKS advises it above 1000 Services", "Kubernetes and EKS on kube-proxy's modes; TKE saw no gain at small scale", "D"},
		Knob:     "nft.flowtable",
		Do:       "accept established connections in the first rule (ct state established,related accept), or put addresses and ports into sets; a flow table lets forwarded connections bypass it, and later hooks too",
	},
	Check: func(v *View) (all []Finding) {
		for _, s := range v.Netns {
			var found []Evidence
			for _, c := range s.Chains {
				if !seesIP(c) || c.Type == "nat" {
					continue
				}
				if n := s.walked(c); n >= manyRules {
					found = append(found, Evidence{fmt.Sprintf("nftables chain %s %s %s", c.Family, c.Table, c.Name), fmt.Sprintf("%d rules for a packet of a known connection (hook %s)", n, c.Hook)})
				}
			}
			for _, t := range s.Legacy {
				if t.Name != "nat" && t.Entries >= manyRules {
					found = append(found, Evidence{"legacy iptables, table " + t.Name, fmt.Sprintf("%d rules; how many a packet walks is not told", t.Entries)})
				}
			}
			if len(found) > 0 {
				all = append(all, finding(s, nil, found...))
			}
		}
		return all
	},
}

var filterLongNAT = Rule{
	Facts: Facts{
		Code:     "filter-long-nat",
		Title:    "The first packet of every connection walks many netfilter rules",
		Severity: Note,
		Looks:    "chains of type nat: a new connection is compared with 1000 rules or more, as with kube-proxy in iptables mode. iptables-legacy: 1000 or more rules in table nat",
		Effect:   Impact{"latency of new connections grows with the number of Services; Cilium is ahead from 20,000 Services on, iptables below", "TKE benchmark, EKS", "D"},
		Do:       "kube-proxy's modes nftables and ipvs, and eBPF replacements, look Services up in maps",
	},
	Check: func(v *View) (all []Finding) {
		for _, s := range v.Netns {
			var found []Evidence
			for _, c := range s.Chains {
				if !seesIP(c) || c.Type != "nat" {
					continue
				}
				if n := s.walked(c); n >= manyNATRules {
					found = append(found, Evidence{fmt.Sprintf("nftables chain %s %s %s", c.Family, c.Table, c.Name), fmt.Sprintf("%d rules for the first packet (hook %s)", n, c.Hook)})
				}
			}
			for _, t := range s.Legacy {
				if t.Name == "nat" && t.Entries >= manyNATRules {
					found = append(found, Evidence{"legacy iptables, table nat", fmt.Sprintf("%d rules", t.Entries)})
				}
			}
			if len(found) > 0 {
				all = append(all, finding(s, nil, found...))
			}
		}
		return all
	},
}

// seesIP tells whether packets of IP enter at a chain.
func seesIP(c nft.ChainSummary) bool {
	return c.Hook != "" && c.Hook != "other" && slices.Contains([]string{"ip", "ip6", "inet", "bridge"}, c.Family)
}

// walked is how many rules an average packet is compared with in a chain and
// those that it is always sent on to.
func (s *Netns) walked(c nft.ChainSummary) int {
	w := walk{netns: s, family: c.Family, table: c.Table, nat: c.Type == "nat"}
	n, _ := w.chain(c.Rules, 0)
	return n
}

// walk follows a packet through chains. What a rule with conditions does is
// taken as not done, but for those that let known connections pass.
type walk struct {
	netns         *Netns
	family, table string
	nat           bool // the packet is the first of its connection
}

// deepest is how many chains the kernel lets call each other.
const deepest = 16

func (w walk) chain(rules []nft.RuleSummary, depth int) (n int, ended bool) {
	for _, r := range rules {
		n++
		if !w.nat && (r.Established && r.Verdict != "" || r.Verdict == "offload") && r.Verdict != "return" && r.TargetChain == "" {
			return n, true
		}
		if !r.MatchesAll {
			continue
		}
		switch r.Verdict {
		case "accept", "drop", "other":
			return n, true
		case "return":
			return n, false
		case "jump", "goto":
			more, over := w.jump(r.TargetChain, depth)
			n += more
			if over || r.Verdict == "goto" {
				return n, over
			}
		}
	}
	return n, false
}

func (w walk) jump(name string, depth int) (n int, ended bool) {
	if depth >= deepest {
		return 0, false
	}
	for _, c := range w.netns.Chains {
		if c.Family == w.family && c.Table == w.table && c.Name == name {
			return w.chain(c.Rules, depth+1)
		}
	}
	return 0, false
}

var bridgeNFLongChain = Rule{
	Facts: Facts{
		Code:     "bridge-nf-long-chain",
		Title:    "Packets between ports of a bridge walk a long iptables chain",
		Severity: Warning,
		Looks:    "sysctl net.bridge.bridge-nf-call-iptables, bridges with two ports or more, and chains of 100 rules or more for IPv4",
		Effect:   Impact{"what a bridge could forward alone goes through the IP rules, and again where it is routed", "kernel documentation of br_netfilter; no isolated number was found", "C"},
		Knob:     "net.bridge_nf",
		Do:       "leave it on where Services or policies must hold between pods on one bridge, as most clusters need; shorten the chain instead",
	},
	Check: func(v *View) (all []Finding) {
		for _, s := range v.Netns {
			bridge := s.busyBridge()
			if bridge == "" || s.Sysctls["net.bridge.bridge-nf-call-iptables"] != "1" {
				continue
			}
			most := 0
			for _, c := range s.Chains {
				if seesIP(c) && c.Family != "ip6" && c.Family != "bridge" && c.Type != "nat" && (c.Hook == "forward" || c.Hook == "prerouting" || c.Hook == "postrouting") {
					most = max(most, s.walked(c))
				}
			}
			for _, t := range s.Legacy {
				if t.Name != "nat" {
					most = max(most, t.Entries)
				}
			}
			if most >= manyRules {
				all = append(all, finding(s, nil, sysctl("net.bridge.bridge-nf-call-iptables", s.Sysctls),
					Evidence{"bridge", bridge}, Evidence{"longest chain", fmt.Sprintf("%d rules", most)}))
			}
		}
		return all
	},
}

// busyBridge names a bridge that joins at least two devices; empty: there is none.
func (s *Netns) busyBridge() string {
	ports := map[int]int{}
	for _, d := range s.Devices {
		if m := s.device(d.Master); m != nil && m.Kind == "bridge" {
			ports[d.Master]++
		}
	}
	for _, index := range slices.Sorted(maps.Keys(ports)) {
		if ports[index] > 1 {
			return s.device(index).Name
		}
	}
	return ""
}
