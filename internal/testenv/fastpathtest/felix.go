package fastpathtest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Felix writes the rules of Calico's Felix with iptables, as its sources render them: of the marks
// 0x10000 (accepted), 0x20000 (pass), 0x40000 (from a pod) and 0x80000.
type Felix struct {
	Prefix     string // of the names of pods' devices
	Returns    bool   // established flows go on past the chains of a pod, and are not accepted there
	Port       uint16 // that the policy admits, over UDP
	VXLAN      bool   // the tunnel is Calico's VXLAN: a set says which hosts may send its packets
	Pods       []FelixPod
	OldDevices []string // of pods that have gone, whose chains Update removes
}

// FelixPod is the device of a pod.
type FelixPod struct {
	Device   string
	Policy   bool // a policy selects the pod: it admits what is in [FelixClients] and goes to the port
	Disabled bool // the pod is cut off, established flows included
}

// Ways to let established flows go on.
const (
	felixAccepts = "-A CHAIN -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n"
	felixReturns = "-A CHAIN -m conntrack --ctstate RELATED,ESTABLISHED -j MARK --set-xmark 0x10000/0x10000\n-A CHAIN -m conntrack --ctstate RELATED,ESTABLISHED -j RETURN\n"
)

// Felix's ipsets: of a policy's clients, of hosts that may send tunnel packets, of all pods' addresses,
// of those that are masqueraded, and of the host's own.
const (
	FelixClients = "cali40s:clients"
	FelixHosts   = "cali40all-vxlan-net"
	FelixPools   = "cali40all-ipam-pools"
	FelixMasq    = "cali40masq-ipam-pools"
	FelixHost    = "cali40this-host"
)

// FelixSets are the ipsets that the rules use, with their kinds.
var FelixSets = map[string]string{
	FelixClients: "hash:net", FelixHosts: "hash:net", FelixPools: "hash:net", FelixMasq: "hash:net", FelixHost: "hash:net", "cali40dscp-src-net": "hash:net",
}

// felixPod declares a pod's chains.
const felixPod = `:cali-fw-DEVICE - [0:0]
:cali-tw-DEVICE - [0:0]
`

// endpoint is a chain of a pod: established flows go on, and policies come before the profile, which
// admits everything.
func (f Felix) endpoint(chain, policies string) string {
	allow := felixAccepts
	if f.Returns {
		allow = felixReturns
	}
	return strings.ReplaceAll(allow+`-A CHAIN -m conntrack --ctstate INVALID -j DROP
-A CHAIN -j MARK --set-xmark 0x0/0x30000
`+policies+`-A CHAIN -j cali-pro-kns.default
-A CHAIN -m comment --comment "Return if profile accepted" -m mark --mark 0x10000/0x10000 -j RETURN
-A CHAIN -m comment --comment "Drop if no profiles matched" -j DROP
`, "CHAIN", chain)
}

// chains are those of a pod, in both directions.
func (p FelixPod) chains(f Felix) string {
	from, to := "cali-fw-"+p.Device, "cali-tw-"+p.Device
	policy := ""
	if p.Policy {
		policy = `-A CHAIN -m comment --comment "Start of tier default" -j MARK --set-xmark 0x0/0x20000
-A CHAIN -m mark --mark 0x0/0x20000 -j cali-pi-clients
-A CHAIN -m comment --comment "Return if policy accepted" -m mark --mark 0x10000/0x10000 -j RETURN
-A CHAIN -m comment --comment "End of tier default. Drop if no policies passed packet" -m mark --mark 0x0/0x20000 -j DROP
`
	}
	disabled := ""
	if p.Disabled {
		disabled = "-A " + to + " -m comment --comment \"Endpoint admin disabled\" -j DROP\n"
	}
	return disabled + f.endpoint(from, `-A CHAIN -p udp -m comment --comment "Drop VXLAN encapped packets originating in workloads" -m multiport --dports 4789 -j DROP
-A CHAIN -p ipencap -m comment --comment "Drop IPinIP encapped packets originating in workloads" -j DROP
`) + f.endpoint(to, policy)
}

// dispatch leads from the devices to the pods' chains: by the first character behind the prefix, where
// several pods share it.
func (f Felix) dispatch() (declared, rules string) {
	groups := map[string][]string{}
	for _, p := range f.Pods {
		key := p.Device[:len(f.Prefix)+1]
		groups[key] = append(groups[key], p.Device)
	}
	gone := map[string]bool{} // chains of several pods, of which there are no longer several
	for _, device := range f.OldDevices {
		key := device[:len(f.Prefix)+1]
		gone[key[len(f.Prefix):]] = len(groups[key]) < 2
	}
	for _, d := range []struct{ chain, match, pod string }{{"cali-from-wl-dispatch", "-i", "cali-fw-"}, {"cali-to-wl-dispatch", "-o", "cali-tw-"}} {
		const unknown = "-A %s -m comment --comment \"Unknown interface\" -j DROP\n"
		root, children := "", ""
		for _, key := range slices.Sorted(maps.Keys(groups)) {
			chain := d.chain
			if len(groups[key]) > 1 {
				chain += "-" + key[len(f.Prefix):]
				declared += ":" + chain + " - [0:0]\n"
				root += fmt.Sprintf("-A %s %s %s+ -g %s\n", d.chain, d.match, key, chain)
			}
			for _, device := range groups[key] {
				rule := fmt.Sprintf("-A %s %s %s -g %s%s\n", chain, d.match, device, d.pod, device)
				if chain == d.chain {
					root += rule
				} else {
					children += rule
				}
			}
			if chain != d.chain {
				children += fmt.Sprintf(unknown, chain)
			}
		}
		rules += root + fmt.Sprintf(unknown, d.chain) + children
		for _, key := range slices.Sorted(maps.Keys(gone)) {
			if gone[key] {
				declared += ":" + d.chain + "-" + key + " - [0:0]\n"
				rules += "-X " + d.chain + "-" + key + "\n"
			}
		}
	}
	return declared, rules
}

// Rules are whole tables, for a host on which nobody else has rules.
func (f Felix) Rules() string {
	var pods, declared, noTrack, input, output, masquerade string
	for _, p := range f.Pods {
		declared += strings.ReplaceAll(felixPod, "DEVICE", p.Device)
		pods += p.chains(f)
	}
	for _, device := range f.OldDevices {
		declared += strings.ReplaceAll(felixPod, "DEVICE", device)
		pods += fmt.Sprintf("-X cali-fw-%[1]s\n-X cali-tw-%[1]s\n", device)
	}
	if f.VXLAN {
		noTrack = "-A CHAIN -p udp -m udp --dport 4789 -j NOTRACK\n"
		input = `-A cali-INPUT -p udp -m comment --comment "Allow IPv4 VXLAN packets from allowed hosts" -m multiport --dports 4789 -m set --match-set cali40all-vxlan-net src -m addrtype --dst-type LOCAL -j ACCEPT
-A cali-INPUT -p udp -m comment --comment "Drop IPv4 VXLAN packets from non-allowed hosts" -m multiport --dports 4789 -m addrtype --dst-type LOCAL -j DROP
`
		output = `-A cali-OUTPUT -p udp -m comment --comment "Allow IPv4 VXLAN packets to other allowed hosts" -m multiport --dports 4789 -m addrtype --src-type LOCAL -m set --match-set cali40all-vxlan-net dst -j ACCEPT
`
		masquerade = `-A cali-POSTROUTING -o vxlan.calico -m addrtype ! --src-type LOCAL --limit-iface-out -m addrtype --src-type LOCAL -j MASQUERADE --random-fully
`
	}
	dispatchChains, dispatchRules := f.dispatch()
	return strings.NewReplacer("PREFIX", f.Prefix, "PORT", fmt.Sprint(f.Port)).Replace(`*raw
:PREROUTING ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:cali-PREROUTING - [0:0]
:cali-OUTPUT - [0:0]
:cali-from-host-endpoint - [0:0]
:cali-to-host-endpoint - [0:0]
:cali-rpf-skip - [0:0]
-I PREROUTING -m comment --comment "cali:6gwbT8clXdHdC1b1" -j cali-PREROUTING
-I OUTPUT -j cali-OUTPUT
-A cali-PREROUTING -j MARK --set-xmark 0x0/0xf0000
` + strings.ReplaceAll(noTrack, "CHAIN", "cali-PREROUTING") + `-A cali-PREROUTING -i PREFIX+ -j MARK --set-xmark 0x40000/0x40000
-A cali-PREROUTING -m mark --mark 0x40000/0x40000 -j cali-rpf-skip
-A cali-PREROUTING -m mark --mark 0x40000/0x40000 -m rpfilter --validmark --invert -j DROP
-A cali-PREROUTING -m mark --mark 0x0/0x40000 -j cali-from-host-endpoint
-A cali-PREROUTING -m mark --mark 0x10000/0x10000 -j ACCEPT
-A cali-OUTPUT -j MARK --set-xmark 0x0/0xf0000
-A cali-OUTPUT -j cali-to-host-endpoint
` + strings.ReplaceAll(noTrack, "CHAIN", "cali-OUTPUT") + `-A cali-OUTPUT -m mark --mark 0x10000/0x10000 -j ACCEPT
COMMIT
*mangle
:PREROUTING ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:cali-PREROUTING - [0:0]
:cali-POSTROUTING - [0:0]
:cali-egress-dscp - [0:0]
:cali-from-host-endpoint - [0:0]
:cali-to-host-endpoint - [0:0]
-I PREROUTING -j cali-PREROUTING
-I POSTROUTING -j cali-POSTROUTING
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
*nat
:PREROUTING ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:cali-PREROUTING - [0:0]
:cali-OUTPUT - [0:0]
:cali-POSTROUTING - [0:0]
:cali-fip-dnat - [0:0]
:cali-fip-snat - [0:0]
:cali-nat-outgoing - [0:0]
-I PREROUTING -j cali-PREROUTING
-I OUTPUT -j cali-OUTPUT
-I POSTROUTING -j cali-POSTROUTING
-A cali-PREROUTING -j cali-fip-dnat
-A cali-OUTPUT -j cali-fip-dnat
-A cali-POSTROUTING -j cali-fip-snat
-A cali-POSTROUTING -j cali-nat-outgoing
` + masquerade + `-A cali-nat-outgoing -m set --match-set cali40masq-ipam-pools src -m set ! --match-set cali40all-ipam-pools dst -j MASQUERADE --random-fully
COMMIT
*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:cali-INPUT - [0:0]
:cali-FORWARD - [0:0]
:cali-OUTPUT - [0:0]
:cali-cidr-block - [0:0]
:cali-from-hep-forward - [0:0]
:cali-from-host-endpoint - [0:0]
:cali-from-wl-dispatch - [0:0]
:cali-to-hep-forward - [0:0]
:cali-to-host-endpoint - [0:0]
:cali-to-wl-dispatch - [0:0]
:cali-wl-to-host - [0:0]
:cali-pi-clients - [0:0]
:cali-pro-kns.default - [0:0]
` + dispatchChains + declared + `-I INPUT -j cali-INPUT
-I FORWARD -j cali-FORWARD
-I OUTPUT -j cali-OUTPUT
-A FORWARD -m comment --comment "Policy explicitly accepted packet." -m mark --mark 0x10000/0x10000 -j ACCEPT
-A FORWARD -j MARK --set-xmark 0x10000/0x10000
` + input + `-A cali-INPUT -i PREFIX+ -g cali-wl-to-host
-A cali-INPUT -m mark --mark 0x10000/0x10000 -j ACCEPT
-A cali-INPUT -j MARK --set-xmark 0x0/0xf0000
-A cali-INPUT -j cali-from-host-endpoint
-A cali-INPUT -m comment --comment "Host endpoint policy accepted packet." -m mark --mark 0x10000/0x10000 -j ACCEPT
-A cali-wl-to-host -j cali-from-wl-dispatch
-A cali-wl-to-host -m comment --comment "Configured DefaultEndpointToHostAction" -j RETURN
-A cali-FORWARD -j MARK --set-xmark 0x0/0xe0000
-A cali-FORWARD -m mark --mark 0x0/0x10000 -j cali-from-hep-forward
-A cali-FORWARD -i PREFIX+ -j cali-from-wl-dispatch
-A cali-FORWARD -o PREFIX+ -j cali-to-wl-dispatch
-A cali-FORWARD -j cali-to-hep-forward
-A cali-FORWARD -j cali-cidr-block
-A cali-OUTPUT -m mark --mark 0x10000/0x10000 -j ACCEPT
-A cali-OUTPUT -o PREFIX+ -j RETURN
` + output + `-A cali-OUTPUT -j MARK --set-xmark 0x0/0xf0000
-A cali-OUTPUT -m conntrack ! --ctstate DNAT -j cali-to-host-endpoint
-A cali-OUTPUT -m comment --comment "Host endpoint policy accepted packet." -m mark --mark 0x10000/0x10000 -j ACCEPT
` + dispatchRules + `-A cali-pi-clients -m limit --limit 10/min -j LOG --log-prefix "calico-packet: "
-A cali-pi-clients -p udp -m set --match-set cali40s:clients src -m multiport --dports PORT -j MARK --set-xmark 0x10000/0x10000
-A cali-pi-clients -m mark --mark 0x10000/0x10000 -j RETURN
-A cali-pro-kns.default -j MARK --set-xmark 0x10000/0x10000
-A cali-pro-kns.default -m mark --mark 0x10000/0x10000 -j RETURN
` + pods + `COMMIT
`)
}

var (
	kernelPolicies = regexp.MustCompile(`(?m)^:[A-Z]+ .*\n`)
	kernelChains   = regexp.MustCompile(`(?m)^-[AI] [A-Z]+ .*\n`)
)

// Install gives the rules for a restore that keeps those of others. They come first, as Felix's do.
func (f Felix) Install() string { return kernelPolicies.ReplaceAllString(f.Rules(), "") }

// Update gives, for the same restore, what replaces the rules that were installed.
func (f Felix) Update() string { return kernelChains.ReplaceAllString(f.Install(), "") }
