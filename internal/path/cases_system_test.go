package path_test

import "fmt"

// systemVariants are those of Open vSwitch and OVN on the kernel's datapath. Of
// a machine that has it they are the first. Their frames are as those of the
// switch's own process, and datagrams come through in any number of fragments:
// the kernel puts them together without a bound.
var systemVariants = map[string][]variant{
	"ovs-vxlan": {{
		spec: "ovs-vxlan", pods: 1, less: 50, card: onSwitch,
		frame: onePod("eth ip(m1.t1>m2.t1 df ttl64) udp(4789 nosum) vxlan(1) eth ip(m1.pod1>m2.pod1 df ttl64) udp(sum)"),
	}, {
		spec: "ovs-vxlan:port=internal,tunnels=5,vni=77,udp-port=5799,csum=on", pods: 5, less: 50, card: onSwitch,
		frame: func(k int) string {
			return fmt.Sprintf("eth ip(m1.t1>m2.t%d df ttl64) udp(5799 sum) vxlan(77) eth ip(m1.pod%[1]d>m2.pod%[1]d df ttl64) udp(sum)", k)
		},
	}},
	"ovs-geneve": {{
		spec: "ovs-geneve", pods: 1, less: 50, card: onSwitch,
		frame: onePod("eth ip(m1.t1>m2.t1 df ttl64) udp(6081 nosum) geneve(1) eth ip(m1.pod1>m2.pod1 df ttl64) udp(sum)"),
	}, {
		spec: "ovs-geneve:tunnels=5,csum=on", pods: 5, less: 50, card: onSwitch, frame: func(k int) string {
			return fmt.Sprintf("eth ip(m1.t1>m2.t%d df ttl64) udp(6081 sum) geneve(1) eth ip(m1.pod%[1]d>m2.pod%[1]d df ttl64) udp(sum)", k)
		},
	}},
	"ovs-vlan": {{
		spec: "ovs-vlan", pods: 1, card: onSwitch,
		frame: onePod("eth 8100(100) ip(m1.pod1>m2.pod1 df ttl64) udp(sum)"),
	}, {
		spec: "ovs-vlan:port=internal,ids=5,vlan=4090", pods: 5, card: onSwitch, frame: func(k int) string {
			return fmt.Sprintf("eth 8100(%d) ip(m1.pod%d>m2.pod%[2]d df ttl64) udp(sum)", 4089+k, k)
		},
	}},
	"ovs-qinq": {{
		spec: "ovs-qinq", pods: 1, less: 8, card: onSwitch,
		frame: onePod("eth 88a8(100) 8100(1) ip(m1.pod1>m2.pod1 df ttl64) udp(sum)"),
	}, {
		spec: "ovs-qinq:port=internal,ids=5,vlan=11,inner=7", pods: 5, less: 8, card: onSwitch, frame: func(k int) string {
			return fmt.Sprintf("eth 88a8(%d) 8100(7) ip(m1.pod%d>m2.pod%[2]d df ttl64) udp(sum)", 10+k, k)
		},
	}},
	"ovn-overlay": {{
		spec: "ovn-overlay", pods: 1, less: 58, card: onSwitch,
		frame: onePod("eth ip(m1.t1>m2.t1 df ttl64) udp(6081 sum) geneve(1 0102:80:4) eth ip(m1.pod1>m2.pod1 df ttl64) udp(sum)"),
	}, {
		spec: "ovn-overlay:port=internal,lb=off,csum=off,mtu=1400", pods: 1, less: 100, card: onSwitch,
		frame: onePod("eth ip(m1.t1>m2.t1 df ttl64) udp(6081 nosum) geneve(1 0102:80:4) eth ip(m1.pod1>m2.pod1 df ttl64) udp(sum)"),
	}},
	"ovn-underlay": {{
		spec: "ovn-underlay", pods: 1, card: onSwitch,
		frame: onePod("eth 8100(100) ip(m1.pod1>m2.pod1 df ttl64) udp(sum)"),
	}, {
		spec: "ovn-underlay:port=internal,lb=on,services=7,vlan=4094", pods: 1, card: onSwitch,
		frame: onePod("eth 8100(4094) ip(m1.pod1>m2.pod1 df ttl64) udp(sum)"),
	}},
}
