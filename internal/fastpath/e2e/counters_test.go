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
	testenv.Shell(t, m.Namespace, `
		nft 'table ip acct { chain c { type filter hook forward priority 0; ct state established counter; }; }'
		echo 1 > /proc/sys/net/netfilter/nf_conntrack_acct`)
	for _, arm := range l.Arms {
		t.Run(arm.Name, func(t *testing.T) {
			config, err := fastpath.Load(filepath.Join(filepath.Dir(arm.Pins[0]), "fast.json"))
			testenv.Must(t, err)
			fastpathtest.WithFlow(t, arm, func(exchange func(time.Duration) error) {
				fastpathtest.WaitCarried(t, arm, exchange)
				untilState(t, arm, exchange, func(s *fastpath.State) bool {
					return s.Counters != nil && s.Counters.Conntrack && s.Counters.Rules.Number > 0
				})
				said := *stateOf(t, arm).Counters
				said.AskKernel()
				checkDevices(t, said, config, m)
				rows := slices.Concat(devicesCounted(t, said, config, arm, m), []counted{
					{"counter of a rule", false, func() uint64 { return ruleCounter(t, m) }},
					{"accounting of connections", false, func() uint64 { return connectionCounter(t, m, arm) }},
					{"ForwDatagrams", false, func() uint64 { return forwarded(t, m) }},
				})
				checkCounted(t, arm, rows, exchange, true)
				for i := range rows {
					rows[i].raised = true
				}
				testenv.Shell(t, m.Namespace, "nft 'table ip slow { chain c { type filter hook forward priority 1; limit rate 1000000/second accept; }; }'")
				untilState(t, arm, exchange, func(s *fastpath.State) bool { return s.Off != "" && s.Counters == nil })
				checkCounted(t, arm, rows, exchange, false)
				testenv.Shell(t, m.Namespace, "nft delete table ip slow")
			})
		})
	}
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
	if !slices.Equal(said.Tunnels, c.Devices.Tunnels) || !slices.Equal(said.Bridges, bridges) || said.Veths+said.Netkits != 1 || (said.Netkits == 1) != (kind == "netkit") {
		t.Errorf("the daemon names %+v; there are tunnels %v, bridges %v and a pod behind %s", said, c.Devices.Tunnels, bridges, kind)
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
			counted{where + " RX", rx, func() uint64 { return statistics().RxPackets }},
			counted{where + " TX", tx, func() uint64 { return statistics().TxPackets }},
			counted{where + " capture of what comes", captureIn, func() uint64 { return incoming.total(t) }},
			counted{where + " capture of what leaves", captureOut, func() uint64 {
				seen := every.total(t)
				return seen - incoming.total(t)
			}},
		)
	}
	for _, name := range slices.Concat(said.Tunnels, said.Bridges) {
		device(name, m.Namespace, name, false, false, false, false)
	}
	veth := said.Veths > 0
	device("pod's device on the host", m.Namespace, c.Devices.Pods[0], veth, false, veth, false)
	device("device in the pod", arm.Client().Namespace, arm.Client().Device, !said.InPods, true, true, true)
	device("wire", m.Namespace, c.Devices.Wire, true, true, true, true)
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

// ruleCounter is what a machine's rule has counted.
func ruleCounter(t *testing.T, m lab.Machine) (packets uint64) {
	t.Helper()
	testenv.InNetns(t, m.Namespace, func() error {
		out, err := exec.Command("nft", "list", "table", "ip", "acct").CombinedOutput()
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

// forwarded is how many packets a machine has forwarded, by its own count.
func forwarded(t *testing.T, m lab.Machine) (packets uint64) {
	t.Helper()
	testenv.InNetns(t, m.Namespace, func() error {
		text, err := os.ReadFile("/proc/thread-self/net/snmp")
		if err != nil {
			return err
		}
		lines := strings.Split(string(text), "\n")
		at := slices.Index(strings.Fields(lines[0]), "ForwDatagrams")
		if at < 0 {
			return fmt.Errorf("no ForwDatagrams in %s", lines[0])
		}
		packets, err = strconv.ParseUint(strings.Fields(lines[1])[at], 10, 64)
		return err
	})
	return packets
}
