package path

import "github.com/venturi-net/venturi/internal/feature"

// ovsGeneve is Open vSwitch with Geneve tunnels, whose headers carry no
// options.
var ovsGeneve = Driver{
	Name:     "ovs-geneve",
	Summary:  "pods on Open vSwitch, Geneve between the machines",
	Example:  "Antrea with its default encapsulation",
	OwnCard:  true,
	Options:  ovsTunnelOptions("6081"),
	Resolve:  ovsSettle,
	Overhead: func(Values) int { return geneveOverhead },
	MTU:      ovsMTU(geneveOverhead),
	Needs:    func(v Values) []feature.Need { return ovsNeeds(v, feature.Geneve) },
	Up:       ovsTunnel("geneve"),
}

const geneveOverhead = 50 // outer IPv4 20, UDP 8, Geneve 8, inner Ethernet 14
