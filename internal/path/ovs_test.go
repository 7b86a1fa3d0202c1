package path_test

import (
	"testing"

	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
	"github.com/venturi-net/venturi/internal/verr"
)

// Both kinds of ports, several tunnels and ids: every pod reaches its peer.
func TestOVSPods(t *testing.T) {
	l := testenv.Lab(t, lab.Options{Paths: []string{
		"ovs-vxlan:datapath=netdev,tunnels=5,vni=77,csum=on",
		"ovs-vxlan:datapath=netdev,port=internal,udp-port=5799",
		"ovs-geneve:datapath=netdev,tunnels=2,port=internal",
		"ovs-vlan:datapath=auto,ids=5",
		"ovs-vlan:datapath=netdev,port=internal,vlan=4094",
		"ovs-qinq:datapath=netdev,ids=2,inner=7",
		"ovs-qinq:datapath=netdev,port=internal",
	}})
	for _, arm := range l.Arms {
		t.Run(arm.Name, func(t *testing.T) {
			for k := range arm.Ends[0] {
				from, to := arm.Ends[0][k], arm.Ends[1][k]
				traffic.CheckTCP(t, from, to)
				traffic.CheckUDP(t, from, to, []int{1, from.MTU - 28, from.MTU - 27, 60000})
				traffic.CheckUDP(t, to, from, []int{1, from.MTU - 28, from.MTU - 27, 60000})
			}
		})
	}
}

// With more than two machines every pod reaches its peers on all of them.
func TestOVSHosts(t *testing.T) {
	l := testenv.Lab(t, lab.Options{Hosts: 3, Paths: []string{
		"ovs-vxlan:datapath=netdev,tunnels=2",
		"ovs-geneve:datapath=netdev,port=internal",
		"ovs-vlan:datapath=netdev,ids=2",
		"ovs-qinq:datapath=netdev,ids=2,port=internal",
	}})
	for _, arm := range l.Arms {
		for i := range arm.Ends {
			for j := range arm.Ends {
				for k := range arm.Ends[i] {
					if i != j {
						traffic.CheckUDP(t, arm.Ends[i][k], arm.Ends[j][k], []int{1, 3 * arm.Ends[i][k].MTU})
					}
				}
			}
		}
	}
}

// An internal port whose daemon cannot see its MTU does not get a larger one
// than that daemon takes it for, and streams pass.
func TestOVSInternalMTU(t *testing.T) {
	wire, err := lab.ParseWire("mtu=9000")
	testenv.Must(t, err)
	l := testenv.Lab(t, lab.Options{Wire: wire, Paths: []string{"ovs-vxlan:datapath=netdev,port=internal"}})
	from, to := l.Arms[0].Client(), l.Arms[0].Server()
	if from.MTU != 1500 || to.MTU != 1500 {
		t.Errorf("MTU %d and %d, want 1500", from.MTU, to.MTU)
	}
	traffic.CheckTCP(t, from, to)
}

func TestOVSOptions(t *testing.T) {
	for _, good := range []string{"ovs-vxlan", "ovs-geneve:tunnels=16,vni=16777215", "ovs-vlan:vlan=4090,ids=5", "ovs-qinq:inner=4094"} {
		if _, _, err := path.ParseSpec(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"ovs-vxlan:datapath=dpdk", "ovs-vxlan:port=4789", "ovs-vxlan:vni=0", "ovs-vxlan:vni=16777216", "ovs-vxlan:tunnels=17",
		"ovs-geneve:udp-port=65536", "ovs-vlan:vlan=4095", "ovs-vlan:vlan=0", "ovs-vlan:vlan=4091,ids=5", "ovs-vlan:inner=5",
		"ovs-qinq:inner=0", "ovs-qinq:tunnels=2",
	} {
		if _, _, err := path.ParseSpec(bad); verr.Code(err) != verr.Usage {
			t.Errorf("%s: %v, want an error with code %d", bad, err, verr.Usage)
		}
	}
}
