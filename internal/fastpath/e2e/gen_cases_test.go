package e2e

// knownFlows are those of the cases below.
var knownFlows = []flow{{out: 100, in: 100}, {tos: 0x10, out: 100, in: 100}, {out: 100}}

// Places of the chains below.
var (
	onForward     = place{"{ip}", "forward", "0"}
	onPostrouting = place{"{ip}", "postrouting", "0"}
)

// knownCases are cases in which the fast path once let through what the network would not
// have: each of a production of the grammar, which comes upon it by chance as well.
var knownCases = []generated{
	{
		name: "a drop rule in a firewall namespace", flows: knownFlows, setup: []production{throughFirewall()},
		change: production{
			do:   `nsenter --net={fw} nft 'table {ip} gen1x{n} { chain c { type filter hook forward priority 0; {ip} saddr {pod} drop; }; }'`,
			undo: `nsenter --net={fw} nft delete table {ip} gen1x{n}`,
		},
	},
	{name: "a set whose elements have limits", flows: knownFlows, setup: []production{onlyOf("set s { type {ipv}_addr; limit rate 10/second burst 40 packets; elements = { {pod} }; }")}},
	{name: "a set whose elements have quotas", flows: knownFlows, setup: []production{onlyOf("set s { type {ipv}_addr; quota 12 kbytes; elements = { {pod} }; }")}},
	{name: "a set of which an element has a limit", flows: knownFlows, setup: []production{
		onlyOf("set s { type {ipv}_addr; limit rate 1000000/second; elements = { {pod} limit rate 10/second burst 40 packets }; }"),
	}},
	{
		name: "a rule for new connections fills a set", flows: knownFlows,
		setup: []production{fills(1, "", "", "ct state new", "add")}, change: production{knocks: true},
	},
	{
		name: "a route that runs a program", flows: knownFlows,
		setup: []production{{do: "ip {-4} route add {peer} via {hop} dev {out} onlink metric 5 " + lossyRoute, undo: "ip {-4} route del {peer} metric 5", approximate: true}},
	},
	{
		name: "a class of the wire by mark", flows: knownFlows, setup: []production{
			table("", 1, onForward, "", []string{"{ip} saddr {pod} meta mark set 7"}), slowClassOf("wire0", byMark7),
		},
	},
	{
		name: "a class of the wire by priority", flows: knownFlows, setup: []production{
			table("", 1, onPostrouting, "", []string{"{ip} saddr {pod} meta priority set 1:1"}), slowClassOf("wire0", ""),
		},
	},
	{
		name: "a connection gets a mark that a rule drops", flows: knownFlows, change: production{remarks: true},
		setup: []production{table("", 1, onForward, "", []string{"{ip} saddr {pod} ct mark 3 counter name hits drop"})},
	},
	{
		name: "a packet gets the mark of its connection, which a rule drops later", flows: knownFlows, change: production{remarks: true},
		setup: []production{
			table("", 1, place{"{ip}", "prerouting", "-150"}, "", []string{"{ip} saddr {pod} meta mark set ct mark"}),
			table("", 2, onForward, "", []string{"{ip} saddr {pod} meta mark 3 counter name hits drop"}),
		},
	},
	{
		name: "a rule for established flows changes the mark that another one drops", flows: knownFlows,
		setup: []production{table("", 1, onForward, "", []string{"{ip} saddr {pod} ct mark 3 counter name hits drop", "{ip} saddr {pod} ct packets > 40 ct mark set 3"})},
	},
	{name: "a class of the wire by TOS and by the device that packets came from", flows: knownFlows, setup: []production{slowClassOf("wire0", byPriority)}},
}

// onlyOf lets only those pass which a set named s does.
func onlyOf(set string) production {
	return table("", 1, onForward, set, []string{"{ip} saddr @s accept", "{ip} saddr {pod} meta l4proto udp drop"})
}
