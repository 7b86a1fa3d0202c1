package audit

import (
	"strings"

	"github.com/venturi-net/venturi/internal/nft"
	"github.com/venturi-net/venturi/internal/nlmsg"
)

// RuleCounters are rules that packets of established flows raise counters of, or are logged by, on
// the network's own path: they miss carried packets.
type RuleCounters struct {
	Number int    `json:"number"`
	First  string `json:"first,omitempty"` // that packets meet, as nft names it
}

// Chain names the chain of the first.
func (c RuleCounters) Chain() string {
	chain, _, _ := strings.Cut(c.First, " handle ")
	return chain
}

// String names the first, and says how many others there are.
func (c RuleCounters) String() string { return summarize(c.First, c.Number) }

// countingRules are rules that count or log.
type countingRules struct {
	set   map[string]bool
	names []string // each once, in the order in which packets meet them
}

func newCountingRules() countingRules { return countingRules{set: map[string]bool{}} }

func (c *countingRules) add(name string) {
	if !c.set[name] {
		c.set[name], c.names = true, append(c.names, name)
	}
}

func (c countingRules) counters() (all RuleCounters) {
	if len(c.names) > 0 {
		all = RuleCounters{len(c.names), c.names[0]}
	}
	return all
}

// iptablesTables are the tables of iptables, ip6tables and ebtables, which give each rule a counter.
var iptablesTables = map[string]bool{"filter": true, "mangle": true, "nat": true, "raw": true, "security": true, "broute": true}

// isOfIPTables reports whether a chain at a hook is one that iptables or ebtables makes.
func isOfIPTables(c nft.ChainSummary) bool {
	return (c.Family == "ip" || c.Family == "ip6" || c.Family == "bridge") && iptablesTables[c.Table] && (c.Name == strings.ToUpper(c.Hook) || c.Name == "BROUTING")
}

// noteCounter records a rule that counts or logs packets of the walk. A rule of iptables that does more
// than this has its counter because all have one.
func (w *chainWalker) noteCounter(c chainName, rule ruleEffect, message []byte) {
	if !rule.counts && !rule.logs || c.outer && w.ByDevice {
		return
	}
	counting := &w.counting
	if w.iptables[[2]string{c.family, c.table}] && !rule.logs && !rule.onlyMatches() {
		counting = &w.countingByIPTables
	}
	counting.add(ruleName(c, message))
}

// onlyMatches reports whether a rule does nothing to what it matches but count and log it.
func (e ruleEffect) onlyMatches() bool {
	return e.verdict == "" && !e.verdictMap && len(e.targets) == 0 && !e.acts && e.unproven == ""
}

// hasEffect reports whether a rule does something to packets.
func (e ruleEffect) hasEffect() bool {
	return e.acts || e.unproven != "" || e.verdict != "" || e.verdictMap || len(e.targets) > 0
}

// noteConsumption records a rule that matches no packet of an established flow, but counts all of them first: by their
// number it decides of others, which are slow, and whether these may begin a connection.
func (w *chainWalker) noteConsumption(c chainName, rule ruleEffect, message []byte) error {
	if rule.consumes == "" {
		return nil
	}
	inert, err := w.isInert(c, rule)
	if !inert && err == nil {
		w.differences = append(w.differences, ruleName(c, message)+": "+rule.consumes)
	}
	return err
}

// noteCounters takes what a walker has found.
func (a *RulesetAudit) noteCounters(w *chainWalker) {
	a.Counters, a.IPTablesCounters = w.counting.counters(), w.countingByIPTables.counters()
}

// countAt records that the rule counts packets which get there.
func (e *exprEvaluator) countAt(nlmsg.Map) { e.counts = e.counts || !e.neverMatches }

// logAt records that the rule logs packets which get there, or counts them in something that somebody
// has made to count.
func (e *exprEvaluator) logAt() { e.logs = e.logs || !e.neverMatches }
