package e2e_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/cluster"
	"github.com/venturi-net/venturi/internal/testenv/clustertest"
	"github.com/venturi-net/venturi/internal/testenv/fastpathtest"
)

// On nodes that are wired as by Calico, with rules as Felix writes them beside those of kube-proxy, plan
// explains every pod and peer, and the fast path carries nearly all packets between pods, also through
// a Service: without encapsulation, and with VXLAN. Pods come and go, a node is drained, kube-proxy rewrites
// its rules, a policy takes hold, and when the daemons have gone, killed or not, the nodes are as before.
func TestClusterCalico(t *testing.T) {
	f := newFastPaths(t, newPluginFor(t, clustertest.Raise(t, cluster.Options{Backend: "calico"})))
	service := f.service(t, "server")
	felix := newFelix(t, f)
	for _, vxlan := range []bool{false, true} {
		t.Run(map[bool]string{false: "no encapsulation", true: "VXLAN"}[vxlan], func(t *testing.T) {
			felix.encapsulate(t, vxlan)
			changes := []clusterChange{{"a policy", felix.changePolicy}}
			if !vxlan {
				changes = append(f.changes(service), changes...)
			}
			f.checkFollows(t, service, changes...)
		})
	}
}

// felix keeps the rules of the nodes as Felix does: for the pods that are there, and what policies say.
type felix struct {
	*fastPaths
	mu       sync.Mutex
	vxlan    bool
	selected map[string]fastpathtest.FelixPod // by device: those that a policy selects
	devices  map[string][]string              // by node: those that it has rules of
}

// newFelix installs the rules, and follows the pods until the test is over.
func newFelix(t *testing.T, f *fastPaths) *felix {
	t.Helper()
	x := &felix{fastPaths: f, selected: map[string]fastpathtest.FelixPod{}, devices: map[string][]string{}}
	for _, n := range f.Nodes {
		for set, kind := range fastpathtest.FelixSets {
			x.inNode(t, n, func() error {
				return netlink.IpsetCreate(set, kind, netlink.IpsetCreateOptions{Family: netlink.FAMILY_V4})
			})
		}
		pool := netip.MustParsePrefix("10.244.0.0/16")
		x.member(t, n, fastpathtest.FelixPools, pool, true)
		x.member(t, n, fastpathtest.FelixMasq, pool, true)
		x.member(t, n, fastpathtest.FelixHost, hostPrefix(n.IP), true)
		for _, other := range f.Nodes {
			x.member(t, n, fastpathtest.FelixHosts, hostPrefix(other.IP), true)
		}
		testenv.Must(t, x.write(n, fastpathtest.Felix.Install))
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
			for _, n := range f.Nodes {
				if !slices.Equal(calicoDevices(n), x.devicesOf(n)) {
					if err := x.write(n, fastpathtest.Felix.Update); err != nil {
						t.Error(err)
					}
				}
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-stopped })
	return x
}

func hostPrefix(addr string) netip.Prefix { return netip.PrefixFrom(netip.MustParseAddr(addr), 32) }

// calicoDevices are the devices of pods that a node has.
func calicoDevices(n cluster.Node) (devices []string) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/root/sys/class/net/cali*", n.PID))
	for _, file := range files {
		devices = append(devices, filepath.Base(file))
	}
	return devices
}

func (x *felix) devicesOf(n cluster.Node) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.devices[n.Name]
}

// write writes the rules of a node in one transaction.
func (x *felix) write(n cluster.Node, render func(fastpathtest.Felix) string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	devices := calicoDevices(n)
	rules := fastpathtest.Felix{Prefix: "cali", Port: udpPort, VXLAN: x.vxlan}
	for _, device := range devices {
		pod := x.selected[device]
		pod.Device = device
		rules.Pods = append(rules.Pods, pod)
	}
	for _, device := range x.devices[n.Name] {
		if !slices.Contains(devices, device) {
			rules.OldDevices = append(rules.OldDevices, device)
		}
	}
	err := loadRules(n, render(rules), "iptables-nft-restore", "--noflush")
	if err == nil {
		x.devices[n.Name] = devices
	}
	return err
}

// inNode does something in the network namespace of a node.
func (x *felix) inNode(t *testing.T, n cluster.Node, do func() error) {
	t.Helper()
	testenv.InNetns(t, fmt.Sprintf("/proc/%d/ns/net", n.PID), do)
}

// member adds addresses to a set of a node, or removes them.
func (x *felix) member(t *testing.T, n cluster.Node, set string, addrs netip.Prefix, add bool) {
	t.Helper()
	entry := &netlink.IPSetEntry{IP: net.IP(addrs.Addr().AsSlice()), CIDR: uint8(addrs.Bits()), Replace: true}
	x.inNode(t, n, func() error {
		if add {
			return netlink.IpsetAdd(set, entry)
		}
		return netlink.IpsetDel(set, entry)
	})
}

// encapsulate has packets between nodes encapsulated, or not.
func (x *felix) encapsulate(t *testing.T, vxlan bool) {
	t.Helper()
	x.mu.Lock()
	x.vxlan = vxlan
	x.mu.Unlock()
	for i, n := range x.Nodes {
		if vxlan {
			x.inTunnel(t, i)
		}
		testenv.Must(t, x.write(n, fastpathtest.Felix.Update))
	}
}

// inTunnel makes Calico's tunnel device on a node, and has the routes to the pods of others lead through it.
func (x *felix) inTunnel(t *testing.T, i int) {
	t.Helper()
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Spec     struct{ PodCIDR netip.Prefix }
		}
	}
	testenv.Must(t, x.Request(t.Context(), http.MethodGet, "/api/v1/nodes", nil, &list))
	blocks := map[string]netip.Prefix{}
	for _, n := range list.Items {
		blocks[n.Metadata.Name] = n.Spec.PodCIDR
	}
	n := x.Nodes[i]
	mac := func(i int) string { return fmt.Sprintf("66:00:00:00:00:%02x", i+1) }
	commands := fmt.Sprintf(`link add vxlan.calico address %s mtu 1450 type vxlan id 4096 dstport 4789 local %s dev eth0 nolearning
addr add %s/32 dev vxlan.calico
link set vxlan.calico up
`, mac(i), n.IP, blocks[n.Name].Addr())
	forwarding := ""
	for j, peer := range x.Nodes {
		if j != i {
			commands += fmt.Sprintf(`neigh replace %[1]s lladdr %[2]s dev vxlan.calico nud permanent
route replace %[3]s via %[1]s dev vxlan.calico onlink proto 80
`, blocks[peer.Name].Addr(), mac(j), blocks[peer.Name])
			forwarding += fmt.Sprintf("fdb replace %s dev vxlan.calico dst %s\n", mac(j), peer.IP)
		}
	}
	testenv.Must(t, errors.Join(loadRules(n, commands, "ip", "-batch", "-"), loadRules(n, forwarding, "bridge", "-batch", "-")))
}

// changePolicy has a policy select a pod. An established flow of a client that it admits goes on when it
// denies the client, as without the fast path, and new ones do not begin. What cuts the pod off ends all.
func (x *felix) changePolicy(t *testing.T) {
	pod, client := x.pods["guarded"], x.pods["client"]
	n, to := x.node(t, pod.node), netip.AddrPortFrom(pod.addr, udpPort)
	words := strings.Fields(x.onNode(t, n.Name, "ip", "-o", "route", "show", pod.addr.String()))
	device := words[slices.Index(words, "dev")+1]
	load := func(p fastpathtest.FelixPod) time.Time {
		x.mu.Lock()
		x.selected[device] = p
		x.mu.Unlock()
		if err := x.write(n, fastpathtest.Felix.Update); err != nil {
			t.Error(err)
		}
		return time.Now()
	}
	admit := func(on bool) { x.member(t, n, fastpathtest.FelixClients, netip.PrefixFrom(client.addr, 32), on) }
	defer load(fastpathtest.FelixPod{})
	exchange := client.datagrams(t, to)
	x.untilCarried(t, pod, exchange)
	admit(true)
	load(fastpathtest.FelixPod{Policy: true})
	x.untilCarried(t, pod, exchange)

	admit(false)
	refused := client.datagrams(t, to)
	for range 10 {
		if refused(host.ScaleTimeout(50*time.Millisecond)) == nil {
			t.Fatal("a flow begins though the policy denies it")
		}
	}
	x.untilCarried(t, pod, exchange)
	restore := func() {
		admit(true)
		load(fastpathtest.FelixPod{Policy: true})
		x.untilCarried(t, pod, exchange)
	}
	checkCut(t, exchange, func() time.Time { return load(fastpathtest.FelixPod{Policy: true, Disabled: true}) }, restore)
	restore()
	if err := refused(testenv.Timeout); err != nil {
		t.Error(errors.Join(errors.New("the policy admits the client again"), err))
	}
	admit(false)
}
