package path_test

import "fmt"

// deviceVariants are those of the drivers that are made of kinds of devices that
// not every kernel has. What their frames look like, beyond what is said at
// variants:
//   - ipip's outer header has the inner one's df and ttl, as on the kernel's own
//     tunl0. Without one the packet is as routed leaves it.
//   - geneve's outer header has no df, as vxlan's; gre's has it.
//   - A packet that is bridged, or on an ipvlan in any mode, is not routed by the
//     machine as far as its ttl tells.
var deviceVariants = map[string][]variant{
	"ipip": {{
		spec: "ipip", pods: 1, less: 20, pairable: true,
		frame: onePod("eth ip(m1>m2 df ttl63) ip(m1.pod1>m2.pod1 df ttl63) udp(sum)"),
	}, {
		spec: "ipip:mode=cross-subnet", pods: 1, less: 20, frame: onePod("eth ip(m1.pod1>m2.pod1 df ttl63) udp(sum)"),
	}, {
		spec: "ipip:mode=cross-subnet,subnets=2,mtu=1400", pods: 1, less: 100,
		frame: onePod("eth ip(m1.t1>m2.t1 df ttl63) ip(m1.pod1>m2.pod1 df ttl63) udp(sum)"),
	}},
	"geneve": {{
		spec: "geneve", pods: 1, less: 50, pairable: true,
		frame: onePod("eth ip(m1>m2 ttl64) udp(6081 nosum) geneve(1) eth ip(m1.pod1>m2.pod1 df ttl63) udp(sum)"),
	}, {
		spec: "geneve:tunnels=5,vni=700,port=6090,csum=on", pods: 5, less: 50, frame: func(k int) string {
			return fmt.Sprintf("eth ip(m1.t%d>m2.t%[1]d ttl64) udp(6090 sum) geneve(%d) eth ip(m1.pod%[1]d>m2.pod%[1]d df ttl63) udp(sum)", k, 699+k)
		},
	}, {
		spec: "geneve:devices=each,vni=16777215,port=6091,csum=on,mtu=1400", pods: 1, less: 100,
		frame: onePod("eth ip(m1>m2 ttl64) udp(6091 sum) geneve(16777215) eth ip(m1.pod1>m2.pod1 df ttl63) udp(sum)"),
	}},
	"gre": {{
		spec: "gre", pods: 1, less: 38, pairable: true, ownOuter: true,
		frame: onePod("eth ip(m1>m2 df ttl64) gre eth ip(m1.pod1>m2.pod1 df ttl64) udp(sum)"),
	}, {
		spec: "gre:key=4294967295,csum=on", pods: 1, less: 46, ownOuter: true,
		frame: onePod("eth ip(m1>m2 df ttl64) gre(4294967295 sum) eth ip(m1.pod1>m2.pod1 df ttl64) udp(sum)"),
	}, {
		spec: "gre:csum=on,mtu=1400", pods: 1, less: 100, ownOuter: true,
		frame: onePod("eth ip(m1>m2 df ttl64) gre(sum) eth ip(m1.pod1>m2.pod1 df ttl64) udp(sum)"),
	}},
	"vlan": {{
		spec: "vlan", pods: 1, pairable: true, card: onCard, frame: onePod("eth 8100(100) ip(m1.pod1>m2.pod1 df ttl64) udp(sum)"),
	}, {
		spec: "vlan:ids=5,vlan=4090,mtu=1400", pods: 5, less: 100, card: onCard, frame: func(k int) string {
			return fmt.Sprintf("eth 8100(%d) ip(m1.pod%d>m2.pod%[2]d df ttl64) udp(sum)", 4089+k, k)
		},
	}},
	"qinq": {{
		spec: "qinq", pods: 1, less: 8, pairable: true, card: onCard,
		frame: onePod("eth 88a8(100) 8100(1) ip(m1.pod1>m2.pod1 df ttl64) udp(sum)"),
	}, {
		spec: "qinq:ids=5,vlan=11,inner=7", pods: 5, less: 8, card: onCard, frame: func(k int) string {
			return fmt.Sprintf("eth 88a8(%d) 8100(7) ip(m1.pod%d>m2.pod%[2]d df ttl64) udp(sum)", 10+k, k)
		},
	}},
	"ipvlan": {{
		spec: "ipvlan", pods: 1, pairable: true, card: onCard, frame: onePod("eth ip(m1.pod1>m2.pod1 df ttl64) udp(sum)"),
	}, {
		spec: "ipvlan:mode=l3,mtu=1400", pods: 1, less: 100, card: onCard, frame: onePod("eth ip(m1.pod1>m2.pod1 df ttl64) udp(sum)"),
	}, {
		spec: "ipvlan:mode=l3s", pods: 1, card: onCard, frame: onePod("eth ip(m1.pod1>m2.pod1 df ttl64) udp(sum)"),
	}},
	"netkit": {{
		spec: "netkit", pods: 1, pairable: true, frame: onePod("eth ip(m1.pod1>m2.pod1 df ttl63) udp(sum)"),
	}, {
		spec: "netkit:mode=l2,mtu=1400", pods: 1, less: 100, frame: onePod("eth ip(m1.pod1>m2.pod1 df ttl63) udp(sum)"),
	}},
	"vxlan": {{
		spec: "vxlan:pods=netkit,vni=9", pods: 1, less: 50,
		frame: onePod("eth ip(m1>m2 ttl64) udp(8472 sum) vxlan(9) eth ip(m1.pod1>m2.pod1 df ttl63) udp(sum)"),
	}},
	"vxlan+fast": {{
		spec: "vxlan+fast:pods=netkit,vni=8", pods: 1, less: 50,
		frame: onePod("eth ip(m1>m2 ttl64) udp(8472 sum) vxlan(8) eth ip(m1.pod1>m2.pod1 df ttl63) udp(sum)"),
	}},
	// The first packets of a flow go the slow way, which is what is captured. ipip has the machines'
	// own addresses, so this has others.
	"ipip+fast": {{
		spec: "ipip+fast", pods: 1, less: 20, pairable: true,
		frame: onePod("eth ip(m1.t1>m2.t1 df ttl63) ip(m1.pod1>m2.pod1 df ttl63) udp(sum)"),
	}, {
		spec: "ipip+fast:subnets=2,mtu=1400", pods: 1, less: 100,
		frame: onePod("eth ip(m1.t1>m2.t1 df ttl63) ip(m1.pod1>m2.pod1 df ttl63) udp(sum)"),
	}},
	"geneve+fast": {{
		spec: "geneve+fast:port=6092", pods: 1, less: 50,
		frame: onePod("eth ip(m1>m2 ttl64) udp(6092 nosum) geneve(1) eth ip(m1.pod1>m2.pod1 df ttl63) udp(sum)"),
	}, {
		spec: "geneve+fast:vni=9,port=6093,mtu=1400", pods: 1, less: 100,
		frame: onePod("eth ip(m1>m2 ttl64) udp(6093 nosum) geneve(9) eth ip(m1.pod1>m2.pod1 df ttl63) udp(sum)"),
	}},
	"netkit+fast": {{
		spec: "netkit+fast", pods: 1, pairable: true, frame: onePod("eth ip(m1.pod1>m2.pod1 df ttl63) udp(sum)"),
	}, {
		spec: "netkit+fast:mode=l2", pods: 1, frame: onePod("eth ip(m1.pod1>m2.pod1 df ttl63) udp(sum)"),
	}},
}
