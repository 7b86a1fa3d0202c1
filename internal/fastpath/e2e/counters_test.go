package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	vnl "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/fastpathtest"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
)

// counted is a counter of packets that is measured while a flow is carried.
type counted struct {
	name   string
	rule   bool // it is that of a rule
	raised bool // by carried packets
	read   func() uint64
}

const (
	countedPackets = 200 // in each direction
	// countedNoise is how many packets of others raise a counter at most, such as ARP probes.
	countedNoise = countedPackets / 4
)

// What the daemon says misses carried packets does, and everything else counts each of them: statistics of devices and captures on the way, rules, connections and IP. On the slow path, all
// of it counts.
func TestFastPathCounters(t *testing.T) {
	requireFastPath(t)
	l := testenv.Lab(t, lab.Options{Paths: supportedFastPaths()})
	m := l.Machines[0]
	countRules(t, m, 0)
	testenv.Shell(t, m.Namespace, "echo 1 > /proc/sys/net/netfilter/nf_conntrack_acct")
	for _, arm := range l.Arms {
		t.Run(arm.Name, func(t *testing.T) { checkCounters(t, m, arm) })
	}
	for index, arm := range l.Arms {
		if arm.Path == "routed+fast" || arm.Path == "netkit+fast" && arm.Options == "mode=l2" {
			t.Run(arm.Name+" IPv6", func(t *testing.T) { checkCountersOfIPv6(t, l, index) })
		}
	}
}

// checkCountersOfIPv6 does so for IPv6 between the pods of an arm: routed, in VXLAN over IPv6, and so with the
// pods behind bridges.
func checkCountersOfIPv6(t *testing.T, l *lab.Lab, index int) {
	six := addIPv6(t, l, index)
	for _, c := range []struct {
		name      string
		tunnelled bool
		change    func(t testing.TB, l *lab.Lab, index int)
	}{
		{name: "routed"},
		{"in a tunnel", true, tunnelIPv6},
		{"in a tunnel, behind bridges", true, bridgeIPv6},
	} {
		if c.change != nil {
			c.change(t, l, index)
		}
		t.Run(c.name, func(t *testing.T) {
			countRules(t, l.Machines[0], tunnelPort6) // the daemon writes a new number of rules a little later
			checkCounters(t, l.Machines[0], startIPv6(t, l, index, six, c.tunnelled))
		})
	}
}

// checkCounters does so for a fast path of a machine.
func checkCounters(t *testing.T, m lab.Machine, arm lab.Arm) {
	t.Helper()
	config, err := fastpath.Load(filepath.Join(filepath.Dir(arm.Pins[0]), "fast.json"))
	testenv.Must(t, err)
	countRules(t, m, config.Port)
	forgetConnections(t, m) // one between the same pods may be left
	fastpathtest.WithFlow(t, arm, func(exchange func(time.Duration) error) {
		fastpathtest.WaitCarried(t, arm, exchange)
		others := otherCounters(t, m, arm, config)
		missing := 0 // rules that carried packets do not raise
		for _, r := range others {
			if r.rule && !r.raised {
				missing++
			}
		}
		untilState(t, arm, exchange, func(s *fastpath.State) bool {
			return s.Counters != nil && s.Counters.Conntrack && s.Counters.Rules.Number == missing
		})
		said := *stateOf(t, arm).Counters
		said.AskKernel()
		checkDevices(t, said, config, m)
		rows := slices.Concat(devicesCounted(t, said, config, arm, m), others)
		checkCounted(t, arm, rows, exchange, true)
		for i := range rows {
			rows[i].raised = true
		}
		defer testenv.Shell(t, m.Namespace, "nft delete table inet slow") // else all that follows fails, too
		testenv.Shell(t, m.Namespace, "nft 'table inet slow { chain c { type filter hook forward priority 1; limit rate 1000000/second accept; }; }'")
		untilState(t, arm, exchange, func(s *fastpath.State) bool { return s.Off != "" && s.Counters == nil })
		checkCounted(t, arm, rows, exchange, false)
	})
}

// countRules has rules of a machine count what is forwarded, and the packets of tunnels to a UDP port.
func countRules(t *testing.T, m lab.Machine, port uint16) {
	t.Helper()
	testenv.Shell(t, m.Namespace, fmt.Sprintf(`nft 'table inet acct; delete table inet acct; table inet acct {
		chain forward { type filter hook forward priority 0; ct state established counter; }
		chain input { type filter hook input priority 0; udp dport %[1]d counter; }
		chain output { type filter hook output priority 0; udp dport %[1]d counter; }
	}'`, port))
}

// otherCounters are those of rules, connections and IP that packets of an arm raise on the network's own path.
func otherCounters(t *testing.T, m lab.Machine, arm lab.Arm, c *fastpath.Config) []counted {
	t.Helper()
	inet6 := arm.Client().Addr.Is6()
	statistic := func(name string) func() uint64 { return func() uint64 { return ipStatistic(t, m, inet6, name) } }
	rule := func(name, chain string, raised bool) counted {
		return counted{name: name, rule: true, raised: raised, read: func() uint64 { return ruleCounter(t, m, chain) }}
	}
	all := []counted{
		rule("counter of a rule", "forward", false),
		{name: "accounting of connections", read: func() uint64 { return connectionCounter(t, m, arm) }},
		{name: "IP statistics of what is forwarded", read: statistic(map[bool]string{false: "ForwDatagrams", true: "Ip6OutForwDatagrams"}[inet6])},
	}
	if c.Port != 0 { // what counts a tunnel's packets counts carried ones if its device sends and gets these
		byDevice := c.Kind == fastpath.VXLAN6
		all = append(all, rule("counter of a rule for tunnel packets that come", "input", byDevice), rule("counter of a rule for tunnel packets that leave", "output", byDevice),
			counted{name: "IP statistics of tunnel packets that come", raised: byDevice, read: statistic(map[bool]string{false: "InDelivers", true: "Ip6InDelivers"}[inet6])})
	}
	return all
}

// checkDevices wants a daemon to name all devices that packets of its pod pass on the slow path.
func checkDevices(t *testing.T, said fastpath.BypassedCounters, c *fastpath.Config, m lab.Machine) {
	t.Helper()
	var bridges []string
	kind := ""
	testenv.InNetns(t, m.Namespace, func() error {
		pod, err := vnl.LinkByName(c.Devices.Pods[0])
		if err != nil {
			return err
		}
		kind = pod.Type()
		if bridge, err := vnl.LinkByIndex(pod.Attrs().MasterIndex); err == nil {
			bridges = append(bridges, bridge.Attrs().Name)
		}
		return nil
	})
	var tunnels []string
	if c.Kind != fastpath.VXLAN6 { // whose device carried packets pass
		tunnels = c.Devices.Tunnels
	}
	if !slices.Equal(said.Tunnels, tunnels) || !slices.Equal(said.Bridges, bridges) || said.Veths+said.Netkits != 1 || (said.Netkits == 1) != (kind == "netkit") {
		t.Errorf("the daemon names %+v; they bypass tunnels %v, bridges %v and a pod behind %s", said, tunnels, bridges, kind)
	}
}

// devicesCounted are the counters of the devices on the way of an arm's packets, and captures there.
func devicesCounted(t *testing.T, said fastpath.BypassedCounters, c *fastpath.Config, arm lab.Arm, m lab.Machine) (all []counted) {
	t.Helper()
	device := func(where, namespace, name string, rx, tx, captureIn, captureOut bool) {
		statistics := func() *vnl.LinkStatistics { return statisticsOf(t, namespace, name) }
		every, incoming := openCounter(t, namespace, name), openCounter(t, namespace, name)
		testenv.Must(t, unix.SetsockoptInt(incoming.fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1))
		all = append(all,
			counted{name: where + " RX", raised: rx, read: func() uint64 { return statistics().RxPackets }},
			counted{name: where + " TX", raised: tx, read: func() uint64 { return statistics().TxPackets }},
			counted{name: where + " capture of what comes", raised: captureIn, read: func() uint64 { return incoming.total(t) }},
			counted{name: where + " capture of what leaves", raised: captureOut, read: func() uint64 {
				seen := every.total(t)
				return seen - incoming.total(t)
			}},
		)
	}
	for _, name := range slices.Concat(said.Tunnels, said.Bridges) {
		device(name, m.Namespace, name, false, false, false, false)
	}
	passed := []string{c.Devices.Wire}
	for _, name := range c.Devices.Tunnels {
		if !slices.Contains(said.Tunnels, name) {
			passed = append(passed, name)
		}
	}
	for _, name := range passed {
		device(name, m.Namespace, name, true, true, true, true)
		testenv.Shell(t, m.Namespace, "tc qdisc replace dev "+name+" root handle 7: pfifo limit 1000")
		all = append(all, counted{name: name + " queue", raised: true, read: func() uint64 { return queuedBy(t, m.Namespace, name) }})
	}
	veth := said.Veths > 0
	device("pod's device on the host", m.Namespace, c.Devices.Pods[0], veth, false, veth, false)
	device("device in the pod", arm.Client().Namespace, arm.Client().Device, !said.InPods, true, true, true)
	return all
}

// checkCounted exchanges datagrams, of which nearly all are carried by the first machine or none, and
// wants each counter to be raised by them or not.
func checkCounted(t *testing.T, arm lab.Arm, rows []counted, exchange func(time.Duration) error, carries bool) {
	t.Helper()
	read := func() (values []uint64) {
		time.Sleep(20 * time.Millisecond) // the kernel hands packets on a little later
		for _, r := range rows {
			values = append(values, r.read())
		}
		return values
	}
	for end := time.Now().Add(testenv.Timeout); ; {
		carried, before := fastpathtest.CarriedPackets(t, arm), read()
		for range countedPackets {
			testenv.Must(t, exchange(testenv.Timeout))
		}
		after, now := read(), fastpathtest.CarriedPackets(t, arm)
		if slow := 2*countedPackets - int(now[0]-carried[0]) - int(now[1]-carried[1]); carries && slow > countedNoise/2 || !carries && slow < 2*countedPackets {
			if time.Now().After(end) {
				t.Fatalf("after %v, %d of %d packets are slow; is it to carry: %v", testenv.Timeout, slow, 2*countedPackets, carries)
			}
			continue
		}
		for i, r := range rows {
			rise := int(after[i] - before[i])
			t.Logf("%s: %d", r.name, rise)
			if r.raised && rise < countedPackets || !r.raised && rise > countedNoise {
				t.Errorf("%s: %d packets each way, carried: %v, have raised it by %d; want that: %v", r.name, countedPackets, carries, rise, r.raised)
			}
		}
		return
	}
}

func statisticsOf(t *testing.T, namespace, device string) (s *vnl.LinkStatistics) {
	t.Helper()
	testenv.InNetns(t, namespace, func() error {
		l, err := vnl.LinkByName(device)
		if err == nil {
			s = l.Attrs().Statistics
		}
		return err
	})
	return s
}

// queuedBy is how many packets the queueing discipline of a device has sent.
func queuedBy(t *testing.T, namespace, device string) (packets uint64) {
	t.Helper()
	testenv.InNetns(t, namespace, func() error {
		l, err := vnl.LinkByName(device)
		if err != nil {
			return err
		}
		queues, err := vnl.QdiscList(l)
		for _, q := range queues {
			if is := q.Attrs(); is.Parent == vnl.HANDLE_ROOT && is.Statistics != nil && is.Statistics.Basic != nil {
				packets = uint64(is.Statistics.Basic.Packets)
			}
		}
		return err
	})
	return packets
}

// captureCounter counts the packets that a capture sees.
type captureCounter struct {
	fd      int
	packets uint64
}

func openCounter(t *testing.T, namespace, device string) *captureCounter {
	t.Helper()
	c := &captureCounter{fd: traffic.OpenTap(t, namespace, device)}
	t.Cleanup(func() { unix.Close(c.fd) })
	return c
}

// total is how many packets it has seen, dropped ones included.
func (c *captureCounter) total(t *testing.T) uint64 {
	t.Helper()
	stats, err := unix.GetsockoptTpacketStats(c.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS) // since the last call
	testenv.Must(t, err)
	c.packets += uint64(stats.Packets)
	return c.packets
}

var rulePackets = regexp.MustCompile(`counter packets (\d+)`)

// ruleCounter is what the rule of a chain has counted.
func ruleCounter(t *testing.T, m lab.Machine, chain string) (packets uint64) {
	t.Helper()
	testenv.InNetns(t, m.Namespace, func() error {
		out, err := exec.Command("nft", "list", "chain", "inet", "acct", chain).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		shown := rulePackets.FindStringSubmatch(string(out))
		if shown == nil {
			return fmt.Errorf("no counter in %s", out)
		}
		packets, err = strconv.ParseUint(shown[1], 10, 64)
		return err
	})
	return packets
}

// connectionCounter is how many packets the connection of a path's flow has had on a machine.
func connectionCounter(t *testing.T, m lab.Machine, arm lab.Arm) uint64 {
	t.Helper()
	f := flowOf(t, m, arm)
	if f == nil {
		t.Fatal("the flow has no connection")
	}
	return f.CountersOrig.Packets + f.CountersReply.Packets
}

// ipStatistic is a count of a machine's packets of a version of IP.
func ipStatistic(t *testing.T, m lab.Machine, inet6 bool, name string) (packets uint64) {
	t.Helper()
	testenv.InNetns(t, m.Namespace, func() error {
		file, values := "/proc/thread-self/net/snmp", map[string]string{}
		if inet6 {
			file = "/proc/thread-self/net/snmp6"
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		lines := strings.Split(string(text), "\n")
		if !inet6 { // a line of names, and one of values
			is := strings.Fields(lines[1])
			for i, name := range strings.Fields(lines[0]) {
				values[name] = is[i]
			}
		}
		for _, line := range lines {
			if one := strings.Fields(line); inet6 && len(one) == 2 {
				values[one[0]] = one[1]
			}
		}
		if packets, err = strconv.ParseUint(values[name], 10, 64); err != nil {
			return fmt.Errorf("%s in %s: %w", name, file, err)
		}
		return nil
	})
	return packets
}
