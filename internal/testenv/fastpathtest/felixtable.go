package fastpathtest

import (
	"fmt"
	"strings"
)

// The table of Calico's Felix with nftables, and its sets: of a policy's clients, and of hosts that may send tunnel
// packets.
const (
	felixTable        = "ip calico"
	FelixTableClients = felixTable + " cali40s-clients"
	FelixTableHosts   = felixTable + " cali40all-vxlan-net"
)

// felixObjects are the sets of Felix with nftables, its verdict maps, which lead from the devices to the pods'
// chains, and the chains at hooks. Each of these leads to a chain of Felix's, whose name has the same prefix:
// that of a table of iptables.
const felixObjects = `
	set cali40s-clients { type ipv4_addr; flags interval; }
	set cali40all-vxlan-net { type ipv4_addr; flags interval; }
	set cali40all-ipam-pools { type ipv4_addr; flags interval; }
	set cali40masq-ipam-pools { type ipv4_addr; flags interval; }
	set cali40dscp-src-net { type ipv4_addr; flags interval; }
	set cali40this-host { type ipv4_addr; }
	map filter-cali-from-wl-dispatch { type ifname : verdict; }
	map filter-cali-to-wl-dispatch { type ifname : verdict; }
	chain raw-PREROUTING { type filter hook prerouting priority raw; }
	chain raw-OUTPUT { type filter hook output priority raw; }
	chain mangle-PREROUTING { type filter hook prerouting priority mangle; }
	chain mangle-INPUT { type filter hook input priority mangle; }
	chain mangle-FORWARD { type filter hook forward priority mangle; }
	chain mangle-OUTPUT { type route hook output priority mangle; }
	chain mangle-POSTROUTING { type filter hook postrouting priority mangle; }
	chain nat-PREROUTING { type nat hook prerouting priority dstnat; }
	chain nat-INPUT { type nat hook input priority -100; }
	chain nat-OUTPUT { type nat hook output priority 100; }
	chain nat-POSTROUTING { type nat hook postrouting priority srcnat; }
	chain filter-INPUT { type filter hook input priority filter; }
	chain filter-FORWARD { type filter hook forward priority filter; }
	chain filter-OUTPUT { type filter hook output priority filter; }
`

// felixEmpty are chains without a rule: nothing of what they are for is configured.
var felixEmpty = []string{
	"raw-cali-rpf-skip", "raw-cali-from-host-endpoint", "raw-cali-to-host-endpoint", "mangle-cali-egress-dscp", "mangle-cali-from-host-endpoint", "mangle-cali-to-host-endpoint",
	"nat-cali-fip-dnat", "nat-cali-fip-snat", "filter-cali-from-hep-forward", "filter-cali-to-hep-forward", "filter-cali-from-host-endpoint", "filter-cali-to-host-endpoint", "filter-cali-cidr-block",
}

// Matches and actions of Felix with nftables, in braces where its rules have them.
var felixWords = strings.NewReplacer(
	"{clear}", "counter meta mark set mark & 0xfff0ffff",
	"{accepted}", "meta mark & 0x10000 == 0x10000 counter",
	"{accept}", "counter meta mark set mark or 0x10000",
	"{established}", "ct state related,established counter",
)

// felixRules are Felix's own chains that every node has.
const felixRules = `
	chain raw-PREROUTING { counter jump raw-cali-PREROUTING; }
	chain raw-OUTPUT { counter jump raw-cali-OUTPUT; }
	chain mangle-PREROUTING { counter jump mangle-cali-PREROUTING; }
	chain mangle-POSTROUTING { counter jump mangle-cali-POSTROUTING; }
	chain nat-PREROUTING { counter jump nat-cali-PREROUTING; }
	chain nat-OUTPUT { counter jump nat-cali-OUTPUT; }
	chain nat-POSTROUTING { counter jump nat-cali-POSTROUTING; }
	chain filter-INPUT { counter jump filter-cali-INPUT; }
	chain filter-FORWARD {
		counter jump filter-cali-FORWARD
		{accepted} accept
		{accept}
	}
	chain filter-OUTPUT { counter jump filter-cali-OUTPUT; }

	chain raw-cali-PREROUTING {
		{clear}
		{notrack}
		iifname "PREFIX*" counter meta mark set mark or 0x40000
		meta mark & 0x40000 == 0x40000 counter jump raw-cali-rpf-skip
		meta mark & 0x40000 == 0x40000 fib saddr . mark . iif oif 0 counter drop
		meta mark & 0x40000 == 0 counter jump raw-cali-from-host-endpoint
		{accepted} accept
	}
	chain raw-cali-OUTPUT {
		{clear}
		counter jump raw-cali-to-host-endpoint
		{notrack}
		{accepted} accept
	}
	chain mangle-cali-PREROUTING {
		{established} accept
		{accepted} accept
		counter jump mangle-cali-from-host-endpoint
		{accepted} accept
	}
	chain mangle-cali-POSTROUTING {
		ip saddr @cali40dscp-src-net ip daddr != @cali40all-ipam-pools ip daddr != @cali40this-host counter jump mangle-cali-egress-dscp
		{accepted} return
		{clear}
		ct status dnat counter jump mangle-cali-to-host-endpoint
		{accepted} return
	}
	chain nat-cali-PREROUTING { counter jump nat-cali-fip-dnat; }
	chain nat-cali-OUTPUT { counter jump nat-cali-fip-dnat; }
	chain nat-cali-POSTROUTING {
		counter jump nat-cali-fip-snat
		counter jump nat-cali-nat-outgoing
		{masquerade}
	}
	chain nat-cali-nat-outgoing { ip saddr @cali40masq-ipam-pools ip daddr != @cali40all-ipam-pools counter masquerade fully-random; }
	chain filter-cali-INPUT {
		{input}
		iifname "PREFIX*" counter goto filter-cali-wl-to-host
		{accepted} accept
		{clear}
		counter jump filter-cali-from-host-endpoint
		{accepted} accept
	}
	chain filter-cali-wl-to-host {
		counter jump filter-cali-from-wl-dispatch
		counter return
	}
	chain filter-cali-FORWARD {
		counter meta mark set mark & 0xfff1ffff
		meta mark & 0x10000 == 0 counter jump filter-cali-from-hep-forward
		iifname "PREFIX*" counter jump filter-cali-from-wl-dispatch
		oifname "PREFIX*" counter jump filter-cali-to-wl-dispatch
		counter jump filter-cali-to-hep-forward
		counter jump filter-cali-cidr-block
	}
	chain filter-cali-OUTPUT {
		{accepted} accept
		oifname "PREFIX*" counter return
		{output}
		{clear}
		ct status != dnat counter jump filter-cali-to-host-endpoint
		{accepted} accept
	}
	chain filter-cali-from-wl-dispatch {
		iifname vmap @filter-cali-from-wl-dispatch
		counter drop
	}
	chain filter-cali-to-wl-dispatch {
		oifname vmap @filter-cali-to-wl-dispatch
		counter drop
	}
	chain filter-cali-pi-clients {
		limit rate 10/minute counter log prefix "calico-packet: " level info
		meta l4proto udp ip saddr @cali40s-clients udp dport { PORT } counter meta mark set mark or 0x10000
	}
	chain filter-cali-pro-kns.default { {accept}; }
`

// tableEndpoint is a chain of a pod: established flows go on, and policies come before the profile, which admits
// everything.
func (f Felix) tableEndpoint(policies string) string {
	allow := "{established} accept\n"
	if f.Returns {
		allow = "{established} meta mark set mark or 0x10000\n{established} return\n"
	}
	return allow + `ct state invalid counter drop
		counter meta mark set mark & 0xfffcffff
		` + policies + `counter jump filter-cali-pro-kns.default
		{accepted} return
		counter drop
	`
}

// tableChains are a pod's chains, and the elements of the maps that lead there. What the pod sends in a tunnel of
// its own is dropped. A pod that is cut off has no other rule than that.
func (p FelixPod) tableChains(f Felix) string {
	from := f.tableEndpoint("meta l4proto udp udp dport { 4789 } counter drop\nmeta l4proto 4 counter drop\n")
	policy := ""
	if p.Policy {
		policy = `counter meta mark set mark & 0xfffdffff
			meta mark & 0x20000 == 0 counter jump filter-cali-pi-clients
			{accepted} return
			meta mark & 0x20000 == 0 counter drop
		`
	}
	to := f.tableEndpoint(policy)
	if p.Disabled {
		from, to = "counter drop\n", "counter drop\n"
	}
	return strings.NewReplacer("DEVICE", p.Device, "{from}", from, "{to}", to).Replace(`
	chain filter-cali-fw-DEVICE {
		{from}
	}
	chain filter-cali-tw-DEVICE {
		{to}
	}
	map filter-cali-from-wl-dispatch { type ifname : verdict; elements = { "DEVICE" : goto filter-cali-fw-DEVICE }; }
	map filter-cali-to-wl-dispatch { type ifname : verdict; elements = { "DEVICE" : goto filter-cali-tw-DEVICE }; }
	`)
}

// Table is what Felix writes with nftables, for nft: its own table, in which each rule has a counter. Rules
// that are there are replaced, and sets keep their elements.
func (f Felix) Table() string {
	rules := felixRules
	for _, p := range f.Pods {
		rules += p.tableChains(f)
	}
	for _, chain := range felixEmpty {
		rules += "\tchain " + chain + " { }\n"
	}
	vxlan := map[string]string{}
	if f.VXLAN {
		vxlan = map[string]string{
			"notrack":    "meta l4proto udp udp dport 4789 counter notrack",
			"masquerade": `oifname "vxlan.calico" fib saddr . oif type != local fib saddr type local counter masquerade fully-random`,
			"input": `meta l4proto udp udp dport { 4789 } ip saddr @cali40all-vxlan-net fib daddr type local counter accept
				meta l4proto udp udp dport { 4789 } fib daddr type local counter drop`,
			"output": "meta l4proto udp udp dport { 4789 } fib saddr type local ip daddr @cali40all-vxlan-net counter accept",
		}
	}
	for _, name := range []string{"notrack", "masquerade", "input", "output"} {
		rules = strings.ReplaceAll(rules, "{"+name+"}", vxlan[name])
	}
	rules = strings.NewReplacer("PREFIX", f.Prefix, "PORT", fmt.Sprint(f.Port)).Replace(felixWords.Replace(rules))
	return fmt.Sprintf("table %[1]s {%[2]s}\nflush table %[1]s\ntable %[1]s {%[3]s}\n", felixTable, felixObjects, rules)
}
