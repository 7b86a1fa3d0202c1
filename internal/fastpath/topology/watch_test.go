package topology_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

const (
	rules = topology.RulesChanged
	topo  = topology.TopologyChanged
	asks  = topology.BridgeAsks
)

var eventTimeout = host.ScaleTimeout(20 * time.Second)

// noPrograms owns no program.
func noPrograms(uint32) bool { return false }

// watch watches a namespace until the test ends.
func watch(t *testing.T, n *netcfg.Namespace, tell func(topology.Changes)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var w topology.Watcher
	testenv.InNetns(t, n.Path(), func() (err error) {
		w, err = topology.Watch(ctx, audit.IPv4, noPrograms, func(batch []topology.Event) {
			var all topology.Event
			for _, n := range batch {
				all.Add(n)
			}
			tell(all.Changes)
		})
		return err
	})
	t.Cleanup(func() {
		cancel()
		for err := range w.Done {
			t.Errorf("it stopped watching: %v", err)
		}
	})
}

// await waits until all wanted changes are reported, and gives all that were until then.
func await(t *testing.T, news <-chan topology.Changes, wanted topology.Changes) (got topology.Changes) {
	t.Helper()
	end := time.After(eventTimeout)
	for got&wanted != wanted {
		select {
		case c := <-news:
			got |= c
		case <-end:
			t.Fatalf("after %v only %b was told, and not %b", eventTimeout, got, wanted)
		}
	}
	return got
}

// quiet waits until nothing is reported for a moment.
func quiet(news <-chan topology.Changes) {
	for {
		select {
		case <-news:
		case <-time.After(100 * time.Millisecond):
			return
		}
	}
}

// An announcement of a pod's own device tells of it, though it is in the pod's namespace, and of no
// device of the host's.
func TestWatchOfPods(t *testing.T) {
	m, pod := machineAndPod(t, strings.ReplaceAll(overlay, "OPTIONS", ""))
	news := make(chan topology.Event, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	var w topology.Watcher
	testenv.InNetns(t, m, func() (err error) {
		if w, err = topology.Watch(ctx, audit.IPv4, noPrograms, func(batch []topology.Event) {
			for _, n := range batch {
				news <- n
			}
		}); err == nil && !w.Pods {
			err = errors.New("the kernel does not announce devices of other namespaces")
		}
		return err
	})
	t.Cleanup(func() {
		cancel()
		for err := range w.Done {
			t.Errorf("it stopped watching: %v", err)
		}
	})
	var inPod []int // the pod has more than one device, and the kernel reports late that their carrier is there
	testenv.InNetns(t, pod, func() error {
		links, err := host.Links()
		for _, link := range links {
			inPod = append(inPod, link.Attrs().Index)
		}
		return err
	})
	// What the kernel says about a device with so many names is more than is usually read at a time.
	const names = "for i in $(seq 300); do printf 'link property add dev eth0 altname a%0120d\\n' $i; done | ip -batch -; "
	for mtu, more := range map[int]string{1260: "", 1250: names} {
		testenv.Shell(t, m, "ip link set p0 promisc on; ip link set p0 promisc off; ip link set br0 mtu 1400; ip link set br0 mtu 1450")
		testenv.Shell(t, pod, more+fmt.Sprint("ip link set eth0 mtu ", mtu))
		want := topologyOf(t, m).Pods[0].PodEnd
		if want.MTU != mtu {
			t.Fatalf("the pod's end is %+v, want MTU %d", want, mtu)
		}
		for end, got := time.After(eventTimeout), (topology.PodEnd{}); got != want; {
			select {
			case n := <-news:
				if got = n.PodEnd; n.Cause == topology.LostEvents {
					t.Error("news were lost")
				}
			case <-end:
				t.Fatalf("after %v the pod's end %+v was not announced", eventTimeout, want)
			}
			if got != (topology.PodEnd{}) && (got.NSID != want.NSID || !slices.Contains(inPod, got.Index)) {
				t.Errorf("%+v was announced as a pod's end, want one of devices %v in the pod", got, inPod)
			}
		}
	}
}

// Each change of a host's network is reported as the right kind.
func TestWatch(t *testing.T) {
	n := testenv.Netns(t)
	testenv.Must(t, n.AddBridge("br0", nil, 1500))
	testenv.Must(t, netcfg.AddVeth(netcfg.VethEnd{In: n, Name: "a0"}, netcfg.VethEnd{In: n, Name: "b0"}, 1500))
	news := make(chan topology.Changes, 1000)
	watch(t, n, func(c topology.Changes) { news <- c })
	for _, c := range []struct {
		command string
		want    topology.Changes
	}{
		{"ip addr add 192.0.2.1/24 dev a0", rules | topo},
		{"ip route add 198.51.100.0/24 via 192.0.2.2", rules | topo},
		{"ip rule add pref 100 lookup main", rules | topo},
		{"ip nexthop add id 7 via 192.0.2.2 dev a0", rules | topo},
		{"ip nexthop replace id 7 via 192.0.2.3 dev a0", rules | topo},
		{"nft add table ip t", rules},
		{"ip xfrm policy add src 203.0.113.0/24 dst 203.0.113.1 dir out action allow", rules},
		{"ip link set a0 mtu 1400", topo},
		{"ip neigh replace 192.0.2.2 lladdr 02:00:00:00:00:01 dev a0", topo},
		{"ip neigh replace 192.0.2.2 lladdr 02:00:00:00:00:02 dev a0", topo},
		{"tc qdisc add dev a0 root tbf rate 1gbit burst 1mb latency 1s", topo},
		{"tc qdisc add dev a0 ingress", topo},
		{"tc filter add dev a0 ingress protocol ip prio 7 u32 match u32 0 0 flowid 1:1", topo},
		{"tc filter del dev a0 ingress prio 7", topo},
		{"tc filter add dev a0 ingress protocol ip prio 7 bpf bytecode '1,6 0 0 0,'", topo}, // without a name
		{"tc qdisc replace dev a0 root handle 1: htb; tc class add dev a0 parent 1: classid 1:1 htb rate 1gbit quantum 60000", topo},
		{"tc class del dev a0 classid 1:1", topo},
		{"ip link set b0 master br0", rules | topo},
		{"bridge link set dev b0 learning off", rules | topo},
		{"ip link set br0 type bridge ageing_time 100", rules | topo},
		{"ip link set br0 type bridge nf_call_ip6tables 1", rules | topo},
		{"ip link set br0 type bridge nf_call_iptables 1", rules | topo | asks},
		{"ip link add br1 type bridge nf_call_iptables 1", rules | topo | asks},
		{"bridge fdb add 02:00:00:00:00:03 dev b0 master", topo},
	} {
		quiet(news)
		testenv.InNetns(t, n.Path(), func() error {
			out, err := exec.Command("sh", "-c", c.command).CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%s: %w\n%s", c.command, err, out)
			}
			return err
		})
		if got := await(t, news, c.want); got&asks != c.want&asks {
			t.Errorf("%s: told was %b, want %b", c.command, got, c.want)
		}
	}
}

// watchHeld watches a namespace with a device a0. Whoever is told of a change waits then until held is closed.
func watchHeld(t *testing.T) (n *netcfg.Namespace, news chan topology.Changes, held chan struct{}) {
	t.Helper()
	n = testenv.Netns(t)
	testenv.Must(t, netcfg.AddVeth(netcfg.VethEnd{In: n, Name: "a0"}, netcfg.VethEnd{In: n, Name: "b0"}, 1500))
	testenv.Shell(t, n.Path(), "ip addr add 10.0.0.1/8 dev a0; ip link set a0 up; ip link set b0 up")
	news, held = make(chan topology.Changes, 10000), make(chan struct{})
	watch(t, n, func(c topology.Changes) {
		news <- c
		<-held
	})
	return n, news, held
}

// The news of a thousand pods, probed at once, are held until they are read.
func TestWatchHoldsNews(t *testing.T) {
	n, news, held := watchHeld(t)
	testenv.Shell(t, n.Path(), "ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:01 dev a0 nud permanent")
	await(t, news, topo)
	var batch strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&batch, "neigh add 10.1.%d.%d lladdr 02:00:00:00:00:01 dev a0 nud permanent\n", i>>8, i&255)
	}
	testenv.Shell(t, n.Path(), "ip -batch - <<'END'\n"+batch.String()+"END")
	close(held)
	await(t, news, topo)
	for end := time.After(time.Second); ; {
		select {
		case c := <-news:
			if c&rules != 0 {
				t.Fatal("news were lost: everything counts as changed")
			}
			continue
		case <-end:
		}
		return
	}
}

// A thousand changes that are pending together are told in a few batches, the last of which comes after all of them.
func TestWatchTellsTogether(t *testing.T) {
	n, news, held := watchHeld(t)
	testenv.Shell(t, n.Path(), "ip route add 192.0.2.0/24 via 10.0.0.2")
	await(t, news, rules|topo)
	var batch strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&batch, "route add 172.16.%d.%d/32 via 10.0.0.2\n", i>>8, i&255)
	}
	testenv.Shell(t, n.Path(), "ip -batch - <<'END'\n"+batch.String()+"END")
	close(held)
	await(t, news, rules|topo)
	told := 1
	for end := time.After(time.Second); ; told++ {
		select {
		case <-news:
			continue
		case <-end:
		}
		break
	}
	if told > 20 {
		t.Errorf("told %d times of 1000 routes", told)
	}
	testenv.Shell(t, n.Path(), "ip route add 198.51.100.0/24 via 10.0.0.2")
	await(t, news, rules|topo)
}

// If more changes than the socket's buffer holds, everything counts as changed, and the stored
// state is not trusted.
func TestWatchOverrun(t *testing.T) {
	n := testenv.Netns(t)
	testenv.Must(t, netcfg.AddVeth(netcfg.VethEnd{In: n, Name: "a0"}, netcfg.VethEnd{In: n, Name: "b0"}, 1500))
	testenv.Must(t, n.AddAddr("a0", netip.MustParsePrefix("10.0.0.1/8")))
	news, held := make(chan topology.Changes, 10000), make(chan struct{})
	const slow = 5
	told := 0
	watch(t, n, func(c topology.Changes) {
		news <- c
		<-held
		if told++; told <= slow+1 {
			time.Sleep(50 * time.Millisecond)
		}
	})
	neighbours := func(mac byte, from, to int) {
		t.Helper()
		testenv.InNetns(t, n.Path(), func() error {
			on, err := netlink.LinkByName("a0")
			for i := from; i < to && err == nil; i++ {
				err = netlink.NeighSet(&netlink.Neigh{LinkIndex: on.Attrs().Index, Family: netlink.FAMILY_V4, State: netlink.NUD_PERMANENT,
					IP: net.IPv4(10, 1, byte(i>>8), byte(i)), HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, mac}})
			}
			return err
		})
	}
	neighbours(1, 0, 1)
	await(t, news, topo)
	neighbours(1, 1, 20000) // the buffer holds some thousands
	neighbours(2, 0, 1)
	close(held)
	for range slow { // however long the resync takes
		await(t, news, rules|topo)
	}
	quiet(news)
	neighbours(1, 0, 1) // the same state as before the overrun
	await(t, news, topo)
}
