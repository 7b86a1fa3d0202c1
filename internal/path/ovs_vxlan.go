package path

import "github.com/venturi-net/venturi/internal/feature"

// ovsVXLAN is Open vSwitch with VXLAN tunnels.
var ovsVXLAN = Driver{
	Name:     "ovs-vxlan",
	Summary:  "pods on Open vSwitch, VXLAN between the machines",
	Example:  "OpenShift SDN; OpenStack with Open vSwitch and VXLAN",
	OwnCard:  true,
	Options:  ovsTunnelOptions("4789"),
	Resolve:  ovsSettle,
	Overhead: func(Values) int { return vxlanOverhead },
	MTU:      ovsMTU(vxlanOverhead),
	Needs:    func(v Values) []feature.Need { return ovsNeeds(v, feature.VXLAN) },
	Up:       ovsTunnel("vxlan"),
}
