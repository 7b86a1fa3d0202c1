package path_test

// vmVariants are those whose ends are in virtual machines. The guests are
// emulated, which works everywhere, and the switch's own process forwards.
var vmVariants = map[string][]variant{
	"vm-vlan": {{
		spec: "vm-vlan:datapath=netdev,accel=tcg", pods: 1, inVM: true, card: onSwitch,
		frame: onePod("eth 8100(100) ip(m1.pod1>m2.pod1 df ttl64) udp(sum)"),
	}, {
		spec: "vm-vlan:datapath=netdev,accel=tcg,queues=2,vlan=4094,memory=256,mtu=1400", pods: 1, less: 100, inVM: true, card: onSwitch,
		frame: onePod("eth 8100(4094) ip(m1.pod1>m2.pod1 df ttl64) udp(sum)"),
	}},
	"vm-vxlan": {{
		spec: "vm-vxlan:datapath=netdev,accel=tcg", pods: 1, less: 50, inVM: true, card: onSwitch,
		frame: onePod("eth ip(m1.t1>m2.t1 df ttl64) udp(4789 nosum) vxlan(1) eth ip(m1.pod1>m2.pod1 df ttl64) udp(sum)"),
	}, {
		spec: "vm-vxlan:datapath=netdev,accel=tcg,vhost=off,cpus=1,vni=77,udp-port=5799,csum=on", pods: 1, less: 50, inVM: true, card: onSwitch,
		frame: onePod("eth ip(m1.t1>m2.t1 df ttl64) udp(5799 sum) vxlan(77) eth ip(m1.pod1>m2.pod1 df ttl64) udp(sum)"),
	}},
}
