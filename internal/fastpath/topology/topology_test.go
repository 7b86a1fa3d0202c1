package topology_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

// overlay is a host with a pod on a bridge, and a tunnel to another host over a wire.
const overlay = `
ip link set w0 up
ip addr add 192.0.2.1/24 dev w0
ip neigh add 192.0.2.2 lladdr 02:00:00:00:00:02 dev w0
ip link add br0 address 02:00:00:00:01:00 mtu 1450 type bridge
ip link set br0 up
ip addr add 10.0.1.1/24 dev br0
ip link set p0 mtu 1450 master br0 up
ip neigh add 10.0.1.2 lladdr 02:00:00:00:01:02 dev br0
bridge fdb add 02:00:00:00:01:02 dev p0 master static
ip link add v0 address 02:00:00:00:03:01 mtu 1450 type vxlan id 7 dstport 4789 local 192.0.2.1 dev w0 nolearning OPTIONS
ip link set v0 up
bridge fdb append 02:00:00:00:03:02 dev v0 dst 192.0.2.2
`

// Read describes the way that packets actually take.
func TestRead(t *testing.T) {
	const none = 0
	for _, c := range []struct {
		name, options, more string
		pods, size          int // 0: no peer
		df                  bool
		refused             string
	}{
		{name: "overlay", pods: 1, size: 1450},
		{name: "df", options: "df set", pods: 1, size: 1450, df: true},
		{name: "ttl inherit", options: "ttl inherit", pods: 1, size: none, refused: "v0 its outer headers are not the same for all packets (ttl inherit)"},
		{name: "tos inherit", options: "tos inherit", pods: 1, size: none, refused: "v0 its outer headers are not the same for all packets (tos inherit)"},
		{name: "df inherit", options: "df inherit", pods: 1, size: none, refused: "v0 its outer headers are not the same for all packets (df inherit)"},
		{name: "gbp", options: "gbp", pods: 1, size: none, refused: "v0 its outer headers are not the same for all packets (gbp)"},
		{name: "wire", more: "ip link set w0 mtu 1400", pods: 1, size: 1350},
		{name: "tunnel", more: "ip link set v0 mtu 1300", pods: 1, size: 1300},
		{name: "route of the wire", more: "ip route add 192.0.2.2 dev w0 mtu 1200", pods: 1, size: 1150},
		{name: "route of the tunnel", more: "ip route add 10.0.2.0/24 dev v0 mtu 1100", pods: 1, size: 1100},
		{name: "stale", more: "ip neigh replace 192.0.2.2 lladdr 02:00:00:00:00:02 dev w0 nud stale", pods: 1, size: 1450},
		{name: "failed", more: "ip neigh replace 192.0.2.2 dev w0 nud failed", pods: 1, size: none},
		{name: "wire down", more: "ip link set w0 down", pods: 1, size: none},
		{name: "not on a bridge", more: "ip link set p0 nomaster", pods: 0, size: 1450},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, _ := machineAndPod(t, strings.ReplaceAll(overlay, "OPTIONS", c.options)+c.more)
			topo := topologyOf(t, m)
			size, df := 0, false
			for _, p := range topo.NextHops {
				size, df = p.MTU, p.Encap.DontFragment
			}
			if len(topo.Pods) != c.pods || len(topo.NextHops) > 1 || size != c.size || df != c.df {
				t.Errorf("pods %+v and peers %+v, want %d and one for packets of %d bytes", topo.Pods, topo.NextHops, c.pods, c.size)
			}
			if got := refusals(topo); got != c.refused {
				t.Errorf("refused: %q, want %q", got, c.refused)
			}
		})
	}
}

// machineAndPod makes a host from a script, and its pod's namespace.
func machineAndPod(t *testing.T, script string) (m, pod string) {
	t.Helper()
	w, err := netcfg.Owned(testenv.Claim(t))
	testenv.Must(t, err)
	var spaces []*netcfg.Namespace
	for _, name := range []string{"m1", "p1"} {
		n, err := w.Create(w.Name(name))
		testenv.Must(t, err)
		t.Cleanup(n.Close)
		spaces = append(spaces, n)
	}
	for device, inside := range map[string]string{"w0": "w1", "p0": "eth0"} {
		testenv.Must(t, netcfg.AddVeth(netcfg.VethEnd{In: spaces[0], Name: device}, netcfg.VethEnd{In: spaces[1], Name: inside}, 1500))
	}
	testenv.Shell(t, spaces[0].Path(), script)
	return spaces[0].Path(), spaces[1].Path()
}

func topologyOf(t *testing.T, m string) (topo topology.Topology) {
	t.Helper()
	testenv.InNetns(t, m, func() (err error) {
		topo, err = topology.Read(topology.DeviceNames{Wire: "w0", Tunnels: []string{"v0"}, Pods: []string{"p0"}}, noPrograms)
		return err
	})
	return topo
}

func refusals(topo topology.Topology) string {
	var all []string
	for _, r := range topo.Refusals {
		all = append(all, r.Device+" "+r.Reason)
	}
	return strings.Join(all, "; ")
}

// hasOption runs a script in a namespace, and reports whether this kernel supports what it uses.
func hasOption(t *testing.T, namespace, script string) (is bool) {
	t.Helper()
	is = true
	testenv.InNetns(t, namespace, func() error {
		out, err := exec.Command("sh", "-e", "-c", script).CombinedOutput()
		for _, lacks := range []string{"not supported", "Unknown device type", "qdisc kind is unknown", "Specified filter", "TC classifier not found", "lwt encapsulation type"} {
			if err != nil && strings.Contains(string(out), lacks) {
				is, err = false, nil
			}
		}
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
	return is
}

// The topology says how long the bridge of pods remembers them.
func TestAgeing(t *testing.T) {
	m, _ := machineAndPod(t, strings.ReplaceAll(overlay, "OPTIONS", "")+"ip link set br0 type bridge ageing_time 4200")
	if got := topologyOf(t, m).Ageing; got != 42*time.Second {
		t.Errorf("the bridge forgets after %v, want 42 s", got)
	}
}

// Qdiscs and filters that read more of a packet than its contents are found on the wire and on its
// lower devices.
func TestReadersOfWire(t *testing.T) {
	const (
		filter   = " protocol ip prio 7 u32 match u32 0 0 flowid 1:1; "
		byDevice = " protocol ip prio 7 u32 match u32 0 0 indev br0 flowid 1:1; "
		clsact   = "tc qdisc add dev w0 clsact; tc filter add dev w0 egress"
		classes  = "tc qdisc add dev w0 root handle 1: htb default 1; "
		inner    = classes + "tc class add dev w0 parent 1: classid 1:2 htb rate 1gbit quantum 60000; "
		hfsc     = "tc qdisc add dev w0 root handle 1: hfsc; tc class add dev w0 parent 1: classid 1:2 hfsc ls m2 1gbit; "
		before   = "a queueing discipline clsact with filters"
		ofHTB    = "a queueing discipline htb with filters"
	)
	for _, c := range []struct{ name, more, byMarks, unproven string }{
		{"nothing", "", "", ""},
		{"classes", classes, "", ""},
		{"classes and filters", classes + "tc filter add dev w0 parent 1:" + filter, ofHTB, ""},
		{"filters of a class", inner + "tc filter add dev w0 parent 1:2" + filter, ofHTB, ""},
		{"filters of a class, by device", inner + "tc filter add dev w0 parent 1:2" + byDevice, ofHTB, ofHTB + " of kind u32 by indev"},
		{"filters of a class of hfsc", hfsc + "tc filter add dev w0 parent 1:2" + filter, "a queueing discipline hfsc with filters", ""},
		{"rate limit", "tc qdisc add dev w0 root handle 1: tbf rate 1gbit burst 1mb latency 1s", "", ""},
		{"filters in front of all", clsact + filter, before, ""},
		{"filters by device", clsact + byDevice, before, before + " of kind u32 by indev"},
		{"flower", clsact + " protocol ip flower ip_proto udp dst_port 9999 ip_tos 0x10 classid 1:1", before, ""},
		{"flower by device", clsact + " protocol ip flower indev br0 ip_proto udp dst_port 9999 classid 1:1", before, before + " of kind flower by indev"},
		{"flower by connection", clsact + " protocol ip flower ct_state +trk classid 1:1", before, before + " of kind flower by ct_state"},
		{"matchall", clsact + " matchall classid 1:1", before, ""},
		{"marks", clsact + " protocol ip handle 7 fw classid 1:1", before, ""},
		{"marks, by device", clsact + " protocol ip handle 7 fw indev br0 classid 1:1", before, before + " of kind fw by indev"},
		{"bytecode", clsact + " bpf bytecode '2,48 0 0 9,6 0 0 0,'", before, ""},
		{"bytecode by hash", clsact + " bpf bytecode '2,32 0 0 4294963232,6 0 0 0,'", before, before + " of kind bpf"},
		{"filters where it receives", "tc qdisc add dev w0 clsact; tc filter add dev w0 ingress" + byDevice, "", ""},
		{"bands by priority", "tc qdisc add dev w0 root handle 1: prio", "", "a queueing discipline prio"},
		{"cake", "tc qdisc add dev w0 root cake", "", ""},
		{"cake by marks", "tc qdisc add dev w0 root cake fwmark 0xf", "a queueing discipline cake with fwmark", ""},
		{"cake by connections", "tc qdisc add dev w0 root cake nat", "", "a queueing discipline cake with nat"},
		{"red", "tc qdisc add dev w0 root red limit 400000 avpkt 1000 bandwidth 100mbit", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, _ := machineAndPod(t, strings.ReplaceAll(overlay, "OPTIONS", ""))
			if !hasOption(t, m, c.more) {
				t.Skip("this kernel cannot")
			}
			topo := topologyOf(t, m)
			for _, p := range topo.NextHops {
				if w := topo.TC[p.WireDevice]; w.MarkReader != c.byMarks || w.UnknownReader != c.unproven {
					t.Errorf("by marks %q, unproven %q, want %q and %q", w.MarkReader, w.UnknownReader, c.byMarks, c.unproven)
				}
			}
			if len(topo.NextHops) != 1 {
				t.Errorf("peers %+v, want one", topo.NextHops)
			}
		})
	}
}
