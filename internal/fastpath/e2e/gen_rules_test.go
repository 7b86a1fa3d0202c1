package e2e

import (
	"fmt"
	"strings"
)

// What rules match by that all packets of a flow have in common. A jhash without a seed takes
// another one in each rule.
var steadyMatch = []string{
	"", "", "meta l4proto udp", "ct state established,related", "ct state new,established", "ct direction original", "ct state new",
	"{ip} {protocol} udp", "meta mark 0", "udp sport 1024-65535", "udp dport {dport}", "fib daddr type unicast", "{ip} saddr {pods}",
	"{ip} daddr != {elsewhere}", "ct status confirmed", "ct protocol udp", "jhash {ip} {protocol} mod 4 seed 1 < 3", "tcp flags syn", "tcp dport 1-65535", "iifname != lo",
	"ct mark 0", "ct mark != 5", "ct mark & 0xff == 3", "ct state new limit rate 10/second burst 40 packets", "ct state new ct count over 100", "meta mark & 0xff != 3",
	"ct state invalid", "meta protocol {ip}", "{ip} version {version}", "{ip} saddr . udp dport != { {stranger} . 53 }", "rt classid != 9",
}

// What rules match by that each packet has for itself. The flows of a case send in turn: how many
// they are must not divide numgen's modulus, or the rule judges by flow, and by who came first.
var packetMatch = []string{
	"{ip} length < 200", "meta length < 120", "{ip} dscp cs1", "{ip} dscp 0x04", "{ip} {ttl} > 3", "{ip} {id} 0", "ct bytes > 9000",
	"ct packets > 60", "numgen inc mod 7 == 0", "numgen random mod 4 == 0", "meta random < 1000000000", "@th,64,8 7", "udp length < 150",
	"limit rate 10/second burst 40 packets", "limit rate over 10/second burst 40 packets", "quota 12 kbytes", "quota over 12 kbytes",
	"meta priority 0:6", "ct expiration > 60", "ct count over 100", "ct avgpkt > 40",
}

// inexact are words of matches which judge by time or chance.
var inexact = []string{"numgen random", "meta random", "limit", "numgen inc", "ct expiration"}

func isInexact(text string) bool {
	for _, word := range inexact {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}

// place is where a chain is.
type place struct{ family, hook, priority string }

func (g *grammar) place() place {
	return choose(g,
		place{"{ip}", "forward", "0"}, place{"{ip}", "forward", "0"}, place{"{ip}", "forward", "-150"}, place{"inet", "forward", "10"},
		place{"{ip}", "prerouting", "-150"}, place{"{ip}", "prerouting", "-300"}, place{"{ip}", "postrouting", "100"}, place{"inet", "postrouting", "-150"},
	)
}

// scope is whose packets a rule is for: those of the path's own pods alone, so that
// paths in one machine do not use up each other's limits.
func (g *grammar) scope() string {
	return choose(g, "{ip} saddr {pod} {ip} daddr {peer}", "{ip} saddr {peer} {ip} daddr {pod}", "{ip} saddr {pod}", "{ip} daddr {pod}")
}

// ruleset is a table of rules of which most are harmless.
func (g *grammar) ruleset() production {
	k, at := g.next(), g.place()
	var rules []string
	for range 1 + g.IntN(3) {
		rules = append(rules, g.rule(at))
	}
	if g.chance(1, 7) {
		rules = append(rules, g.judgement()...)
	}
	return table(fmt.Sprintf("rules at %s %s", at.hook, at.priority), k, at, "", rules)
}

// rule is one that lets everything pass.
func (g *grammar) rule(at place) string {
	words := []string{g.scope(), choose(g, steadyMatch...)}
	if g.chance(1, 12) {
		words = append(words, choose(g, packetMatch...))
	}
	if g.chance(1, 15) {
		return strings.Join(append(words, "meta priority set 1:1{n}"), " ")
	}
	words = append(words, choose(g, "counter", "counter name hits", "counter accept", "accept", "meta mark set 7", "meta mark set meta mark | 2", "ct mark set 3", "meta mark set ct mark", "ct mark set meta mark", "ct state new ct mark set 3", "return", "jump more", "continue"))
	if at.hook == "prerouting" && at.priority == "-300" && g.chance(1, 2) {
		words[len(words)-1] = "notrack"
	}
	return strings.Join(words, " ")
}

// judgement are rules that drop some packets of a flow, or all but some.
func (g *grammar) judgement() []string {
	scope, match := g.scope(), choose(g, packetMatch...)
	if g.chance(1, 2) {
		return []string{scope + " " + match + " drop"}
	}
	return []string{scope + " " + match + " accept", scope + " meta l4proto udp drop"}
}

// marks are rules as they come together: packets get the mark of their connection, which some of them
// set, and something depends on it.
func (g *grammar) marks() production {
	k, scope := g.next(), g.scope()
	rules := []string{scope + " meta mark set ct mark"}
	if g.chance(1, 2) {
		rules = append(rules, scope+" meta mark != 0 accept")
	}
	set := choose(g, "ct state new ", "ct state new ", "", "ct direction reply ") + "meta mark set " + choose(g, "3", "7", "meta mark | 8")
	rules = append(rules, scope+" "+set, scope+" "+choose(g, "ct state new ", "")+"ct mark set meta mark")
	if g.chance(1, 3) {
		rules = append(rules, scope+" meta l4proto udp "+choose(g, "ct mark 3", "meta mark 7", "ct mark & 8 == 8", "meta mark 0")+" drop")
	}
	return table("marks of connections", k, g.place(), "", rules)
}

// generatedMark is the mark that connections get from outside.
const generatedMark = 3

// remark gives the machine's connections another mark.
func (g *grammar) remark() production {
	return production{name: "connections get a mark", remarks: true}
}

// table is a table of one chain, of which each path has its own.
func table(name string, k int, at place, sets string, rules []string) production {
	text := strings.Join(rules, "\n")
	return production{
		name: name,
		do: fmt.Sprintf(`nft 'table %s gen%dx{n} {
			%s
			counter hits { }
			chain more { counter; }
			chain c { type filter hook %s priority %s;
				%s
			}; }'`, at.family, k, sets, at.hook, at.priority, text),
		undo:        fmt.Sprintf("nft delete table %s gen%dx{n}", at.family, k),
		approximate: isInexact(text) || isInexact(sets),
	}
}

// deny is a rule which drops what was delivered so far.
func (g *grammar) deny() production {
	k, at := g.next(), g.place()
	return table(fmt.Sprintf("deny at %s %s", at.hook, at.priority), k, at, "", []string{g.scope() + " " + choose(g, "", "udp dport {dport}", "meta l4proto udp", "{ip} dscp 0x04") + " counter name hits drop"})
}
