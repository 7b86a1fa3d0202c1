package node_test

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
)

// byFilters attaches programs as tc filters, as a word for [enable].
const byFilters = "filters"

// attachments are such words for the ways to attach programs that this kernel has.
func attachments() []string {
	if kernel.HasTCX() {
		return []string{"tcx", byFilters}
	}
	return []string{byFilters}
}

// eachDualStack runs a test for each wiring of dualStack and each way to attach programs. In short, each wiring has
// one way, and each way has a bridge and single pods, with and without a tunnel.
func eachDualStack(t *testing.T, test func(t *testing.T, w wiring, attach string)) {
	ways := attachments()
	for i, w := range dualStack {
		for _, attach := range ways {
			if !agenttest.InFull() && attach != ways[(i+i/2)%len(ways)] {
				continue
			}
			t.Run(w.name+", "+attach, func(t *testing.T) { test(t, w, attach) })
		}
	}
}

// startBoth starts a process on each node, and waits until the programs for IPv6 are attached: while clsact is
// added to a device, the kernel may drop a packet.
func (c *cluster) startBoth(t *testing.T, args ...string) (first, second *exec.Cmd) {
	t.Helper()
	first, second = c.start(t, 0, new(syscall.SysProcAttr), args...), c.start(t, 1, new(syscall.SysProcAttr), args...)
	c.untilAttached(t, false)
	return first, second
}

// untilAttached waits until both nodes have attached their programs for IPv6, and for IPv4 if its neighbours
// are known.
func (c *cluster) untilAttached(t *testing.T, four bool) {
	t.Helper()
	for i := range c.nodes {
		c.untilNodeAttached(t, i, four)
	}
}

// untilNodeAttached waits until one of them has.
func (c *cluster) untilNodeAttached(t *testing.T, i int, four bool) {
	t.Helper()
	attached := func(s *fastpath.State) bool { return s != nil && s.Pods > 0 }
	for end := time.Now().Add(testenv.Timeout); ; time.Sleep(10 * time.Millisecond) {
		s := c.status(t, i)
		if s.IPv6 != nil && attached(s.IPv6.State) && (!four || attached(s.State)) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %v, node %d has not attached its programs: %+v", testenv.Timeout, i, s)
		}
	}
}

// patient sends a datagram again that is lost, as one may be while clsact comes and goes.
func patient(send func(wait time.Duration) error) (exchange func() error) {
	return func() error {
		for end := time.Now().Add(testenv.Timeout); ; {
			err := send(testenv.Timeout / 100)
			if !os.IsTimeout(err) || time.Now().After(end) {
				return err
			}
		}
	}
}

// dualStack are nodes and pods with both versions of IP, whose neighbours of IPv6 find each other.
var dualStack = []wiring{
	{"Flannel host-gw", wirings[1].node + on6("eth0 veth0 cni0", nodeLink) + `
		ip addr add fd00:f4:I::1/64 dev cni0 nodad`, wirings[1].pod + on6("eth0", podLink) + `
		ip addr add fd00:f4:I::2/64 dev eth0 nodad
		ip route add default via fd00:f4:I::1`},
	{"Calico without encapsulation", wirings[2].node + on6("eth0 veth0", nodeLink) + `
		ip addr add fe80::1/64 dev veth0 nodad
		ip route add fd00:f4:I::2/128 dev veth0`, wirings[2].pod + on6("eth0", podLink) + `
		ip addr add fd00:f4:I::2/128 dev eth0 nodad
		ip route add default via fe80::1 dev eth0`},
	{"Flannel vxlan", wirings[0].node + on6("eth0 veth0 cni0 flannel.1", nodeLink) + `
		ip addr add fd00:f4:I::1/64 dev cni0 nodad
		` + tunnel6("flannel-v6.1", 8472), wirings[0].pod + on6("eth0", podLink) + `
		ip link set eth0 mtu 1430
		ip addr add fd00:f4:I::2/64 dev eth0 nodad
		ip route add default via fd00:f4:I::1`},
	{"Calico VXLAN without Felix's rules", wirings[3].node + on6("eth0 veth0 vxlan.calico", nodeLink) + `
		ip addr add fe80::1/64 dev veth0 nodad
		ip route add fd00:f4:I::2/128 dev veth0
		` + tunnel6("vxlan-v6.calico", 4789), wirings[3].pod + on6("eth0", podLink) + `
		ip link set eth0 mtu 1430
		ip addr add fd00:f4:I::2/128 dev eth0 nodad
		ip route add default via fe80::1 dev eth0`},
}

// tunnel6 joins two nodes by a vxlan device over IPv6.
func tunnel6(device string, port int) string {
	return strings.NewReplacer("DEVICE", device, "PORT", strconv.Itoa(port)).Replace(`
		ip link add DEVICE address 02:00:00:00:c6:0I mtu 1430 type vxlan id 1 dstport PORT local fd00:c8::I dev eth0 nolearning
		ip link set DEVICE addrgenmode none
		echo 0 > /proc/sys/net/ipv6/conf/DEVICE/disable_ipv6
		ip addr add fd00:f4:I::/128 dev DEVICE nodad
		ip link set DEVICE up
		ip neigh add fd00:f4:J:: lladdr 02:00:00:00:c6:0J dev DEVICE nud permanent
		bridge fdb add 02:00:00:00:c6:0J dev DEVICE dst fd00:c8::J
		ip route add fd00:f4:J::/64 via fd00:f4:J:: dev DEVICE onlink
		`)
}

// Addresses of nodes and pods that are valid on a link only.
const (
	nodeLink = "fe80::1:I"
	podLink  = "fe80::2:I"
)

// on6 switches IPv6 on for devices, and gives each an address on its link: the kernel would take a while
// for one of its own.
func on6(devices, link string) string {
	return `
		for d in ` + devices + `; do ip link set $d addrgenmode none; done
		for d in all default ` + devices + `; do echo 0 > /proc/sys/net/ipv6/conf/$d/disable_ipv6; echo 0 > /proc/sys/net/ipv6/conf/$d/accept_dad; done
		for d in ` + devices + `; do ip addr add ` + link + `/64 dev $d nodad; done
		`
}

// wire6 joins two nodes by IPv6.
const wire6 = `
		echo 1 > /proc/sys/net/ipv6/conf/all/forwarding
		ip addr add fd00:c8::I/64 dev eth0 nodad
		ip -6 route show exact fd00:f4:J::/64 | grep -q . || ip route add fd00:f4:J::/64 via fd00:c8::J dev eth0
		`
