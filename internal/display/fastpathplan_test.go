package display

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/fastpath/discover"
)

// A plan says what misses carried packets: of what there is on this node.
func TestFastPathPlan(t *testing.T) {
	flannel := discover.Plan{
		Kind: fastpath.VXLAN, Wire: "eth0", Tunnel: "flannel.1", VNI: 1, Port: 8472,
		Pods:  []discover.PlannedPod{{Device: "veth2", Addr: "10.244.0.2", Outlook: discover.Carried}},
		Peers: []discover.PlannedPeer{{Addr: netip.MustParseAddr("192.0.10.2"), Outlook: discover.Carried}},
		Counters: &fastpath.BypassedCounters{
			Tunnels: []string{"flannel.1"}, Bridges: []string{"cni0"}, Veths: 1, Conntrack: true,
			Rules: audit.RuleCounters{Number: 2, First: "inet acct c handle 7"}, IPTables: audit.RuleCounters{Number: 9, First: "ip filter FORWARD handle 12"},
		},
	}
	calico, kept := flannel, flannel
	calico.Kind, calico.Tunnel = fastpath.Routed, ""
	calico.Unreplied = "ip filter FORWARD handle 3: ct state"
	calico.Uncarried = []fastpath.Uncarried{{What: "TCP of some kind", Why: "anybody may forge it"}}
	calico.Counters = &fastpath.BypassedCounters{Netkits: 1, InPods: true}
	kept.Keep([]string{fastpath.KeepRules, fastpath.KeepConntrack})
	six := flannel
	six.Kind, six.Tunnel = fastpath.VXLAN6, "flannel-v6.1"
	six.Counters = &fastpath.BypassedCounters{Bridges: []string{"cni0"}, Veths: 1}
	for name, c := range map[string]struct {
		plan discover.Plan
		want string
	}{
		"Flannel": {flannel, `to other nodes by flannel.1: VXLAN (VNI 1, UDP port 8472) over eth0

POD    ADDRESS     FLOWS    WHY
veth2  10.244.0.2  carried  

PEER        ROUTES  FLOWS    WHY
192.0.10.2  -       carried  

MISSES CARRIED PACKETS  WHAT
flannel.1               all statistics, and tcpdump
cni0                    all statistics, and tcpdump
veth of pods (1)        statistics and tcpdump of packets into the pod (TX)
conntrack               packets and bytes of connections (net.netfilter.nf_conntrack_acct is 1)
rules                   2 that count or log: inet acct c handle 7; 1 more
iptables                9, each with a counter: ip filter FORWARD handle 12; 8 more
IP statistics           of this node, such as ForwDatagrams (nstat, /proc/net/snmp)
all packets are counted, and seen by tcpdump, at: eth0, the devices in pods
`},
		"routed netkit pods on an older kernel": {calico, `to other nodes by eth0, without encapsulation

POD    ADDRESS     FLOWS    WHY
veth2  10.244.0.2  carried  

PEER        ROUTES  FLOWS    WHY
192.0.10.2  -       carried  

MISSES CARRIED PACKETS  WHAT
netkit of pods (1)      all statistics, and tcpdump
devices in pods         received packets: this kernel does not count them; tcpdump works
IP statistics           of this node, such as ForwDatagrams (nstat, /proc/net/snmp)
all packets are counted, and seen by tcpdump, at: eth0
one-way UDP stays on the slow path: ip filter FORWARD handle 3: ct state
TCP of some kind stays on the slow path: anybody may forge it
`},
		"IPv6 in VXLAN": {six, `IPv6 to other nodes by flannel-v6.1: VXLAN over IPv6 (VNI 1, UDP port 8472) over eth0

POD    ADDRESS     FLOWS    WHY
veth2  10.244.0.2  carried  

PEER        ROUTES  FLOWS    WHY
192.0.10.2  -       carried  

MISSES CARRIED PACKETS  WHAT
cni0                    all statistics, and tcpdump
veth of pods (1)        statistics and tcpdump of packets into the pod (TX)
IP statistics           of this node, such as Ip6OutForwDatagrams (nstat, /proc/net/snmp6)
all packets are counted, and seen by tcpdump, at: flannel-v6.1, eth0, the devices in pods
`},
		"counters are kept": {kept, `to other nodes by flannel.1: VXLAN (VNI 1, UDP port 8472) over eth0
nothing is carried: --keep-counters=rules is given, and established flows may reach rules that count or log (in inet acct c)

POD    ADDRESS     FLOWS    WHY
veth2  10.244.0.2  carried  

PEER        ROUTES  FLOWS    WHY
192.0.10.2  -       carried  
`},
	} {
		var out bytes.Buffer
		if err := PrintFastPathPlan(&out, &c.plan); err != nil || out.String() != c.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, &out, c.want)
		}
	}
}
