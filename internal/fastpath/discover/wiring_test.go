package discover_test

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath/discover"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

// site is a node, with one namespace for all that is at the other ends of its links.
type site struct {
	node, farEnds *netcfg.Namespace
}

func newSite(t *testing.T) *site {
	t.Helper()
	w, node := testenv.Namespace(t)
	outside, err := w.Create(w.Name("others"))
	testenv.Must(t, err)
	t.Cleanup(outside.Close)
	return &site{node: node, farEnds: outside}
}

// errUnsupported: this kernel, or this machine, lacks what a script needs.
var errUnsupported = errors.New("there is no such thing here")

// sh runs a script on the node. It knows the functions of wiring.
func (s *site) sh(script string) error {
	return host.Do(s.node.Path(), func() error {
		out, err := exec.Command("sh", "-e", "-c", strings.NewReplacer("OTHERS", s.farEnds.Name()).Replace(functions)+script).CombinedOutput()
		text := string(out)
		switch {
		case err == nil:
			return nil
		case strings.Contains(text, "not supported"), strings.Contains(text, "Unknown device type"), strings.Contains(text, "not found"):
			return errUnsupported
		}
		return errors.Join(err, errors.New(text))
	})
}

func (s *site) wire(t *testing.T, script string) {
	t.Helper()
	testenv.Must(t, s.sh(script))
}

func (s *site) plan(t *testing.T) (p *discover.Plan) {
	t.Helper()
	testenv.InNetns(t, s.node.Path(), func() (err error) {
		p, err = discover.Find()
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
	ip link add $name address 02:00:00:00:cc:01 mtu 1450 type vxlan id $vni dstport $port local 192.0.10.1 dev eth0 nolearning $*
	ip addr add 10.244.0.0/32 dev $name
	ip link set $name up
}
remote() { # NAME NUMBER: a node behind a tunnel
	ip neigh add 10.244.$2.0 lladdr 02:00:00:00:cc:0$2 dev $1 nud permanent
	bridge fdb add 02:00:00:00:cc:0$2 dev $1 dst 192.0.10.$2
	ip route add 10.244.$2.0/24 via 10.244.$2.0 dev $1 onlink
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

// What CNI plugins wire is found, and carried whole.
func TestFindsWirings(t *testing.T) {
	for _, c := range []struct {
		name, script                     string
		kind, wire, tunnel, first, other string
		peer                             string
	}{
		{"Flannel vxlan", flannel, "vxlan", "eth0", "flannel.1", "veth2", "veth3", "192.0.10.2"},
		{"Flannel host-gw", hostGateway, "routed", "eth0", "", "veth2", "veth3", "192.0.10.2"},
		{"bridge, the network routes", "wire eth0 10; cni0; ip route add default via 192.0.10.2", "routed", "eth0", "", "veth2", "veth3", "192.0.10.2"},
		{"Calico without encapsulation", calico, "routed", "eth0", "", "cali2", "cali3", "192.0.10.2"},
		{"Calico VXLAN", "wire eth0 10; routed cali2 2; routed cali3 3; ip route add default via 192.0.10.254; tunnel vxlan.calico 4096 4789; remote vxlan.calico 2", "vxlan", "eth0", "vxlan.calico", "cali2", "cali3", "192.0.10.2"},
		{"plugin ptp", "wire eth0 10; routed veth2 2; routed veth3 3; ip addr add 10.244.0.1/32 dev veth2; ip addr add 10.244.0.1/32 dev veth3; ip route add 10.244.2.0/24 via 192.0.10.2", "routed", "eth0", "", "veth2", "veth3", "192.0.10.2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t)
			s.wire(t, c.script)
			p := s.plan(t)
			if p.Kind != c.kind || p.Wire != c.wire || p.Tunnel != c.tunnel || p.Off != "" || !p.CarriesAll() {
				t.Errorf("planned %+v", p)
			}
			if len(p.Pods) != 2 || p.Pods[0] != (discover.PlannedPod{Device: c.first, Addr: "10.244.0.2", Outlook: discover.Carried}) || p.Pods[1].Device != c.other {
				t.Errorf("pods: %+v", p.Pods)
			}
			if len(p.Peers) != 1 || p.Peers[0].Addr.String() != c.peer || p.Peers[0].Outlook != discover.Carried {
				t.Errorf("peers: %+v", p.Peers)
			}
		})
	}
}

// refusal is a wiring of which something must not be touched.
type refusal struct {
	name   string
	base   string // wiring; empty: flannel
	script string
	what   string // device of a pod, address of a peer, "off" or "left DEVICE"
	reason string // part of it
	waits  bool   // it is not refused: nobody has heard of it yet
}

var refusals = []refusal{
	{name: "limited by the plugin bandwidth, to the pod", script: "tc qdisc add dev veth2 root tbf rate 10mbit burst 100kb latency 1s", what: "veth2", reason: "has a queueing discipline tbf"},
	{name: "limited by the plugin bandwidth, from the pod", script: "tc qdisc add dev veth2 ingress; tc filter add dev veth2 parent ffff: protocol ip prio 7 u32 match u32 0 0 flowid 1:1", what: "veth2", reason: "has tc filters at its ingress"},
	{name: "a filter to the pod", script: "tc qdisc add dev veth2 clsact; tc filter add dev veth2 egress protocol ip prio 7 u32 match u32 0 0 flowid 1:1", what: "veth2", reason: "has tc filters at its egress"},
	{name: "a chain at the pod's device", script: "nft 'table netdev x { chain c { type filter hook ingress device veth2 priority 0; }; }'", what: "veth2", reason: "has an nftables chain at its ingress"},
	{name: "a pod that is down", script: "ip link set veth2 down", what: "veth2", reason: "is down"},
	{name: "a pod with two addresses", script: "ip neigh add 10.244.0.9 lladdr 02:00:00:00:bb:02 dev cni0", what: "veth2", reason: "several addresses (10.244.0.2, 10.244.0.9)"},
	{name: "a pod nobody has heard", script: "ip neigh del 10.244.0.2 dev cni0", what: "veth2", reason: "not known yet", waits: true},
	{name: "a routed pod nobody has heard", base: calico, script: "ip neigh del 10.244.0.2 dev cali2", what: "cali2", reason: "not known yet", waits: true},
	{name: "a bridge that filters VLANs", script: "ip link set cni0 type bridge vlan_filtering 1", what: "veth2", reason: "cni0 filters VLANs"},
	{name: "a filter of the bridge", script: "tc qdisc add dev cni0 clsact; tc filter add dev cni0 ingress protocol ip prio 7 u32 match u32 0 0 flowid 1:1", what: "veth2", reason: "cni0 has tc filters at its ingress"},
	{name: "a port with a backup", script: "bridged cni0 veth8 8; bridge link set dev veth2 backup_port veth8", what: "veth2", reason: "has attribute 34 of a bridge's port"},
	{name: "a pod in a VRF", script: "ip link add red type vrf table 9; ip link set red up; ip link set veth2 master red", what: "veth2", reason: "is a port of red, which is no bridge but of kind vrf"},
	{name: "a pair that nothing is routed to", script: "pair veth9 02:00:00:00:bb:09", what: "veth9", reason: "no route to a single address leads to it"},

	{name: "a rule that counts", script: "nft 'table ip x { chain c { type filter hook forward priority 0; limit rate 1000/second accept; }; }'", what: "off", reason: "(ip x c handle 2: limit)"},
	{name: "a rule by flags of TCP", script: "nft 'table ip x { chain c { type filter hook forward priority 0; tcp flags psh drop; }; }'", what: "off", reason: "(ip x c handle 2: tcp flags)"},
	{name: "a rule by connection marks", script: "nft 'table ip x { chain c { type filter hook forward priority 0; ct mark 7 drop; ct mark set 7; }; }'", what: "off", reason: "(ip x c handle 2: ct mark, which ip x c handle 3 writes)"},
	{name: "a rule by length", script: "nft 'table ip x { chain c { type filter hook forward priority 0; ip length > 1000 drop; }; }'", what: "off", reason: "(ip x c handle 2: bytes 2 to 3 of a header)"},
	{name: "a limit of iptables", script: "iptables-nft -A FORWARD -m limit --limit 10/s -j ACCEPT", what: "off", reason: "(ip filter FORWARD handle 2: "},
	{name: "packets of pods that are not tracked, and a limit behind", script: "iptables-nft -t raw -A PREROUTING -i cni0 -j NOTRACK; nft 'table ip x { chain c { type filter hook forward priority 0; ct state established accept; limit rate 10/second accept; }; }'", what: "off", reason: "(ip x c handle 3: limit)"},
	{name: "iptables-legacy", script: "iptables-legacy -A FORWARD -j ACCEPT", what: "off", reason: "iptables-legacy has rules (filter)"},
	{name: "IPsec", script: "ip xfrm policy add src 203.0.113.0/24 dst 203.0.113.1 dir out action allow", what: "off", reason: "IPsec"},
	{name: "a policy rule by TOS", script: "ip rule add tos 0x08 blackhole pref 100", what: "off", reason: "policy rule 100 goes by the TOS"},
	{name: "a route by TOS", script: "ip route add blackhole 203.0.113.1 tos 0x08", what: "off", reason: "goes by the TOS"},
	{name: "a node that forwards nothing", script: "echo 0 > /proc/sys/net/ipv4/ip_forward", what: "off", reason: "net.ipv4.ip_forward is 0"},
	{name: "Cilium", script: "ip link add cilium_host type veth peer name cilium_net", what: "off", reason: "Cilium forwards the packets of pods by BPF programs of its own (device cilium_"},
	{name: "Calico's eBPF mode", base: calico, script: "ip link add bpfin.cali type veth peer name bpfout.cali", what: "off", reason: "Calico's eBPF mode"},
	{name: "no other node", base: "cni0", what: "off", reason: "no route leads to pods of other nodes"},
	{name: "an uplink that is down", base: hostGateway, script: "ip link set eth0 down", what: "off", reason: "no route leads to pods of other nodes"},

	{name: "a peer with a port of its own", script: "bridge fdb replace 02:00:00:00:cc:02 dev flannel.1 dst 192.0.10.2 port 4790", what: "192.0.10.2", reason: "its entry for 02:00:00:00:cc:02 has"},
	{name: "a peer without a forwarding entry", script: "bridge fdb del 02:00:00:00:cc:02 dev flannel.1", what: "10.244.2.0", reason: "no forwarding entry", waits: true},
	{name: "a peer whose outer MAC nobody knows", script: "ip neigh del 192.0.10.2 dev eth0", what: "192.0.10.2", reason: "the MAC address of 192.0.10.2 on eth0 is not known yet", waits: true},
	{name: "a next hop nobody has heard", base: hostGateway, script: "ip neigh del 192.0.10.2 dev eth0", what: "192.0.10.2", reason: "is not known yet", waits: true},
	{name: "a tunnel that copies the TOS", base: "wire eth0 10; cni0; tunnel flannel.1 1 8472 tos inherit; remote flannel.1 2", what: "192.0.10.2", reason: "its outer headers are not the same for all packets (tos inherit)"},
	{name: "a tunnel for group policies", base: "wire eth0 10; cni0; tunnel flannel.1 1 8472 gbp; remote flannel.1 2", what: "192.0.10.2", reason: "(gbp)"},
	{name: "a tunnel that is limited", script: "tc qdisc add dev flannel.1 root tbf rate 10mbit burst 100kb latency 1s", what: "192.0.10.2", reason: "flannel.1 has a queueing discipline tbf"},
	{name: "a filter where the wire receives", script: "tc qdisc add dev eth0 clsact; tc filter add dev eth0 ingress protocol ip prio 7 u32 match u32 0 0 flowid 1:1", what: "192.0.10.2", reason: "eth0 has tc filters at its ingress"},
	{name: "a chain where the wire sends", base: hostGateway, script: "nft 'table netdev x { chain c { type filter hook egress device eth0 priority 0; }; }'", what: "192.0.10.2", reason: "eth0 has an nftables chain at its egress"},
	{name: "a route of several next hops", script: "ip route add 203.0.113.0/24 nexthop via 10.244.2.0 dev flannel.1 onlink nexthop via 192.0.10.2 dev eth0", what: "192.0.10.2", reason: "has several next hops"},

	{name: "a second tunnel", script: "ip link add vxlan9 type vxlan id 9 dstport 4789 local 192.0.10.1 dev eth0; ip link set vxlan9 up; remote flannel.1 3; ip route add 10.9.0.0/16 via 10.9.0.1 dev vxlan9 onlink", what: "left vxlan9", reason: "leads to 10.9.0.0/16: the fast path uses one tunnel only, which is flannel.1"},
	{name: "peers without the tunnel", script: "wire eth1 11; ip route add 10.9.0.0/16 via 192.0.11.2", what: "left eth1", reason: "leads to 10.9.0.0/16: the fast path uses one wire only, which is eth0"},
	{name: "a tunnel of a program, as Flannel's udp", script: "ip tuntap add flannel0 mode tun; ip link set flannel0 up; ip route add 10.9.0.0/16 dev flannel0", what: "left flannel0", reason: "leads to 10.9.0.0/16 by a program's tunnel, which the fast path does not support"},
	{name: "IPIP, as Calico's", base: calico, script: "ip link add tun9 type ipip local 192.0.10.1; ip link set tun9 up; ip route add 10.9.0.0/26 via 192.0.10.2 dev tun9 onlink", what: "left tun9", reason: "by IPIP, which the fast path does not support"},
	{name: "WireGuard", script: "ip link add wg0 type wireguard; ip link set wg0 up; ip route add 10.9.0.0/16 dev wg0", what: "left wg0", reason: "by WireGuard, which the fast path does not support"},
	{name: "an Ethernet overlay", script: "ip link add vx9 type vxlan id 9 dstport 4789 local 192.0.10.1 dev eth0; ip link set vx9 up master cni0", what: "left vx9", reason: "is a port of cni0: the fast path does not support Ethernet overlays"},
	{name: "a virtual machine on the pods' bridge", script: "ip tuntap add tap9 mode tap; ip link set tap9 up master cni0", what: "left tap9", reason: "is a port of cni0 and a tuntap device"},
	{name: "a pod that is a router", script: "ip route add 10.9.0.0/16 via 10.244.0.2", what: "left cni0", reason: "leads to 10.9.0.0/16 through a pod"},
}

// What the fast path must not touch is named, each with its reason, and nothing changes.
func TestRefusesWirings(t *testing.T) {
	for _, c := range refusals {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t)
			base := c.base
			if base == "" {
				base = flannel
			}
			if err := s.sh(base + "\n" + c.script); errors.Is(err, errUnsupported) {
				t.Skip(err)
			} else {
				testenv.Must(t, err)
			}
			p := s.plan(t)
			outlook, reason := answer(p, c.what)
			want := discover.Slow
			if c.waits {
				want = discover.Waiting
			}
			if outlook != want || !strings.Contains(reason, c.reason) {
				t.Errorf("%s: %q, %q; want %q, %q\n%+v", c.what, outlook, reason, want, c.reason, p)
			}
			if c.what == "off" && p.CarriesAny() || p.CarriesAll() != c.waits {
				t.Errorf("carries any: %v, all: %v", p.CarriesAny(), p.CarriesAll())
			}
			others := 0
			for _, pod := range p.Pods {
				if pod.Device != c.what && pod.Outlook != discover.Slow {
					others++
				}
			}
			if c.what == "veth2" && !strings.Contains(c.reason, "cni0") && others == 0 {
				t.Errorf("the other pod is not carried: %+v", p.Pods)
			}
		})
	}
}

// answer is what a plan says of something.
func answer(p *discover.Plan, of string) (discover.Outlook, string) {
	if of == "off" && p.Off != "" {
		return discover.Slow, p.Off
	}
	for _, pod := range p.Pods {
		if pod.Device == of {
			return pod.Outlook, pod.Reason
		}
	}
	for _, peer := range p.Peers {
		if peer.Addr.String() == of {
			return peer.Outlook, peer.Reason
		}
	}
	for _, l := range p.LeftAlone {
		if "left "+l.Device == of {
			return discover.Slow, l.Reason
		}
	}
	return "", "it is not in the plan"
}
