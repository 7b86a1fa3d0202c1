package display

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/fastpath/discover"
)

// A plan says what stands still where packets are carried: of what there is on this node.
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
	calico.Counters = &fastpath.BypassedCounters{Netkits: 1, InPods: true}
	kept.Keep([]string{fastpath.KeepRules, fastpath.KeepConntrack})
	for name, c := range map[string]struct {
		plan discover.Plan
		want string
	}{
		"Flannel": {flannel, `to other nodes by flannel.1: VXLAN (VNI 1, UDP port 8472) over eth0

POD    ADDRESS     FLOWS    WHY
veth2  10.244.0.2  carried  

PEER        ROUTES  FLOWS    WHY
192.0.10.2  -       carried  

STANDS STILL      WHILE PACKETS ARE CARRIED
flannel.1         its statistics; tcpdump there does not show carried packets
cni0              its statistics; tcpdump there does not show carried packets
veth of pods (1)  statistics of what goes into the pod (TX here); tcpdump there does not show it
conntrack         packets and bytes of connections (net.netfilter.nf_conntrack_acct is 1)
rules             2 that count or log: inet acct c handle 7; 1 more
iptables          9 that count, as all rules of iptables do: ip filter FORWARD handle 12; 8 more
IP statistics     of this node, such as ForwDatagrams (nstat, /proc/net/snmp)
All packets are still counted at eth0 and at the devices in pods, and tcpdump shows them there.
`},
		"routed netkit pods on an older kernel": {calico, `to other nodes by eth0, without encapsulation

POD    ADDRESS     FLOWS    WHY
veth2  10.244.0.2  carried  

PEER        ROUTES  FLOWS    WHY
192.0.10.2  -       carried  

STANDS STILL        WHILE PACKETS ARE CARRIED
netkit of pods (1)  their statistics; tcpdump there does not show carried packets
devices in pods     statistics of what they receive, which this kernel does not count; tcpdump there shows it
IP statistics       of this node, such as ForwDatagrams (nstat, /proc/net/snmp)
All packets are still counted at eth0. tcpdump shows them there and in pods.
`},
		"counters are kept": {kept, `to other nodes by flannel.1: VXLAN (VNI 1, UDP port 8472) over eth0
nothing is carried: rules count or log packets of established flows (inet acct c handle 7; 1 more), and --keep-counters=rules is given

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
