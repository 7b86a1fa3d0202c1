package audit_test

import (
	"fmt"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
)

// jumpTo is a rule that jumps to a chain, behind other expressions.
func jumpTo(chain string, first ...*nl.RtAttr) []byte {
	code := int32(unix.NFT_JUMP)
	jump := expression("immediate", number(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT), nestedAttr(unix.NFTA_IMMEDIATE_DATA,
		nestedAttr(unix.NFTA_DATA_VERDICT, number(unix.NFTA_VERDICT_CODE, uint32(code)), text(unix.NFTA_VERDICT_CHAIN, chain))))
	return filterMessage(nestedAttr(unix.NFTA_RULE_EXPRESSIONS, append(first, jump)...))
}

// To find out what a rule leads to, each rule behind it is visited once, by however many ways it can be
// reached: here there are 10 to the power of 15.
func TestSharedChains(t *testing.T) {
	const depth, jumps = 15, 10
	name := func(level int) string { return fmt.Sprint("level", level) }
	rules := map[string][][]byte{
		"first":     {jumpTo(name(0), expression("limit"))},
		name(depth): {filterMessage(nestedAttr(unix.NFTA_RULE_EXPRESSIONS, expression("counter")))},
	}
	for level := range depth {
		for range jumps {
			rules[name(level)] = append(rules[name(level)], jumpTo(name(level+1)))
		}
	}
	const all = 1 + depth*jumps + 1
	if got, err := audit.RulesVisited(rules, "first", all); err != nil || got != all {
		t.Fatalf("rules were visited %d times or more, want %d (%v)", got, all, err)
	}
	if got, err := audit.FindingOf(rules, "first"); err != nil || got != "" {
		t.Errorf("rules that only count: %q, %v", got, err)
	}
	rules[name(depth)] = append(rules[name(depth)], filterMessage(nestedAttr(unix.NFTA_RULE_EXPRESSIONS, expression("notrack"))))
	if got, err := audit.FindingOf(rules, "first"); err != nil || got != "ip t first: limit" {
		t.Errorf("with one that does more: %q, %v", got, err)
	}
}

// Chains that seem to lead back to themselves, because they change while they are read, end no walk.
func TestChainsInCircles(t *testing.T) {
	rules := map[string][][]byte{"first": {jumpTo("a", expression("limit"))}, "a": {jumpTo("b")}, "b": {jumpTo("a")}}
	if got, err := audit.FindingOf(rules, "first"); err != nil || got != "ip t first: limit" {
		t.Errorf("chains in a circle: %q, %v", got, err)
	}
}
