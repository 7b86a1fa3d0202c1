package e2e

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	vnl "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/fastpathtest"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
)

// Addresses of IPv6: of a machine on the wire, and of the pods of an arm on a machine.
func wireAddr6(machine int) string { return fmt.Sprintf("fd00:c8::%x", machine+1) }

func podAddr6(arm, machine int) netip.Addr {
	return netip.MustParseAddr(fmt.Sprintf("fd00:f4:%x:%x::2", arm, machine))
}

// wireMAC is that of a machine's wire.
func wireMAC(machine int) string { return fmt.Sprintf("0a:76:01:00:00:%02x", machine+1) }

// blockOf6 is the block of addresses of a pod's machine.
func blockOf6(pod netip.Addr) netip.Prefix { return netip.PrefixFrom(pod, 64).Masked() }

// tunnelAddr6 is the address of a machine on the vxlan device of an arm.
func tunnelAddr6(arm, machine int) string { return fmt.Sprintf("fd00:c9:%x::%x", arm, machine+1) }

// tunnel6 is the vxlan device over IPv6 of an arm, and tunnelPort6 its UDP port.
func tunnel6(arm int) string { return fmt.Sprint("six", arm) }

const tunnelPort6 = 8472

// tunnelIPv6 leads what an arm's pods send each other over IPv6 by a vxlan device over IPv6.
func tunnelIPv6(t testing.TB, l *lab.Lab, index int) {
	t.Helper()
	for i, m := range l.Machines {
		other := 1 - i
		shellIn(t, m.Namespace, strings.NewReplacer("OWN", tunnelAddr6(index, i), "NEXT", tunnelAddr6(index, other), "FROM", wireAddr6(i), "TO", wireAddr6(other), "NAME", tunnel6(index),
			"VNI", fmt.Sprint(100+index), "PORT", fmt.Sprint(tunnelPort6), "SRC", tunnelMAC6(index, i), "DST", tunnelMAC6(index, other), "THERE", blockOf6(podAddr6(index, other)).String()).Replace(`
ip link add NAME address SRC type vxlan id VNI dstport PORT local FROM dev wire0 nolearning
sysctl -qw net.ipv6.conf.NAME.accept_dad=0 net.ipv6.conf.NAME.accept_ra=0
ip link set NAME addrgenmode none up
ip -6 addr add OWN/64 dev NAME nodad
ip -6 neigh replace NEXT lladdr DST dev NAME nud permanent
bridge fdb replace DST dev NAME dst TO
ip -6 route replace THERE via NEXT dev NAME
`))
	}
}

// bridgeIPv6 makes the devices of an arm's pods ports of bridges, which lead to the pods over IPv6 from then on.
func bridgeIPv6(t testing.TB, l *lab.Lab, index int) {
	t.Helper()
	for i, m := range l.Machines {
		device := podDevice6(l.Arms[index], index)
		shellIn(t, m.Namespace, strings.NewReplacer("BRIDGE", fmt.Sprint("six-br", index), "DEVICE", device, "POD", podAddr6(index, i).String(), "MAC", podMACOf(t, l.Arms[index].Ends[i][0]),
			"GATEWAY", podMACOf(t, host.Endpoint{Namespace: m.Namespace, Device: device})).Replace(`
ip link add BRIDGE address GATEWAY type bridge
ip link set BRIDGE addrgenmode none up
ip link set DEVICE master BRIDGE
bridge fdb replace MAC dev DEVICE master static
ip -6 route replace POD/128 dev BRIDGE
ip -6 neigh replace POD lladdr MAC dev BRIDGE
`))
	}
}

func tunnelMAC6(arm, machine int) string { return fmt.Sprintf("02:00:00:c6:%02x:%02x", arm, machine+1) }

// shellIn runs a script in a namespace.
func shellIn(t testing.TB, namespace, script string) {
	t.Helper()
	cmd := exec.Command("sh", "-euc", script)
	out := new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = out, out
	if err := host.Do(namespace, cmd.Run); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// addIPv6 gives IPv6 to the machines and to the pods of a routed arm, as a second network beside that
// of IPv4: addresses, routes, and the gateway that all pods have.
func addIPv6(t testing.TB, l *lab.Lab, index int) lab.Arm {
	t.Helper()
	arm := l.Arms[index]
	arm.Ends = path.Ends{}
	for i, m := range l.Machines {
		other := 1 - i
		pod := l.Arms[index].Ends[i][0]
		device := podDevice6(arm, index)
		gateway := podMACOf(t, host.Endpoint{Namespace: m.Namespace, Device: device})
		shellIn(t, m.Namespace, strings.NewReplacer("BRIDGE", fmt.Sprint("six-br", index), "DEVICE", device, "POD", podAddr6(index, i).String(), "MAC", podMACOf(t, pod),
			"OWN", wireAddr6(i), "NEXT", wireAddr6(other), "HOP", wireMAC(other), "THERE", blockOf6(podAddr6(index, other)).String()).Replace(`
sysctl -qw net.ipv6.conf.all.forwarding=1 net.ipv6.conf.wire0.accept_dad=0
ip -6 addr replace OWN/64 dev wire0 nodad
ip -6 route replace THERE via NEXT dev wire0
ip -6 neigh replace NEXT lladdr HOP dev wire0
ip -6 route replace POD/128 dev DEVICE
ip -6 neigh replace POD lladdr MAC dev DEVICE
`))
		shellIn(t, pod.Namespace, strings.NewReplacer("POD", podAddr6(index, i).String(), "GATEWAY", gateway).Replace(`
ip -6 addr replace POD/128 dev eth0 nodad
ip -6 route replace fe80::1 dev eth0
ip -6 route replace default via fe80::1 dev eth0
ip -6 neigh replace fe80::1 lladdr GATEWAY dev eth0
`))
		pod.Addr = podAddr6(index, i)
		arm.Ends = append(arm.Ends, []host.Endpoint{pod})
	}
	return arm
}

// podDevice6 is the machines' device of the pod of a routed arm.
func podDevice6(arm lab.Arm, index int) string {
	if strings.HasPrefix(arm.Path, "netkit") {
		return fmt.Sprint("nk", index)
	}
	return fmt.Sprint("cali", index)
}

func podMACOf(t testing.TB, pod host.Endpoint) (mac string) {
	t.Helper()
	testenv.InNetns(t, pod.Namespace, func() error {
		l, err := vnl.LinkByName(pod.Device)
		if err == nil {
			mac = l.Attrs().HardwareAddr.String()
		}
		return err
	})
	return mac
}

// startIPv6 starts a fast path for IPv6 on both machines, beside the one for IPv4 that the arm may have. It
// follows the wire, or the arm's tunnel over IPv6.
func startIPv6(t testing.TB, l *lab.Lab, index int, arm lab.Arm, tunnelled bool) lab.Arm {
	t.Helper()
	arm.Pins = nil
	for _, m := range l.Machines {
		folder := filepath.Join(lab.Folder, l.Name, "ipv6-"+m.Name)
		testenv.Must(t, os.MkdirAll(folder, 0o700))
		c := fastpath.Config{
			Kind: fastpath.Routed6, Devices: topology.DeviceNames{Wire: "wire0", Pods: []string{podDevice6(arm, index)}},
			Stamp: uint8(8 + index), Pins: filepath.Join(folder, "bpf"), State: filepath.Join(folder, "fast.state"),
		}
		if tunnelled {
			c.Kind, c.Port, c.Devices.Tunnels = fastpath.VXLAN6, tunnelPort6, []string{tunnel6(index)}
		}
		file := filepath.Join(folder, "fast.json")
		testenv.Must(t, c.Write(file))
		said := new(bytes.Buffer)
		cmd := exec.Command(testenv.Program(t)[0], "fastpath", "--config", file)
		cmd.Stderr = said
		testenv.Must(t, host.Do(m.Namespace, cmd.Start))
		t.Cleanup(func() {
			testenv.Must(t, cmd.Process.Signal(unix.SIGTERM))
			if err := cmd.Wait(); err != nil {
				t.Errorf("the daemon for IPv6 ended: %v, it said: %s", err, said)
			}
			testenv.Must(t, kernel.UnmountPins(folder))
			testenv.Must(t, os.RemoveAll(folder))
		})
		end := time.Now().Add(testenv.Timeout)
		for {
			s, err := fastpath.ReadState(c.State)
			if err == nil && s.Pods == 1 && s.Peers >= 1 && s.Off == "" {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("after %v, the daemon for IPv6 says %+v (%v): %s", testenv.Timeout, s, err, said)
			}
			time.Sleep(10 * time.Millisecond)
		}
		arm.Pins = append(arm.Pins, c.Pins)
	}
	return arm
}

// Established flows over IPv6 are carried, both ways on both machines, beside those over IPv4, whether
// conntrack follows them or not.
func TestFastPathCarriesIPv6(t *testing.T) {
	requireFastPath(t)
	for _, services := range []int{0, 30} {
		l := testenv.Lab(t, lab.Options{Paths: []string{"routed+fast"}, Services: services})
		if services > 0 {
			track6(t, l)
		}
		six := startIPv6(t, l, 0, addIPv6(t, l, 0), false)
		four := l.Arms[0]
		for _, arm := range []lab.Arm{six, four} {
			t.Run(arm.Client().Addr.String(), func(t *testing.T) {
				traffic.CheckTCP(t, arm.Client(), arm.Server())
				fastpathtest.WithFlow(t, arm, func(exchange func(time.Duration) error) { fastpathtest.WaitCarried(t, arm, exchange) })
			})
		}
		t.Run("a rule for IPv6 ends IPv6 alone", func(t *testing.T) {
			fastpathtest.WithFlow(t, six, func(exchange6 func(time.Duration) error) {
				fastpathtest.WithFlow(t, four, func(exchange4 func(time.Duration) error) {
					fastpathtest.WaitCarried(t, six, exchange6)
					fastpathtest.WaitCarried(t, four, exchange4)
					rule(t, l, "add table ip6 deny; add chain ip6 deny f { type filter hook forward priority 0; }; add rule ip6 deny f meta l4proto udp drop")
					fastpathtest.WaitAnswered(t, exchange6, false)
					fastpathtest.WaitCarried(t, four, exchange4)
					rule(t, l, "delete table ip6 deny")
					fastpathtest.WaitAnswered(t, exchange6, true)
					fastpathtest.WaitCarried(t, six, exchange6)
				})
			})
		})
	}
}

// So are those in VXLAN over IPv6, behind veth and netkit pairs: also streams, whose packets the tunnel's device
// has cut into segments.
func TestFastPathCarriesIPv6InTunnel(t *testing.T) {
	requireFastPath(t)
	paths := []string{"routed+fast"}
	if answer, _ := feature.Netkit.Ask(); answer == feature.Yes {
		paths = append(paths, "netkit+fast:mode=l2")
	}
	for _, p := range paths {
		t.Run(p, func(t *testing.T) {
			l := testenv.Lab(t, lab.Options{Paths: []string{p}})
			six := addIPv6(t, l, 0)
			tunnelIPv6(t, l, 0)
			six = startIPv6(t, l, 0, six, true)
			fastpathtest.WithFlow(t, six, func(exchange func(time.Duration) error) { fastpathtest.WaitCarried(t, six, exchange) })
			before := fastpathtest.CarriedPackets(t, six)
			traffic.CheckTCP(t, six.Client(), six.Server())
			for i, now := range fastpathtest.CarriedPackets(t, six) {
				if now == before[i] {
					t.Errorf("machine %d carried nothing of a stream", i)
				}
			}
		})
	}
}

// rule gives the first machine rules of nftables.
func rule(t testing.TB, l *lab.Lab, rules string) {
	t.Helper()
	shellIn(t, l.Machines[0].Namespace, "nft '"+rules+"'")
}
