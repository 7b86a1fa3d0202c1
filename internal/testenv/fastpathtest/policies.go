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

// PolicyEngines are Calico's Felix with iptables, in both of its ways to let established flows go on,
// and kube-router with iptables and nftables.
func PolicyEngines() []PolicyEngine {
	felix := func(name, allow string) PolicyEngine {
		rules := func(first string) func(netip.Addr, string) string {
			return func(pod netip.Addr, device string) string { return felixRules(allow, device, first, "") }
		}
		return PolicyEngine{name, []string{"iptables-nft-restore"}, rules(""), rules("-A cali-tw-DEVICE -m comment --comment \"Endpoint admin disabled\" -j DROP\n"), "cali40s:clients", felixSets}
	}
	router := func(first string) func(netip.Addr, string) string {
		return func(pod netip.Addr, _ string) string { return kubeRouterRules(pod, first) }
	}
	routerNFT := func(first string) func(netip.Addr, string) string {
		return func(pod netip.Addr, _ string) string { return kubeRouterTables(pod, first) }
	}
	return []PolicyEngine{
		felix("Felix", "-A CHAIN -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n"),
		felix("Felix that returns", "-A CHAIN -m conntrack --ctstate RELATED,ESTABLISHED -j MARK --set-xmark 0x10000/0x10000\n-A CHAIN -m conntrack --ctstate RELATED,ESTABLISHED -j RETURN\n"),
		{"kube-router", []string{"iptables-nft-restore"}, router(""), router("-A KUBE-ROUTER-FORWARD -d POD -j REJECT\n"), "KUBE-SRC-CLIENTS", kubeRouterSets},
		{"kube-router with nftables", []string{"nft", "-f", "-"}, routerNFT(""), routerNFT("ip daddr POD reject\n"), "ip kube-router KUBE-SRC-CLIENTS", nil},
	}
}

// Load loads rules on a node.
func (e PolicyEngine) Load(t testing.TB, n *netcfg.Namespace, rules string) {
	t.Helper()
	testenv.Must(t, testenv.Load(t, n, rules, e.Program[0], e.Program[1:]...))
}

var felixSets = map[string]string{
	"cali40s:clients": "hash:net", "cali40dscp-src-net": "hash:net", "cali40all-ipam-pools": "hash:net", "cali40this-host": "hash:net", FelixHosts: "hash:net",
}

// felixRules are the rules of Felix, of the marks 0x10000 (accepted), 0x20000 (pass), 0x40000 (from a
// pod) and 0x80000. allow is how it lets established flows go on; input is what it adds there.
func felixRules(allow, device, first, input string) string {
	endpoint := func(chain, policies string) string {
		return strings.ReplaceAll(allow, "CHAIN", chain) + strings.ReplaceAll(`-A CHAIN -m conntrack --ctstate INVALID -j DROP
-A CHAIN -j MARK --set-xmark 0x0/0x30000
`+policies+`-A CHAIN -j cali-pro-kns.default
-A CHAIN -m comment --comment "Return if profile accepted" -m mark --mark 0x10000/0x10000 -j RETURN
-A CHAIN -m comment --comment "Drop if no profiles matched" -j DROP
`, "CHAIN", chain)
	}
	return strings.ReplaceAll(`*raw
:PREROUTING ACCEPT [0:0]
:cali-PREROUTING - [0:0]
:cali-from-host-endpoint - [0:0]
:cali-rpf-skip - [0:0]
-A PREROUTING -m comment --comment "cali:6gwbT8clXdHdC1b1" -j cali-PREROUTING
-A cali-PREROUTING -j MARK --set-xmark 0x0/0xf0000
-A cali-PREROUTING -i veth+ -j MARK --set-xmark 0x40000/0x40000
-A cali-PREROUTING -m mark --mark 0x40000/0x40000 -j cali-rpf-skip
-A cali-PREROUTING -m mark --mark 0x40000/0x40000 -m rpfilter --validmark --invert -j DROP
-A cali-PREROUTING -m mark --mark 0x0/0x40000 -j cali-from-host-endpoint
-A cali-PREROUTING -m mark --mark 0x10000/0x10000 -j ACCEPT
COMMIT
*mangle
:PREROUTING ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:cali-PREROUTING - [0:0]
:cali-POSTROUTING - [0:0]
:cali-egress-dscp - [0:0]
:cali-from-host-endpoint - [0:0]
:cali-to-host-endpoint - [0:0]
-A PREROUTING -j cali-PREROUTING
-A POSTROUTING -j cali-POSTROUTING
-A cali-PREROUTING -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A cali-PREROUTING -m mark --mark 0x10000/0x10000 -j ACCEPT
-A cali-PREROUTING -j cali-from-host-endpoint
-A cali-PREROUTING -m comment --comment "Host endpoint policy accepted packet." -m mark --mark 0x10000/0x10000 -j ACCEPT
-A cali-POSTROUTING -m set --match-set cali40dscp-src-net src -m set ! --match-set cali40all-ipam-pools dst -m set ! --match-set cali40this-host dst -j cali-egress-dscp
-A cali-POSTROUTING -m mark --mark 0x10000/0x10000 -j RETURN
-A cali-POSTROUTING -j MARK --set-xmark 0x0/0xf0000
-A cali-POSTROUTING -m conntrack --ctstate DNAT -j cali-to-host-endpoint
-A cali-POSTROUTING -m comment --comment "Host endpoint policy accepted packet." -m mark --mark 0x10000/0x10000 -j RETURN
COMMIT
*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:cali-INPUT - [0:0]
:cali-FORWARD - [0:0]
:cali-cidr-block - [0:0]
:cali-from-hep-forward - [0:0]
:cali-from-wl-dispatch - [0:0]
:cali-to-hep-forward - [0:0]
:cali-to-wl-dispatch - [0:0]
:cali-fw-DEVICE - [0:0]
:cali-tw-DEVICE - [0:0]
:cali-pi-clients - [0:0]
:cali-pro-kns.default - [0:0]
-A INPUT -j cali-INPUT
-A FORWARD -j cali-FORWARD
-A FORWARD -m comment --comment "Policy explicitly accepted packet." -m mark --mark 0x10000/0x10000 -j ACCEPT
-A FORWARD -j MARK --set-xmark 0x10000/0x10000
`+input+`-A cali-INPUT -m mark --mark 0x10000/0x10000 -j ACCEPT
-A cali-INPUT -j MARK --set-xmark 0x0/0xf0000
-A cali-FORWARD -j MARK --set-xmark 0x0/0xe0000
-A cali-FORWARD -m mark --mark 0x0/0x10000 -j cali-from-hep-forward
-A cali-FORWARD -i veth+ -j cali-from-wl-dispatch
-A cali-FORWARD -o veth+ -j cali-to-wl-dispatch
-A cali-FORWARD -j cali-to-hep-forward
-A cali-FORWARD -j cali-cidr-block
-A cali-from-wl-dispatch -i DEVICE -g cali-fw-DEVICE
-A cali-from-wl-dispatch -m comment --comment "Unknown interface" -j DROP
-A cali-to-wl-dispatch -o DEVICE -g cali-tw-DEVICE
-A cali-to-wl-dispatch -m comment --comment "Unknown interface" -j DROP
`+first+endpoint("cali-fw-DEVICE", `-A CHAIN -p udp -m comment --comment "Drop VXLAN encapped packets originating in workloads" -m multiport --dports 4789 -j DROP
-A CHAIN -p ipencap -m comment --comment "Drop IPinIP encapped packets originating in workloads" -j DROP
`)+endpoint("cali-tw-DEVICE", `-A CHAIN -m comment --comment "Start of tier default" -j MARK --set-xmark 0x0/0x20000
-A CHAIN -m mark --mark 0x0/0x20000 -j cali-pi-clients
-A CHAIN -m comment --comment "Return if policy accepted" -m mark --mark 0x10000/0x10000 -j RETURN
-A CHAIN -m comment --comment "End of tier default. Drop if no policies passed packet" -m mark --mark 0x0/0x20000 -j DROP
`)+`-A cali-pi-clients -m limit --limit 10/min -j LOG --log-prefix "calico-packet: "
-A cali-pi-clients -p udp -m set --match-set cali40s:clients src -m multiport --dports 7777 -j MARK --set-xmark 0x10000/0x10000
-A cali-pi-clients -m mark --mark 0x10000/0x10000 -j RETURN
-A cali-pro-kns.default -j MARK --set-xmark 0x10000/0x10000
-A cali-pro-kns.default -m mark --mark 0x10000/0x10000 -j RETURN
COMMIT
`, "DEVICE", device)
}

// FelixVXLAN are the rules of Felix where Calico encapsulates by VXLAN: a set says which hosts may send
// tunnel packets.
func FelixVXLAN(device string) string {
	return felixRules("-A CHAIN -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n", device, "", `-A cali-INPUT -p udp -m comment --comment "Allow IPv4 VXLAN packets from allowed hosts" -m multiport --dports 4789 -m set --match-set cali40all-vxlan-net src -m addrtype --dst-type LOCAL -j ACCEPT
-A cali-INPUT -p udp -m comment --comment "Drop IPv4 VXLAN packets from non-allowed hosts" -m multiport --dports 4789 -m addrtype --dst-type LOCAL -j DROP
`)
}

// FelixHosts is the ipset of the hosts that may send tunnel packets with [FelixVXLAN].
const FelixHosts = "cali40all-vxlan-net"

var kubeRouterSets = map[string]string{"KUBE-SRC-CLIENTS": "hash:ip", "KUBE-DST-WEB": "hash:ip"}

// kubeRouterRules are the rules of kube-router with iptables, of the marks 0x10000 (a policy matches)
// and 0x20000 (policies are satisfied).
func kubeRouterRules(pod netip.Addr, first string) string {
	return strings.ReplaceAll(`*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:KUBE-ROUTER-FORWARD - [0:0]
:KUBE-NWPLCY-COMMON - [0:0]
:KUBE-NWPLCY-DEFAULT - [0:0]
:KUBE-NWPLCY-WEB - [0:0]
:KUBE-POD-FW-WEB - [0:0]
-A FORWARD -m comment --comment "kube-router netpol" -j KUBE-ROUTER-FORWARD
-A FORWARD -m comment --comment "rule to explicitly ACCEPT traffic that comply to network policies" -m mark --mark 0x20000/0x20000 -j ACCEPT
`+first+`-A KUBE-ROUTER-FORWARD -d 10.96.0.0/12 -m comment --comment "allow traffic to primary cluster IP range" -j RETURN
-A KUBE-ROUTER-FORWARD -p tcp -m comment --comment "allow LOCAL TCP traffic to node ports" -m addrtype --dst-type LOCAL -m multiport --dports 30000:32767 -j RETURN
-A KUBE-ROUTER-FORWARD -d POD -m comment --comment "rule to jump traffic destined to POD" -j KUBE-POD-FW-WEB
-A KUBE-ROUTER-FORWARD -d POD -m physdev --physdev-is-bridged -j KUBE-POD-FW-WEB
-A KUBE-ROUTER-FORWARD -s POD -m comment --comment "rule to jump traffic from POD" -j KUBE-POD-FW-WEB
-A KUBE-ROUTER-FORWARD -s POD -m physdev --physdev-is-bridged -j KUBE-POD-FW-WEB
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
	chain KUBE-ROUTER-FORWARD { type filter hook forward priority 0;
		`+first+`ip daddr 10.96.0.0/12 counter return
		ip daddr POD counter jump KUBE-POD-FW-WEB
		ip saddr POD counter jump KUBE-POD-FW-WEB
		meta mark and 0x20000 == 0x20000 counter accept
	}
}
`, "POD", pod.String())
}
