package ovn

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/ovn-org/libovsdb/model"
)

// Names of what Kube-OVN makes for a cluster's first subnet.
const (
	switchName    = "ovn-default"
	routerName    = "ovn-cluster"
	localnetName  = "localnet." + switchName
	tcpBalancer   = "cluster-tcp-loadbalancer"
	balancerProto = "tcp"
)

// Network is one subnet of a cluster: a logical switch that spans all machines.
type Network struct {
	Ports []Port
	// Router, if there is one, joins the subnet to others, as an overlay's does.
	Router *Router
	// Localnet, if there is one, leads to the machines' own network, as an
	// underlay's does.
	Localnet *Localnet
	// Services are what the switch balances over their endpoints; none: it has
	// no load balancer, and no packet is tracked for the sake of one.
	Services map[netip.AddrPort][]netip.AddrPort
}

// Port is where a pod is plugged in. The interface of the machine's switch
// that has the name as its iface-id is bound to it.
type Port struct {
	Name string
	MAC  net.HardwareAddr
	Addr netip.Addr
}

// Router is the subnet's gateway.
type Router struct {
	MAC  net.HardwareAddr
	Addr netip.Prefix
}

// Localnet is the way into a network that OVN does not make.
type Localnet struct {
	Name string // under which ovn-bridge-mappings gives each machine's bridge
	VLAN int
}

// rows are what the network becomes in the database. Their UUIDs are names
// that hold within the transaction that inserts them.
func (n Network) rows() []model.Model {
	// The number by which tunnels know the switch is given, so that no two runs
	// differ in it.
	sw := &logicalSwitch{UUID: "switch", Name: switchName, Config: map[string]string{"requested-tnl-key": "1"}}
	var rows []model.Model
	port := func(p *logicalSwitchPort) {
		p.UUID = fmt.Sprintf("port%d", len(sw.Ports))
		sw.Ports = append(sw.Ports, p.UUID)
		rows = append(rows, p)
	}
	for _, p := range n.Ports {
		port(&logicalSwitchPort{Name: p.Name, Addresses: []string{p.MAC.String() + " " + p.Addr.String()}})
	}
	if r := n.Router; r != nil {
		there, here := routerName+"-"+switchName, switchName+"-"+routerName
		rows = append(rows,
			&logicalRouter{UUID: "router", Name: routerName, Ports: []string{"gateway"}},
			&logicalRouterPort{UUID: "gateway", Name: there, MAC: r.MAC.String(), Networks: []string{r.Addr.String()}})
		port(&logicalSwitchPort{
			Name: here, Type: "router", Addresses: []string{"router"},
			Options: map[string]string{"router-port": there},
		})
	}
	if l := n.Localnet; l != nil {
		port(&logicalSwitchPort{
			Name: localnetName, Type: "localnet", Addresses: []string{"unknown"}, Tag: &l.VLAN,
			Options: map[string]string{"network_name": l.Name},
		})
	}
	if len(n.Services) > 0 {
		protocol := balancerProto
		sw.Balancers = []string{"balancer"}
		rows = append(rows, &loadBalancer{
			UUID: "balancer", Name: tcpBalancer, Protocol: &protocol, VIPs: vips(n.Services),
			Options: map[string]string{"prefer_local_backend": "false"},
		})
	}
	return append(rows, sw, &nbGlobal{UUID: "global", Options: map[string]string{
		// Kube-OVN's choice: a match on invalid packets keeps cards from
		// taking the flows over.
		"use_ct_inv_match": "false",
	}})
}

// vips writes Services as the column vips has them.
func vips(services map[netip.AddrPort][]netip.AddrPort) map[string]string {
	out := make(map[string]string, len(services))
	for vip, endpoints := range services {
		var to []string
		for _, e := range endpoints {
			to = append(to, e.String())
		}
		out[vip.String()] = strings.Join(to, ",")
	}
	return out
}
