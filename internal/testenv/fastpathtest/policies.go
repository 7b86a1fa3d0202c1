package fastpathtest

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

// PolicyEngine writes rules for a pod on a node as the engine of a network policy does. The policy
// admits clients that are in a set to the pod, and everything that the pod sends.
type PolicyEngine struct {
	Name      string
	Program   []string                                   // that loads the rules from its input
	Rules     func(pod netip.Addr, device string) string // while the policy is in force
	Cut       func(pod netip.Addr, device string) string // when the pod is cut off, established flows included
	ClientSet string                                     // set of the clients that the policy admits
	IPSets    map[string]string                          // ipsets that the rules use, with their kinds; empty: they use sets of nftables
}

// PolicyEngines are Calico's Felix with iptables, in both of its ways to let established flows go on, and with
// nftables, and kube-router with iptables and nftables.
func PolicyEngines() []PolicyEngine {
	felix := func(render func(Felix) string, returns, disabled bool) func(netip.Addr, string) string {
		return func(_ netip.Addr, device string) string {
			return render(Felix{Prefix: "veth", Returns: returns, Port: 7777, Pods: []FelixPod{{device, true, disabled}}})
		}
	}
	router := func(first string) func(netip.Addr, string) string {
		return func(pod netip.Addr, _ string) string { return kubeRouterRules(pod, first) }
	}
	routerNFT := func(first string) func(netip.Addr, string) string {
		return func(pod netip.Addr, _ string) string { return kubeRouterTables(pod, first) }
	}
	return []PolicyEngine{
		{"Felix", []string{"iptables-nft-restore"}, felix(Felix.Rules, false, false), felix(Felix.Rules, false, true), FelixClients, FelixSets},
		{"Felix that returns", []string{"iptables-nft-restore"}, felix(Felix.Rules, true, false), felix(Felix.Rules, true, true), FelixClients, FelixSets},
		{"Felix with nftables", []string{"nft", "-f", "-"}, felix(Felix.Table, false, false), felix(Felix.Table, false, true), FelixTableClients, nil},
		{"kube-router", []string{"iptables-nft-restore"}, router(""), router("-A KUBE-ROUTER-FORWARD -d POD -j REJECT\n"), "KUBE-SRC-CLIENTS", kubeRouterSets},
		{"kube-router with nftables", []string{"nft", "-f", "-"}, routerNFT(""), routerNFT("ip daddr POD reject\n"), "ip kube-router KUBE-SRC-CLIENTS", nil},
	}
}

// Load loads rules on a node.
func (e PolicyEngine) Load(t testing.TB, n *netcfg.Namespace, rules string) {
	t.Helper()
	testenv.Must(t, testenv.Load(t, n, rules, e.Program[0], e.Program[1:]...))
}

var kubeRouterSets = map[string]string{"KUBE-SRC-CLIENTS": "hash:ip", "KUBE-DST-WEB": "hash:ip"}

// kubeRouterRules are the rules of kube-router with iptables, of the marks 0x10000 (a policy matches)
// and 0x20000 (policies are satisfied).
func kubeRouterRules(pod netip.Addr, first string) string {
	return strings.ReplaceAll(`*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:KUBE-ROUTER-INPUT - [0:0]
:KUBE-ROUTER-FORWARD - [0:0]
:KUBE-ROUTER-OUTPUT - [0:0]
:KUBE-NWPLCY-TAIL - [0:0]
:KUBE-NWPLCY-COMMON - [0:0]
:KUBE-NWPLCY-DEFAULT - [0:0]
:KUBE-NWPLCY-WEB - [0:0]
:KUBE-POD-FW-WEB - [0:0]
-A INPUT -m comment --comment "kube-router netpol" -j KUBE-ROUTER-INPUT
-A FORWARD -m comment --comment "kube-router netpol" -j KUBE-ROUTER-FORWARD
-A OUTPUT -m comment --comment "kube-router netpol" -j KUBE-ROUTER-OUTPUT
-A KUBE-ROUTER-INPUT -d 10.96.0.0/12 -m comment --comment "allow traffic to primary/secondary cluster IP range" -j RETURN
-A KUBE-ROUTER-INPUT -p tcp -m comment --comment "allow LOCAL TCP traffic to node ports" -m addrtype --dst-type LOCAL -m multiport --dports 30000:32767 -j RETURN
-A KUBE-ROUTER-INPUT -p udp -m comment --comment "allow LOCAL UDP traffic to node ports" -m addrtype --dst-type LOCAL -m multiport --dports 30000:32767 -j RETURN
-A KUBE-ROUTER-INPUT -s POD -m comment --comment "rule to jump traffic from POD" -j KUBE-POD-FW-WEB
-A KUBE-ROUTER-OUTPUT -d POD -m comment --comment "rule to jump traffic destined to POD" -j KUBE-POD-FW-WEB
-A KUBE-ROUTER-OUTPUT -s POD -m comment --comment "rule to jump traffic from POD" -j KUBE-POD-FW-WEB
`+first+`-A KUBE-ROUTER-FORWARD -d POD -m comment --comment "rule to jump traffic destined to POD" -j KUBE-POD-FW-WEB
-A KUBE-ROUTER-FORWARD -d POD -m physdev --physdev-is-bridged -j KUBE-POD-FW-WEB
-A KUBE-ROUTER-FORWARD -s POD -m comment --comment "rule to jump traffic from POD" -j KUBE-POD-FW-WEB
-A KUBE-ROUTER-FORWARD -s POD -m physdev --physdev-is-bridged -j KUBE-POD-FW-WEB
-A KUBE-ROUTER-INPUT -m comment --comment "rule to explicitly handle traffic for network policies ACCEPT/REJECT decision" -j KUBE-NWPLCY-TAIL
-A INPUT -m comment --comment "rule to explicitly ACCEPT traffic that comply to network policies" -m mark --mark 0x20000/0x20000 -j ACCEPT
-A KUBE-ROUTER-FORWARD -m comment --comment "rule to explicitly handle traffic for network policies ACCEPT/REJECT decision" -j KUBE-NWPLCY-TAIL
-A FORWARD -m comment --comment "rule to explicitly ACCEPT traffic that comply to network policies" -m mark --mark 0x20000/0x20000 -j ACCEPT
-A KUBE-ROUTER-OUTPUT -m comment --comment "rule to explicitly handle traffic for network policies ACCEPT/REJECT decision" -j KUBE-NWPLCY-TAIL
-A OUTPUT -m comment --comment "rule to explicitly ACCEPT traffic that comply to network policies" -m mark --mark 0x20000/0x20000 -j ACCEPT
-A KUBE-NWPLCY-TAIL -m comment --comment "accept netpol-ok" -m mark --mark 0x20000/0x20000 -j ACCEPT
-A KUBE-NWPLCY-COMMON -m comment --comment "rule to drop invalid state" -m conntrack --ctstate INVALID -j DROP
-A KUBE-NWPLCY-COMMON -m comment --comment "rule for stateful firewall" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A KUBE-NWPLCY-COMMON -p icmp -m comment --comment "allow icmp echo requests" -m icmp --icmp-type 8 -j ACCEPT
-A KUBE-NWPLCY-DEFAULT -m comment --comment "rule to mark traffic matching a network policy" -j MARK --set-xmark 0x10000/0x10000
-A KUBE-NWPLCY-WEB -p udp -m set --match-set KUBE-SRC-CLIENTS src -m set ! --match-set KUBE-DST-WEB dst -j MARK --set-xmark 0x10000/0x10000
-A KUBE-NWPLCY-WEB -p udp -m set --match-set KUBE-SRC-CLIENTS src -m set ! --match-set KUBE-DST-WEB dst -m mark --mark 0x10000/0x10000 -j RETURN
-A KUBE-POD-FW-WEB -m comment --comment "common netpol rules" -j KUBE-NWPLCY-COMMON
-A KUBE-POD-FW-WEB -d POD -m comment --comment "from local node" -m addrtype --src-type LOCAL -j ACCEPT
-A KUBE-POD-FW-WEB -s POD -m comment --comment "default egress" -j KUBE-NWPLCY-DEFAULT
-A KUBE-POD-FW-WEB -d POD -m comment --comment "run through nw policy" -j KUBE-NWPLCY-WEB
-A KUBE-POD-FW-WEB -m comment --comment "rule to log dropped traffic" -m mark ! --mark 0x10000/0x10000 -m limit --limit 10/min --limit-burst 10 -j NFLOG --nflog-group 100
-A KUBE-POD-FW-WEB -m comment --comment "rule to REJECT traffic" -m mark ! --mark 0x10000/0x10000 -j REJECT --reject-with icmp-port-unreachable
-A KUBE-POD-FW-WEB -j MARK --set-xmark 0x0/0x10000
-A KUBE-POD-FW-WEB -m comment --comment "set mark to ACCEPT traffic that comply to network policies" -j MARK --set-xmark 0x20000/0x20000
COMMIT
`, "POD", pod.String())
}

// kubeRouterTables are those of kube-router with nftables.
func kubeRouterTables(pod netip.Addr, first string) string {
	return strings.ReplaceAll(`table ip kube-router
delete table ip kube-router
table ip kube-router {
	set KUBE-SRC-CLIENTS { type ipv4_addr; }
	chain KUBE-NWPLCY-COMMON {
		ct state invalid counter drop
		ct state established,related counter accept
		icmp type echo-request counter accept
	}
	chain KUBE-NWPLCY-DEFAULT { counter meta mark set meta mark or 0x10000; }
	chain KUBE-NWPLCY-WEB { ip saddr @KUBE-SRC-CLIENTS meta l4proto udp counter meta mark set meta mark or 0x10000 return; }
	chain KUBE-POD-FW-WEB {
		counter jump KUBE-NWPLCY-COMMON
		fib saddr type local ip daddr POD counter accept
		ip saddr POD counter jump KUBE-NWPLCY-DEFAULT
		ip daddr POD counter jump KUBE-NWPLCY-WEB
		meta mark and 0x10000 == 0x0 limit rate 10/minute burst 10 packets log group 100
		meta mark and 0x10000 == 0x0 counter reject
		meta mark set meta mark and 0xfffeffff
		meta mark set meta mark or 0x20000
	}
	chain KUBE-NWPLCY-TAIL { meta mark and 0x20000 == 0x20000 counter accept; }
	chain KUBE-ROUTER-INPUT { type filter hook input priority 0;
		ip daddr 10.96.0.0/12 counter return
		meta l4proto tcp fib daddr type local tcp dport 30000-32767 counter return
		meta l4proto udp fib daddr type local udp dport 30000-32767 counter return
		ip saddr POD counter jump KUBE-POD-FW-WEB
		counter jump KUBE-NWPLCY-TAIL
		meta mark and 0x20000 == 0x20000 counter accept
	}
	chain KUBE-ROUTER-FORWARD { type filter hook forward priority 0;
		`+first+`ip daddr POD counter jump KUBE-POD-FW-WEB
		ip saddr POD counter jump KUBE-POD-FW-WEB
		counter jump KUBE-NWPLCY-TAIL
		meta mark and 0x20000 == 0x20000 counter accept
	}
	chain KUBE-ROUTER-OUTPUT { type filter hook output priority 0;
		ip daddr POD counter jump KUBE-POD-FW-WEB
		ip saddr POD counter jump KUBE-POD-FW-WEB
		counter jump KUBE-NWPLCY-TAIL
		meta mark and 0x20000 == 0x20000 counter accept
	}
}
`, "POD", pod.String())
}
