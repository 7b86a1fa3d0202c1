package host

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/nft"
	"github.com/venturi-net/venturi/internal/nlmsg"
)

// netfilterState is what the packet filter of one namespace holds.
type netfilterState struct {
	rules     int
	wrapped   int // of the rules, those with extensions of iptables
	conntrack bool
}

// netfilter reads the packet filter of the calling thread's namespace: how
// many nftables rules it holds (iptables-nft writes such too), and whether
// connections are tracked. The kernel does not tell the latter in one place:
// tracking starts when something asks for it, so a rule that looks at
// connections or translates addresses, an old nat table, or a connection that
// is being tracked each show it.
func (r Reader) netfilter() (netfilterState, error) {
	var s netfilterState
	if n, _ := strconv.Atoi(r.line("proc/sys/net/netfilter/nf_conntrack_count")); n > 0 {
		s.conntrack = true
	}
	for _, table := range strings.Fields(r.line(nft.LegacyTablesFile)) {
		if table == "nat" {
			s.conntrack = true
		}
	}
	rules, err := ruleExpressions()
	if err != nil {
		return s, err
	}
	s.rules = len(rules)
	for _, names := range rules {
		s.conntrack = s.conntrack || tracks(names)
		if slices.ContainsFunc(names, isWrapper) {
			s.wrapped++
		}
	}
	return s, nil
}

// isWrapper tells "match" and "target", which wrap extensions of iptables. Which
// one it is follows the slash.
func isWrapper(name string) bool {
	kind, _, found := strings.Cut(name, "/")
	return found && (kind == "match" || kind == "target")
}

// tracks tells whether a rule made of these expressions needs connection
// tracking.
func tracks(expressions []string) bool {
	for _, name := range expressions {
		switch name {
		case "ct", "nat", "masq", "redir", "match/conntrack", "match/state",
			"target/MASQUERADE", "target/DNAT", "target/SNAT", "target/REDIRECT", "target/CONNMARK":
			return true
		}
	}
	return false
}

// ruleExpressions dumps all nftables rules, each as the names of its
// expressions. The dump is read raw: the rules are counted, not understood.
func ruleExpressions() ([][]string, error) {
	messages, err := nft.DumpFilter(unix.NFT_MSG_GETRULE)
	if err != nil {
		return nil, fmt.Errorf("dump nftables rules: %w", err)
	}
	rules := make([][]string, 0, len(messages))
	for _, m := range messages {
		names, err := expressionNames(m)
		if err != nil {
			return nil, fmt.Errorf("parse nftables rule: %w", err)
		}
		rules = append(rules, names)
	}
	return rules, nil
}

// expressionNames reads the message of one rule.
func expressionNames(message []byte) ([]string, error) {
	attrs, _, err := nft.FilterAttrs(message)
	if err != nil {
		return nil, err
	}
	elems, err := nl.ParseRouteAttr(nlmsg.ByNumber(attrs)[unix.NFTA_RULE_EXPRESSIONS])
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range elems {
		name, err := expressionName(e.Value)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// extensionName is NFTA_MATCH_NAME and NFTA_TARGET_NAME, which are the same number.
const extensionName = 1

func expressionName(elem []byte) (string, error) {
	name, data, err := nft.ExpressionData(elem)
	if name == "match" || name == "target" {
		name += "/" + data.Text(extensionName)
	}
	return name, err
}
