package path_test

import (
	"fmt"
	"testing"

	"github.com/venturi-net/venturi/internal/testenv"
)

// variant is a driver with options, as the suite raises it, and what is known
// of it without asking the driver.
type variant struct {
	spec string // as a user gives it
	// prepare makes what the path needs to be there, over which an MTU of bytes is
	// possible, and gives the rest of the spec; nil: nothing.
	prepare func(t *testing.T, mtu int) string
	// pods is how many there are on each machine.
	pods int
	// less is by how much the pods' MTU is below the wire's, bytes.
	less int
	// pairable raises it twice in a lab: the two must not disturb each other. It is
	// for paths without daemons, which are cheap.
	pairable bool
	// parts is how many fragments of one datagram come through; 0: all.
	parts int
	// frame is what a datagram from the k-th pod of m1, counted from 1, to that
	// of m2 looks like on m1's card, as [reader.read] writes it down.
	frame func(k int) string
	// ownOuter: its outer addresses are the machines' own, as frame says, only where it is the first of its
	// driver in a lab.
	ownOuter bool
	// card is where the frames are to be seen.
	card card
	// inVM leaves it to a test of its own: its ends are in virtual machines.
	inVM bool
}

// card is a network device that frames are captured on.
type card int

const (
	onWire   card = iota // of the machine
	onCard               // of the arm's own, on the machine
	onSwitch             // the card of the arm's own switch
	onPod                // of the end itself, whose card is none of the lab's
)

// onePod is the frame of a path with one pod.
func onePod(text string) func(int) string { return func(int) string { return text } }

// variants are what the suite raises of each driver. Every driver of the table
// has some, and the first of them is raised over every wire.
var variants = mergeVariants(systemVariants, usualVariants, deviceVariants, vmVariants)

// mergeVariants makes one table of several. What comes first in them is first.
func mergeVariants(tables ...map[string][]variant) map[string][]variant {
	all := map[string][]variant{}
	for _, table := range tables {
		for name, list := range table {
			all[name] = append(all[name], list...)
		}
	}
	return all
}

// usualVariants are those of the drivers that most kernels can do.
//
// What frames look like explains itself, but for this:
//   - df of an inner packet comes from the pod: Linux lets no datagram be cut
//     underway that fits where it starts, to find the MTU of the path.
//   - Around it the kernel's vxlan devices do not set df unless they are told
//     to, whatever the inner packet says: routers outside may cut. Open vSwitch
//     sets it unless it is told not to (df_default).
//   - ttl63 is a packet that a machine has routed.
//   - The flows of Open vSwitch say only where a tunnel leads to, as in the
//     comparison that they are from; all begin at the address that the route
//     has, the first.
var usualVariants = map[string][]variant{
	"host": {{
		spec: "host", pods: 1, pairable: true, frame: onePod("eth ip(m1>m2 df ttl64) udp(sum)"),
	}},
	"routed": {{
		spec: "routed", pods: 1, pairable: true, frame: onePod("eth ip(m1.pod1>m2.pod1 df ttl63) udp(sum)"),
	}},
	// The first packets of a flow go the slow way, which is what is captured.
	"routed+fast": {{
		spec: "routed+fast", pods: 1, pairable: true, frame: onePod("eth ip(m1.pod1>m2.pod1 df ttl63) udp(sum)"),
	}},
	"vxlan+fast": {{
		spec: "vxlan+fast:vni=7", pods: 1, less: 50,
		frame: onePod("eth ip(m1>m2 ttl64) udp(8472 sum) vxlan(7) eth ip(m1.pod1>m2.pod1 df ttl63) udp(sum)"),
	}},
	"bgp": {{
		spec: "bgp", pods: 1, frame: onePod("eth ip(m1.pod1>m2.pod1 df ttl63) udp(sum)"),
	}},
	"vxlan": {{
		spec: "vxlan", pods: 1, less: 50, pairable: true,
		frame: onePod("eth ip(m1>m2 ttl64) udp(8472 sum) vxlan(1) eth ip(m1.pod1>m2.pod1 df ttl63) udp(sum)"),
	}, {
		spec: "vxlan:tunnels=5,vni=700,port=5799", pods: 5, less: 50, frame: func(k int) string {
			return fmt.Sprintf("eth ip(m1.t%d>m2.t%[1]d ttl64) udp(5799 sum) vxlan(%d) eth ip(m1.pod%[1]d>m2.pod%[1]d df ttl63) udp(sum)", k, 699+k)
		},
	}, {
		spec: "vxlan:csum=off,mtu=1000,vni=42", pods: 1, less: 500,
		frame: onePod("eth ip(m1>m2 ttl64) udp(8472 nosum) vxlan(42) eth ip(m1.pod1>m2.pod1 df ttl63) udp(sum)"),
	}},
	"vxlan-dev": {{
		spec: "vxlan-dev", pods: 1, less: 50, pairable: true,
		frame: onePod("eth ip(m1>m2 ttl64) udp(4789 sum) vxlan(1) eth ip(m1.pod1>m2.pod1 df ttl64) udp(sum)"),
	}, {
		spec: "vxlan-dev:tunnels=5,vni=16777211,csum=off", pods: 5, less: 50, frame: func(k int) string {
			return fmt.Sprintf("eth ip(m1.t%d>m2.t%[1]d ttl64) udp(4789 nosum) vxlan(%d) eth ip(m1.pod%[1]d>m2.pod%[1]d df ttl64) udp(sum)", k, 16777210+k)
		},
	}},
	"macvlan": {{
		spec: "macvlan", pods: 1, pairable: true, card: onCard, frame: onePod("eth ip(m1.pod1>m2.pod1 df ttl64) udp(sum)"),
	}},
	"ovs-vxlan": {{
		spec: "ovs-vxlan:datapath=netdev", pods: 1, less: 50, card: onSwitch,
		frame: onePod("eth ip(m1.t1>m2.t1 df ttl64) udp(4789 nosum) vxlan(1) eth ip(m1.pod1>m2.pod1 df ttl64) udp(sum)"),
	}, {
		spec: "ovs-vxlan:datapath=netdev,port=internal,tunnels=5,vni=77,udp-port=5799,csum=on", pods: 5, less: 50, card: onSwitch,
		frame: func(k int) string {
			return fmt.Sprintf("eth ip(m1.t1>m2.t%d df ttl64) udp(5799 sum) vxlan(77) eth ip(m1.pod%[1]d>m2.pod%[1]d df ttl64) udp(sum)", k)
		},
	}},
	"ovs-geneve": {{
		spec: "ovs-geneve:datapath=netdev", pods: 1, less: 50, card: onSwitch,
		frame: onePod("eth ip(m1.t1>m2.t1 df ttl64) udp(6081 nosum) geneve(1) eth ip(m1.pod1>m2.pod1 df ttl64) udp(sum)"),
	}, {
		spec: "ovs-geneve:datapath=netdev,tunnels=5,csum=on", pods: 5, less: 50, card: onSwitch, frame: func(k int) string {
			return fmt.Sprintf("eth ip(m1.t1>m2.t%d df ttl64) udp(6081 sum) geneve(1) eth ip(m1.pod%[1]d>m2.pod%[1]d df ttl64) udp(sum)", k)
		},
	}},
	"ovs-vlan": {{
		spec: "ovs-vlan:datapath=netdev", pods: 1, card: onSwitch,
		frame: onePod("eth 8100(100) ip(m1.pod1>m2.pod1 df ttl64) udp(sum)"),
	}, {
		spec: "ovs-vlan:datapath=netdev,port=internal,ids=5,vlan=4090", pods: 5, card: onSwitch, frame: func(k int) string {
			return fmt.Sprintf("eth 8100(%d) ip(m1.pod%d>m2.pod%[2]d df ttl64) udp(sum)", 4089+k, k)
		},
	}},
	"ovs-qinq": {{
		spec: "ovs-qinq:datapath=netdev", pods: 1, less: 8, card: onSwitch,
		frame: onePod("eth 88a8(100) 8100(1) ip(m1.pod1>m2.pod1 df ttl64) udp(sum)"),
	}, {
		spec: "ovs-qinq:datapath=netdev,port=internal,ids=5,vlan=11,inner=7", pods: 5, less: 8, card: onSwitch, frame: func(k int) string {
			return fmt.Sprintf("eth 88a8(%d) 8100(7) ip(m1.pod%d>m2.pod%[2]d df ttl64) udp(sum)", 10+k, k)
		},
	}},
	"ovn-overlay": {{
		spec: "ovn-overlay:datapath=netdev", pods: 1, less: 58, parts: 32, card: onSwitch,
		frame: onePod("eth ip(m1.t1>m2.t1 df ttl64) udp(6081 sum) geneve(1 0102:80:4) eth ip(m1.pod1>m2.pod1 df ttl64) udp(sum)"),
	}, {
		spec: "ovn-overlay:datapath=netdev,port=internal,lb=off,csum=off,mtu=1400", pods: 1, less: 100, card: onSwitch,
		frame: onePod("eth ip(m1.t1>m2.t1 df ttl64) udp(6081 nosum) geneve(1 0102:80:4) eth ip(m1.pod1>m2.pod1 df ttl64) udp(sum)"),
	}},
	"ovn-underlay": {{
		spec: "ovn-underlay:datapath=netdev", pods: 1, card: onSwitch,
		frame: onePod("eth 8100(100) ip(m1.pod1>m2.pod1 df ttl64) udp(sum)"),
	}, {
		spec: "ovn-underlay:datapath=netdev,port=internal,lb=on,services=7,vlan=4094", pods: 1, card: onSwitch,
		frame: onePod("eth 8100(4094) ip(m1.pod1>m2.pod1 df ttl64) udp(sum)"),
	}},
	"attach": {{
		// The containers' veths leave checksums and cutting to cards that are not there.
		spec: "attach", prepare: containers, pods: 1, card: onPod, frame: onePod("eth ip(m1.pod1>m2.pod1 df ttl64) udp(badsum)"),
	}},
}

// containers makes two that are there before the lab.
func containers(t *testing.T, mtu int) string {
	made := testenv.Containers(t, mtu)
	return fmt.Sprintf(":from=ns:%s,to=ns:%s", made[0].In.Name(), made[1].In.Name())
}
