package audit

import (
	"cmp"
	"time"

	"github.com/venturi-net/venturi/internal/nft"
	"github.com/venturi-net/venturi/internal/nlmsg"
)

// RuleOf returns why the rule in a message treats packets of a flow differently.
func RuleOf(message []byte) (perPacket string, err error) {
	rule, err := newWalker(Overlay{}).read(chainOf("c"), markState{reached: true}, message)
	return cmp.Or(rule.unproven, rule.perPacket), err
}

// Matches reports whether packets match the rule of a message in a chain of a family: some may, all do.
func Matches(family string, message []byte) (some, all bool, err error) {
	c := chainOf("c")
	c.family = family
	rule, err := newWalker(Overlay{}).read(c, markState{reached: true}, message)
	return !rule.neverMatches, rule.alwaysMatches, err
}

// TunnelRuleOf does so for a rule that packets of a tunnel meet; matches: some of them may match it.
func TunnelRuleOf(of Overlay, message []byte) (perPacket string, matches bool, err error) {
	c := chainOf("c")
	c.outer = true
	rule, err := newWalker(of).read(c, markState{reached: true}, message)
	return cmp.Or(rule.unproven, rule.perPacket), !rule.neverMatches, err
}

// UntrackedRuleOf does so for a rule that pods' packets to the tunnel's port meet, which are not tracked.
func UntrackedRuleOf(of Overlay, message []byte) (perPacket string, matches bool, err error) {
	w := newWalker(of)
	w.stateless, w.toTunnel = true, true
	rule, err := w.read(chainOf("c"), markState{reached: true}, message)
	return cmp.Or(rule.unproven, rule.perPacket), !rule.neverMatches, err
}

// IPSetReadsSource reports whether a match with an ipset of a kind asks for a MAC or the source port.
func IPSetReadsSource(kind string, info []byte, revision int) bool {
	return ipset{kind: kind}.readsSource(info, revision)
}

// SetOf does so for a set.
func SetOf(message []byte) (perPacket string, err error) {
	attrs, _, err := nft.FilterAttrs(message)
	s := &filterSet{}
	s.auditHead("s", attrs)
	return s.perPacket, err
}

// ElementOf does so for an element of a set.
func ElementOf(message []byte) (perPacket string, err error) {
	_, perPacket, err = readElement(message)
	return perPacket, err
}

// ElementConsumes reports whether an element decides by what it counts.
func ElementConsumes(message []byte) bool {
	e, _, _ := readElement(message)
	return e.consumes
}

// Parsers are all that read a message of the kernel.
var Parsers = map[string]func(message []byte){
	"bridge":  func(m []byte) { BridgeAsks(m, IPv4) },
	"rule":    func(m []byte) { _, _ = RuleOf(m) },
	"scan":    func(m []byte) { _ = newWalker(Overlay{}).scanRule(m) },
	"set":     func(m []byte) { _, _ = SetOf(m) },
	"element": func(m []byte) { _, _ = ElementOf(m) },
	"chain":   func(m []byte) { _, _, _, _ = readBase(m) },
	"ipset":   func(m []byte) { _, _, _ = readIPSet(m) },
	"verdict": func(m []byte) { _, _, _ = verdictOf(m) },
}

// Rested lets the poller look again at once.
func (p *IPSetPoller) Rested() { p.next = time.Time{} }

// FlowtableOf names the flowtable of a message for packets of a family.
func FlowtableOf(message []byte, of Family) (string, error) { return flowtableOf(message, of) }

// RulesVisited counts the visits of rules in one walk through what the rules of a chain may jump to, and
// ends the walk when there are more than some. Rules are given by their chain.
func RulesVisited(rules map[string][][]byte, first string, most int) (visits int, err error) {
	w, known := walkerOf(rules), map[chainName]bool{}
	var visit func(c chainName, rule ruleEffect) (bool, error)
	visit = func(c chainName, rule ruleEffect) (bool, error) {
		if visits++; visits > most {
			return false, nil
		}
		return w.everyTarget(c, rule, known, visit)
	}
	_, err = w.everyRule(chainOf(first), visit)
	return visits, err
}

// FindingOf audits the rules that packets meet from a chain on.
func FindingOf(rules map[string][][]byte, first string) (string, error) {
	w := walkerOf(rules)
	err := w.walkAll([]baseChain{{chainName: chainOf(first)}})
	return w.summary(), err
}

func chainOf(name string) chainName { return chainName{family: "ip", table: "t", chain: name} }

// walkerOf is a walker that has read some rules, and reads no others of these chains.
func walkerOf(rules map[string][][]byte) *chainWalker {
	w := newWalker(Overlay{})
	for chain, messages := range rules {
		w.chains[[3]string{"ip", "t", chain}] = messages
	}
	return w
}

// PollerOf is a poller of one hook, with a socket to who answers for the kernel.
func PollerOf(fd int) *HookPoller {
	return &HookPoller{querier: nlmsg.NewQuerier(fd), points: hookPoints(IPv4)[:1], unknown: map[hookPoint]string{}}
}

// ListsService tells whether a list of services of IPVS has any.
var ListsService = listsService
