package discover_test

import (
	"errors"
	"fmt"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath/discover"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
)

// site is a node, with one namespace for all that is at the other ends of its links.
type site struct {
	node, farEnds *netcfg.Namespace
}

// newWriter makes a writer of namespaces that are gone after the test.
func newWriter(t *testing.T) *netcfg.Writer {
	t.Helper()
	w, err := netcfg.Owned(testenv.Claim(t))
	testenv.Must(t, err)
	return w
}

// newSite makes a site with a number, which is gone after the test.
func newSite(t *testing.T, w *netcfg.Writer, number int) *site {
	t.Helper()
	s := &site{}
	for name, n := range map[string]**netcfg.Namespace{"node": &s.node, "others": &s.farEnds} {
		name = w.Name(fmt.Sprint(name, number))
		var err error
		*n, err = w.Create(name)
		testenv.Must(t, err)
		t.Cleanup(func() {
			(*n).Close()
			testenv.Must(t, w.Delete(name))
		})
	}
	return s
}

// errUnsupported: this kernel, or this machine, lacks what a script needs.
var errUnsupported = errors.New("there is no such thing here")

// unsupported is what programs say where there is none. nft says it of an expression without a module.
var unsupported = []string{"not supported", "Unknown device type", "not found", "qdisc kind is unknown", "Could not process rule: No such file or directory", "'ovs_datapath' does not exist"}

// sh runs a script on the node. It knows the functions of wiring.
func (s *site) sh(script string) error {
	return host.Do(s.node.Path(), func() error {
		out, err := exec.Command("sh", "-e", "-c", strings.ReplaceAll(functions+script, "OTHERS", s.farEnds.Name())).CombinedOutput()
		text := string(out)
		switch {
		case err == nil:
			return nil
		case slices.ContainsFunc(unsupported, func(message string) bool { return strings.Contains(text, message) }):
			return errUnsupported
		}
		return errors.Join(err, errors.New(text))
	})
}

func (s *site) plan(t *testing.T, of topology.Family) (p *discover.Plan) {
	t.Helper()
	testenv.InNetns(t, s.node.Path(), func() (err error) {
		p, err = discover.Find(of)
		return err
	})
	return p
}

// functions are what wirings are built of, as CNI plugins build them.
const functions = `
pair() { # NAME MAC-OF-THE-OTHER-END: a link to another namespace
	ip link add $1 type veth peer name o$1 address $2 netns OTHERS
	ip link set $1 up
	ip -n OTHERS link set o$1 up
}
wire() { # NAME PREFIX
	pair $1 02:00:00:00:aa:$2
	ip addr add 192.0.$2.1/24 dev $1
	ip neigh add 192.0.$2.2 lladdr 02:00:00:00:aa:$2 dev $1
}
bridged() { # BRIDGE NAME NUMBER: a pod as plugin bridge makes it, which has been heard
	pair $2 02:00:00:00:bb:0$3
	ip link set $2 master $1
	ip neigh add 10.244.0.$3 lladdr 02:00:00:00:bb:0$3 dev $1 nud reachable
	bridge fdb replace 02:00:00:00:bb:0$3 dev $2 master static
}
routed() { # NAME NUMBER: a pod as Calico and plugin ptp make it
	pair $1 02:00:00:00:bb:0$2
	ip route add 10.244.0.$2/32 dev $1 scope link
	ip neigh add 10.244.0.$2 lladdr 02:00:00:00:bb:0$2 dev $1 nud reachable
}
cni0() {
	ip link add cni0 address 02:00:00:00:dd:01 mtu 1450 type bridge
	ip addr add 10.244.0.1/24 dev cni0
	ip link set cni0 up
	bridged cni0 veth2 2
	bridged cni0 veth3 3
}
tunnel() { # NAME VNI PORT OPTIONS: a device as flanneld makes it, and a peer
	name=$1 vni=$2 port=$3; shift 3
	ip link add $name address 02:00:00:00:cc:01 mtu 1450 type vxlan id $vni dstport $port local 192.0.10.1 dev ${UPLINK:-eth0} nolearning $*
	ip addr add 10.244.0.0/32 dev $name
	ip link set $name up
}
above() { # DEVICE: one that has eth0 below it, and takes over its addresses
	ip addr flush dev eth0
	ip addr add 192.0.10.1/24 dev $1
	ip link set $1 up
	ip neigh add 192.0.10.2 lladdr 02:00:00:00:aa:10 dev $1
}
bond() { # NAME MODE OPTIONS: a bond of eth0
	name=$1 mode=$2; shift 2
	ip link add $name type bond mode $mode $*
	ip link set eth0 down
	ip link set eth0 master $name
}
externalTunnel() { # a tunnel whose networks are those of the routes, and a peer
	ip link add flannel.1 address 02:00:00:00:cc:01 mtu 1450 type vxlan dstport 8472 external
	ip addr add 10.244.0.0/32 dev flannel.1
	ip link set flannel.1 up
	ip neigh add 10.244.2.0 lladdr 02:00:00:00:cc:02 dev flannel.1 nud permanent
	bridge fdb add 02:00:00:00:cc:02 dev flannel.1 dst 192.0.10.2 src_vni 1
	ip route add 10.244.2.0/24 via 10.244.2.0 dev flannel.1 onlink
}
ipv6Tunnel() { # a tunnel over IPv6, and a peer
	ip link add flannel.1 address 02:00:00:00:cc:01 mtu 1430 type vxlan id 1 dstport 8472 local fd00::1 dev eth0 nolearning
	ip addr add 10.244.0.0/32 dev flannel.1
	ip link set flannel.1 up
	ip neigh add 10.244.2.0 lladdr 02:00:00:00:cc:02 dev flannel.1 nud permanent
	bridge fdb add 02:00:00:00:cc:02 dev flannel.1 dst fd00::2
	ip route add 10.244.2.0/24 via 10.244.2.0 dev flannel.1 onlink
}
remote() { # NAME NUMBER: a node behind a tunnel
	ip neigh add 10.244.$2.0 lladdr 02:00:00:00:cc:0$2 dev $1 nud permanent
	bridge fdb add 02:00:00:00:cc:0$2 dev $1 dst 192.0.10.$2
	ip route add 10.244.$2.0/24 via 10.244.$2.0 dev $1 onlink
}
geneve() { # NAME VNI NUMBER OPTIONS: a device to a node, which is known
	name=$1 vni=$2 number=$3; shift 3
	ip link add $name mtu 1450 type geneve id $vni remote 192.0.10.$number $*
	ip addr add 10.255.$number.1/30 dev $name
	ip link set $name up
	ip neigh add 10.255.$number.2 lladdr 02:00:00:00:cc:0$number dev $name nud reachable
	ip route add 10.244.$number.0/24 via 10.255.$number.2 dev $name
}
six() { # DEVICE DEVICE: IPv6 on the wire, and for the pods 2 and 3, which are behind devices
	echo 1 > /proc/sys/net/ipv6/conf/all/forwarding
	ip addr add fd00:c8::1/64 dev eth0 nodad
	ip neigh add fd00:c8::2 lladdr 02:00:00:00:aa:10 dev eth0
	ip neigh add fd00:f4::2 lladdr 02:00:00:00:bb:02 dev $1 nud reachable
	ip neigh add fd00:f4::3 lladdr 02:00:00:00:bb:03 dev $2 nud reachable
}
echo 1 > /proc/sys/net/ipv4/ip_forward
`

const (
	flannel = `
		wire eth0 10
		ip route add default via 192.0.10.254
		cni0
		tunnel flannel.1 1 8472
		remote flannel.1 2
	`
	hostGateway = `
		wire eth0 10
		cni0
		ip route add 10.244.2.0/24 via 192.0.10.2 dev eth0
	`
	calico = `
		wire eth0 10
		routed cali2 2
		routed cali3 3
		ip route add blackhole 10.244.0.0/26 proto bird
		ip route add 10.244.2.0/26 via 192.0.10.2 dev eth0 proto bird
	`
)

// calicoIPIP is what Calico wires with IPIP: the device tunl0 of the module, which a first device loads.
const calicoIPIP = `
	wire eth0 10
	routed cali2 2
	routed cali3 3
	ip route add default via 192.0.10.254
	ip link add ipip9 type ipip local 192.0.10.9
	ip link del ipip9
	ip link set tunl0 mtu 1480 up
	ip addr add 10.244.0.0/32 dev tunl0
	ip route add blackhole 10.244.0.0/26 proto bird
	ip route add 10.244.2.0/26 via 192.0.10.2 dev tunl0 proto bird onlink
`

// geneveMesh has a geneve device to each peer, with a VNI of its own.
const geneveMesh = `
	wire eth0 10
	ip neigh add 192.0.10.3 lladdr 02:00:00:00:aa:11 dev eth0
	cni0
	ip route add default via 192.0.10.254
	geneve geneve2 7 2
	geneve geneve3 8 3
`

// What CNI plugins wire is found, and carried whole.
func TestFindsWirings(t *testing.T) {
	w := newWriter(t)
	for i, c := range []struct {
		name, script                     string
		kind, wire, tunnel, first, other string
		peers                            string
	}{
		{"Flannel vxlan", flannel, "vxlan", "eth0", "flannel.1", "veth2", "veth3", "192.0.10.2"},
		{"Flannel host-gw", hostGateway, "routed", "eth0", "", "veth2", "veth3", "192.0.10.2"},
		{"bridge, the network routes", "wire eth0 10; cni0; ip route add default via 192.0.10.2", "routed", "eth0", "", "veth2", "veth3", "192.0.10.2"},
		{"Calico without encapsulation", calico, "routed", "eth0", "", "cali2", "cali3", "192.0.10.2"},
		{"Calico VXLAN", "wire eth0 10; routed cali2 2; routed cali3 3; ip route add default via 192.0.10.254; tunnel vxlan.calico 4096 4789; remote vxlan.calico 2", "vxlan", "eth0", "vxlan.calico", "cali2", "cali3", "192.0.10.2"},
		{"Calico IPIP", calicoIPIP, "ipip", "eth0", "tunl0", "cali2", "cali3", "192.0.10.2"},
		{"Geneve to each node", geneveMesh, "geneve", "eth0", "geneve2", "veth2", "veth3", "192.0.10.2 192.0.10.3"},
		{"Flannel vxlan over a VLAN", "wire eth0 10; ip link add eth0.100 link eth0 type vlan id 100; above eth0.100; cni0; UPLINK=eth0.100; tunnel flannel.1 1 8472; remote flannel.1 2", "vxlan", "eth0.100", "flannel.1", "veth2", "veth3", "192.0.10.2"},
		{"Flannel host-gw over QinQ, of a MAC of its own", "wire eth0 10; ip link add eth0.5 link eth0 type vlan protocol 802.1ad id 5 loose_binding on gvrp on; ip link set eth0.5 up; ip link add eth0.5.6 address 02:00:00:00:99:01 link eth0.5 type vlan id 6 ingress-qos-map 2:3 egress-qos-map 6:7; above eth0.5.6; cni0; ip route add 10.244.2.0/24 via 192.0.10.2 dev eth0.5.6", "routed", "eth0.5.6", "", "veth2", "veth3", "192.0.10.2"},
		{"Flannel vxlan over a bond", "wire eth0 10; bond bond0 802.3ad xmit_hash_policy layer3+4; above bond0; cni0; UPLINK=bond0; tunnel flannel.1 1 8472; remote flannel.1 2", "vxlan", "bond0", "flannel.1", "veth2", "veth3", "192.0.10.2"},
		{"Calico over a VLAN on a bond", "wire eth0 10; bond bond0 active-backup; ip link set bond0 up; ip link add bond0.100 link bond0 type vlan id 100; above bond0.100; routed cali2 2; routed cali3 3; ip route add blackhole 10.244.0.0/26 proto bird; ip route add 10.244.2.0/26 via 192.0.10.2 dev bond0.100 proto bird", "routed", "bond0.100", "", "cali2", "cali3", "192.0.10.2"},
		{"plugin ptp", "wire eth0 10; routed veth2 2; routed veth3 3; ip addr add 10.244.0.1/32 dev veth2; ip addr add 10.244.0.1/32 dev veth3; ip route add 10.244.2.0/24 via 192.0.10.2", "routed", "eth0", "", "veth2", "veth3", "192.0.10.2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, w, i)
			err := s.sh(c.script)
			if errors.Is(err, errUnsupported) && !agenttest.InGuest() {
				t.Skip(err)
			}
			testenv.Must(t, err)
			p := s.plan(t, topology.IPv4)
			if p.Kind != c.kind || p.Wire != c.wire || p.Tunnel != c.tunnel || p.Off != "" || !p.CarriesAll() {
				t.Errorf("planned %+v", p)
			}
			testenv.InNetns(t, s.node.Path(), func() error {
				chosen, err := discover.Choose(topology.IPv4)
				if err == nil && !reflect.DeepEqual(chosen.Config(), p.Config()) {
					t.Errorf("chosen is %+v, and planned %+v", chosen.Config(), p.Config())
				}
				return err
			})
			if len(p.Pods) != 2 || p.Pods[0] != (discover.PlannedPod{Device: c.first, Addr: "10.244.0.2", Outlook: discover.Carried}) || p.Pods[1].Device != c.other {
				t.Errorf("pods: %+v", p.Pods)
			}
			var peers []string
			for _, peer := range p.Peers {
				if peers = append(peers, peer.Addr.String()); peer.Outlook != discover.Carried || len(peer.Routes) != 1 {
					t.Errorf("peer: %+v", peer)
				}
			}
			if strings.Join(peers, " ") != c.peers {
				t.Errorf("peers %v, want %s", peers, c.peers)
			}
		})
	}
}
